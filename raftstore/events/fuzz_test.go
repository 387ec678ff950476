package events

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzSegment opens a segment of any bytes: what checks is read, the rest is cut off,
// and the log goes on behind it.
func FuzzSegment(f *testing.F) {
	whole := []byte(signature)
	var err error
	for i := uint64(1); i <= 2; i++ {
		if whole, err = appendAt(whole, i); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte(signature))
	f.Add([]byte("weir"))
	damaged := append([]byte{}, whole...)
	damaged[len(signature)+20]++
	f.Add(damaged)
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := configOf(t.TempDir())
		if err := os.WriteFile(filepath.Join(cfg.Dir, "00000000000000000001"+suffix), data, 0o600); err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, cfg)
		defer l.Close()
		before := readAll(t, l, 0, 0)
		next := l.Covered() + 1
		if next == 0 {
			return
		}
		l.Append(next, entryOf(next, 1))
		synced(t, l)
		after := readAll(t, l, 0, 0)
		if len(after) < len(before) || len(after) == 0 {
			t.Errorf("%v before, %v after one more event", before, after)
		}
	})
}

// appendAt appends the events of an index to a segment.
func appendAt(data []byte, index uint64) ([]byte, error) {
	frame, err := appendFrame(nil, int64(len(data)), entryRecord(index))
	return append(data, frame...), err
}
