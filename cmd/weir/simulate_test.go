package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weir/internal/simulate"
)

// TestSimulateFlags: flags that have no effect are refused, before any cluster is asked.
func TestSimulateFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                              "give a FILE, or --live",
		"x.yaml --live":                 "give a FILE, or --live",
		"x.yaml --save /tmp/x":          "--save needs --live",
		"x.yaml --tree gpu":             "--tree needs --live",
		"x.yaml --addresses h:1":        "--addresses needs --live",
		"--live --set duration=soon":    "duration: is the text \"soon\": a time with a unit is needed, such as 30s, 12h or 7d",
		"--live --duration 3":           "duration: is the number 3: a time with a unit is needed, such as 30s, 12h or 7d",
		"--live --control pools.weight": "--control pools.weight: write it as PATH=VALUE, such as pools.ads.weight=5",
	} {
		t.Run(args, func(t *testing.T) {
			cmd := newSimulateCommand()
			cmd.SetArgs(strings.Fields(args))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetOut(io.Discard)
			err := cmd.Execute()
			var coded *exitError
			if !errors.As(err, &coded) || coded.code != exitUsage || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// TestSaveLive: what was saved is not replaced.
func TestSaveLive(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	if err := saveLive(folder, []byte("a"), []byte("b")); err != nil {
		t.Fatal(err)
	}
	if err := saveLive(folder, []byte("c"), []byte("d")); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v, want that the file exists", err)
	}
	for name, want := range map[string]string{"simulation.yaml": "a", simulate.TraceFile: "b"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
}
