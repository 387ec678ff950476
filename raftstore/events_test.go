package raftstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"weir/raftstore/events"
)

// eventLogs opens an event log for each replica that is started, and has the replica
// use it.
type eventLogs struct {
	t    *testing.T
	logs map[string]*events.Log
}

func (l *eventLogs) tune(cfg *Config) {
	l.close(cfg.ReplicaID)
	own := events.Default()
	own.Dir, own.Logger = filepath.Join(cfg.Dir, "..", cfg.ReplicaID+"-events"), cfg.Logger
	log, err := events.Open(own)
	if err != nil {
		l.t.Fatal(err)
	}
	l.logs[cfg.ReplicaID] = log
	cfg.Events = log
}

func (l *eventLogs) close(replica string) {
	if log := l.logs[replica]; log != nil {
		if err := log.Close(); err != nil {
			l.t.Error(err)
		}
	}
}

// read returns the events of a replica up to what it has applied, gaps as such.
func (l *eventLogs) read(s *Store) (told []string) {
	l.t.Helper()
	log := l.logs[s.cfg.ReplicaID]
	if err := log.WaitCovered(testContext(l.t), s.Applied()); err != nil {
		l.t.Fatal(err)
	}
	r := log.Read(log.Oldest(), 0)
	defer r.Close()
	for {
		some, _, more, err := r.Next()
		var gap *events.GapError
		switch {
		case errors.As(err, &gap):
			told = append(told, fmt.Sprintf("gap to %d", gap.To))
			r.Skip(gap)
		case err != nil:
			l.t.Fatal(err)
		case more != nil:
			return told
		}
		for _, e := range some {
			told = append(told, fmt.Sprintf("%d.%d %s %v", e.GetIndex(), e.GetPosition(), e.GetKind(), e.GetAttributes()))
		}
	}
}

// TestEventsAcrossRestartsAndSnapshots has replicas restart from snapshots, and one be
// given one: all tell the same, and the one what it misses.
func TestEventsAcrossRestartsAndSnapshots(t *testing.T) {
	l := &eventLogs{t: t, logs: map[string]*events.Log{}}
	c := newCluster(t, 3, func(cfg *Config) {
		cfg.TrailingLogs = 1
		l.tune(cfg)
	})
	// Before the cluster's own cleanup stops the stores, which comes first.
	c.startAll()
	defer func() {
		c.halt()
		for _, p := range c.peers {
			l.close(p.ID)
		}
	}()
	wantAccepted(t, c.propose(createPool(t, testPool)))
	for i := range 20 {
		wantAccepted(t, c.propose(setWeight(t, i+1)))
	}
	c.wantEqual()
	// A restart from a snapshot misses nothing: it is taken when the events are on disk.
	again := c.follower()
	if err := again.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c.stop(again.cfg.ReplicaID)
	c.start(again.cfg.ReplicaID)
	wantAccepted(t, c.propose(setWeight(t, 99)))
	c.wantEqual()
	want := l.read(c.leader())
	if len(want) < 22 {
		t.Fatalf("the leader tells %d events: %v", len(want), want)
	}
	for _, s := range c.running() {
		if got := l.read(s); !slices.Equal(got, want) {
			t.Errorf("%s tells\n%v\nthe leader\n%v", s.cfg.ReplicaID, got, want)
		}
	}
	// One that was cut off for too long is given a snapshot.
	lagging := c.follower().cfg.ReplicaID
	c.wires[lagging].setCut(true)
	for i := range 30 {
		wantAccepted(t, c.propose(setWeight(t, i+1)))
	}
	if err := c.leader().raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c.wires[lagging].setCut(false)
	c.wantEqual()
	wantAccepted(t, c.propose(setWeight(t, 77)))
	c.wantEqual()
	want = l.read(c.leader())
	got := l.read(c.stores[lagging])
	missing := slices.IndexFunc(got, func(line string) bool { return len(line) > 3 && line[:3] == "gap" })
	if missing < 22 {
		t.Fatalf("no gap is told: %v", got)
	}
	behind := got[missing+1:]
	if !slices.Equal(got[:missing], want[:missing]) || len(behind) == 0 || !slices.Equal(behind, want[len(want)-len(behind):]) {
		t.Errorf("around the gap it tells\n%v\nthe leader\n%v", got, want)
	}
}
