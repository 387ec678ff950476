package raftstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weir/messages/commandpb"
	"weir/raftstore/state"
)

// TestVerdictThatIsWrong has a hash in the log that no replica has, as a leader with bad memory could put it there: no
// replica ends, not even one that reads its log again, and all say so. One that differs later is still found.
func TestVerdictThatIsWrong(t *testing.T) {
	c := checkedCluster(t, 3, func(cfg *Config) { cfg.CheckPeriod = 0 })
	check := func(m *commandpb.CheckState) uint64 {
		t.Helper()
		results := c.propose(mustCommand(t, m))
		wantAccepted(t, results)
		return results[0].GetIndex()
	}
	told := c.talk.of("").Told
	point := func() uint64 {
		t.Helper()
		index := check(&commandpb.CheckState{})
		c.await("all tell their hashes", func() bool {
			return told()["r1"].Index == index && told()["r2"].Index == index && told()["r3"].Index == index
		})
		return index
	}
	check(&commandpb.CheckState{Index: point(), Hash: make([]byte, len(state.Hash{}))})
	for _, s := range c.running() {
		c.await(s.cfg.ReplicaID+" says so and goes on", func() bool {
			return s.Stats().Checks.Dispute != "" && s.machine.checks.halt() == nil
		})
	}
	wantAccepted(t, c.propose(setWeight(t, 7)))
	point()
	again := c.follower().cfg.ReplicaID
	c.stop(again)
	c.start(again)
	c.await(again+" reads the log again, says so and goes on", func() bool {
		s := c.stores[again]
		return len(c.ended) > 0 || s.Stats().Checks.Dispute != "" && s.machine.checks.halt() == nil
	})
	if len(c.ended) > 0 {
		t.Fatalf("a replica ended: %v", <-c.ended)
	}
	wrong := c.follower()
	drift(t, wrong, "drift")
	index := point()
	right := told()[c.leader().cfg.ReplicaID].Hash
	check(&commandpb.CheckState{Index: index, Hash: right[:]})
	if e := <-c.ended; e.replica != wrong.cfg.ReplicaID || !errors.Is(e.err, ErrDiverged) {
		t.Errorf("%s ended with %v, want %s to diverge", e.replica, e.err, wrong.cfg.ReplicaID)
	}
}

// TestFilesAside leaves nothing of a state that could not be written whole, and no more states than are kept.
func TestFilesAside(t *testing.T) {
	dir := t.TempDir()
	files := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	full := errors.New("no space left")
	err := writeWhole(filepath.Join(dir, "x"), func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<16))
		return errors.Join(err, full)
	})
	if left := files(); !errors.Is(err, full) || len(left) > 0 {
		t.Errorf("%v, and left %v", err, left)
	}
	for n := range 5 {
		if err := dropAside(dir, agreedPrefix); err != nil {
			t.Fatal(err)
		}
		// Of every other state only the first file was written.
		for _, suffix := range []string{hashesSuffix, snapshotSuffix}[:1+n%2] {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(agreedPrefix, n, suffix)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if left := files(); len(left) > 3 {
			t.Errorf("after %d states: %v", n+1, left)
		}
	}
}

// TestFoldersMovedAside rebuilds a folder again and again: the two newest stay, and what has no number.
func TestFoldersMovedAside(t *testing.T) {
	cfg := newCluster(t, 1, nil).config("r1")
	other := cfg.Dir + asideInfix + "kept"
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 12; n++ {
		err := errors.Join(os.Mkdir(cfg.Dir, 0o700), os.WriteFile(filepath.Join(cfg.Dir, identityFile), []byte("damaged"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{fmt.Sprint(cfg.Dir, asideInfix, n), other}
		if n > 1 {
			want = append(want, fmt.Sprint(cfg.Dir, asideInfix, n-1))
		}
		slices.Sort(want)
		aside, _, err := Rebuild(cfg)
		left, failed := filepath.Glob(cfg.Dir + "*")
		if err = errors.Join(err, failed); err != nil || filepath.Base(aside) != fmt.Sprint(filepath.Base(cfg.Dir), asideInfix, n) || !slices.Equal(left, want) {
			t.Fatalf("moved to %s, %v; left are %v, want %v", aside, err, left, want)
		}
	}
}
