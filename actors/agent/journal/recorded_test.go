package journal

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/journalpb"
)

// TestRecordedFileIsRead reads a file that an earlier version wrote, and writes the same
// records to the same bytes.
func TestRecordedFileIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/journal.hex")
	must(t, err)
	recorded, err := hex.DecodeString(strings.TrimSpace(string(text)))
	must(t, err)
	_, _, want := written(t, sample())
	var batches [][]*journalpb.Record
	n, from := 0, int64(-1)
	end, err := replay(recorded, func(record *journalpb.Record) error {
		if got, want := fmt.Sprintf("%T", record.GetEvent()), fmt.Sprintf("%T", want[n].GetEvent()); got != want {
			t.Errorf("record %d is a %s, want a %s", n, got, want)
		}
		n++
		return nil
	})
	if err != nil || int(end) != len(recorded) || n != len(want) {
		t.Fatalf("%d records to offset %d of %d, %v; want %d", n, end, len(recorded), err, len(want))
	}
	for at := int64(len(signature)); at < end; {
		f, _ := frameAt(recorded, at)
		record := new(journalpb.Record)
		must(t, proto.Unmarshal(f.Record, record))
		if f.batch != from {
			batches, from = append(batches, nil), f.batch
		}
		batches[len(batches)-1] = append(batches[len(batches)-1], record)
		at = f.End
	}
	if again, _, _ := written(t, batches); string(again) != string(recorded) {
		t.Error("the same records are written to other bytes")
	}
	path := filepath.Join(t.TempDir(), "journal")
	must(t, os.WriteFile(path, recorded, 0o600))
	if _, found := open(t, path); found.State.Life != 9 || found.Cut != 0 || found.State.Token.Index != 7 {
		t.Errorf("got %+v, %d bytes cut off", found.State, found.Cut)
	}
}
