package events

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRecordedSegmentIsRead reads a segment that an earlier version wrote, and writes the
// same events to the same bytes.
func TestRecordedSegmentIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/segment.hex")
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	again := []byte(signature)
	for index := uint64(1); index <= 3; index++ {
		if again, err = appendAt(again, index); err != nil {
			t.Fatal(err)
		}
	}
	if string(again) != string(recorded) {
		t.Error("the same events are written to other bytes")
	}
	cfg := configOf(t.TempDir())
	if err := os.WriteFile(filepath.Join(cfg.Dir, "00000000000000000001"+suffix), recorded, 0o600); err != nil {
		t.Fatal(err)
	}
	l := mustOpen(t, cfg)
	defer l.Close()
	if got, want := readAll(t, l, 0, 0), []string{"1.0", "1.1", "2.0", "2.1", "3.0", "3.1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
