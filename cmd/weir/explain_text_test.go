package main

import (
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/figures"
	"weir/messages/explainpb"
)

// TestHere writes times as the clock of the reader shows them.
func TestHere(t *testing.T) {
	now := time.Date(2026, 3, 1, 13, 0, 0, 0, time.FixedZone("CET", 3600))
	for text, want := range map[string]string{
		"until 2026-03-01T23:30:00Z, or later": "until 2026-03-02 00:30:00 CET, or later",
		"2026-03-01T11:00:00.25Z":              "2026-03-01 12:00:00 CET",
		"no time: 2026-13-01T11:00:00Z":        "no time: 2026-13-01T11:00:00Z",
		"job j-2026 of pool T":                 "job j-2026 of pool T",
	} {
		if got := here(text, now); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestLeftOut (T4) shows how much an explanation leaves out.
func TestLeftOut(t *testing.T) {
	text := explanationText(&explainpb.Explanation{Text: "no room", FactsLeftOut: 7, TasksLeftOut: 1200}, figures.IDs{}, time.Now())
	for _, want := range []string{"  - and 7 more\n", "1200 more of its tasks have jobs to start\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}
