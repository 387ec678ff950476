package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/scheduling"
)

// grants appends the jobs of all grants that have come to a journal.
func grants(t *testing.T, tail *Tail, path string, into *[]string) {
	t.Helper()
	must(t, tail.Read(path, func(record *journalpb.Record) error {
		if id := record.GetGranted().GetJobId(); id != "" {
			*into = append(*into, id)
		}
		return nil
	}))
}

func TestTailGivesEachRecordOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	tail, spec := new(Tail), strings.Repeat("x", 100<<10)
	var got, want []string
	grants(t, tail, path, &got)
	j, _ := open(t, path)
	// Whatever is written anew has it.
	want = append(want, "kept")
	must(t, put(t, j, life("kept")[:1]...))
	grant := func(count int) {
		for range count {
			id := fmt.Sprint("j", len(want))
			want = append(want, id)
			must(t, put(t, j, Granted(grant(id, 2, 7), scheduling.Token{Term: 3, Index: 9}),
				Starting(&actorpb.JobSpec{JobId: id, Shell: spec}, ""), Released(id)))
		}
	}
	grant(1)
	grants(t, tail, path, &got)
	first, err := os.Stat(path)
	must(t, err)
	// Enough for one file that is written anew, with some before and behind it; then
	// once more.
	for range 2 {
		grant(8)
		grants(t, tail, path, &got)
		grant(8)
		grants(t, tail, path, &got)
	}
	last, err := os.Stat(path)
	must(t, err)
	if os.SameFile(first, last) {
		t.Error("the journal has not been written anew: nothing is tested")
	}
	if !slices.Equal(got, want) {
		t.Errorf("grants of %v, want %v", got, want)
	}
	must(t, j.Close())
	must(t, tail.Close())
}

func TestTailWaitsForTheRestOfARecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	must(t, put(t, j, life("a")...))
	must(t, put(t, j, life("b")...))
	must(t, j.Close())
	whole, err := os.ReadFile(path)
	must(t, err)
	growing, tail := filepath.Join(t.TempDir(), "journal"), new(Tail)
	var got []string
	for size := range whole {
		must(t, os.WriteFile(growing, whole[:size+1], 0o600))
		grants(t, tail, growing, &got)
	}
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("grants of %v, want a and b", got)
	}
	must(t, tail.Close())
}
