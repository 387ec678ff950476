package agent

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"weir/actors/agent/journal"
	"weir/messages/journalpb"
)

// brokenJournal takes nothing any more once its disk has failed.
type brokenJournal struct {
	records
	failed atomic.Bool
}

func (j *brokenJournal) Append(done func(error), records ...*journalpb.Record) {
	if j.failed.Load() {
		go done(fmt.Errorf("write journal: %w", journal.ErrDisk))
		return
	}
	j.records.Append(done, records...)
}

// startWith starts the agent with what is made of its journal, and returns its actor.
func (w *world) startWith(made func(records) records) *agentActor {
	w.t.Helper()
	log, found, err := journal.Open(journal.Config{Path: w.journalFile(), Node: "n1"})
	if err != nil {
		w.t.Fatal(err)
	}
	a := &agentActor{
		environment: environment{cfg: w.cfg, processes: w.machine, replicas: w.plane, folder: folder{w.cfg.StateDir}, journal: made(log)},
		roster:      NewRoster(w.cfg.Seeds, nil),
	}
	if w.agent, err = start(w.system, a, found.State); err != nil {
		w.t.Fatal(err)
	}
	w.advance(10 * time.Millisecond)
	return a
}

// TestAgentEndsWhenItsJournalDoes has the disk fail: nothing is done any more that the
// journal does not know, and the job goes on for the next process.
func TestAgentEndsWhenItsJournalDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		broken := &brokenJournal{}
		w.startWith(func(log records) records {
			broken.records = log
			return broken
		})
		w.send(plan(3, 7, granted("j", 9)))
		broken.failed.Store(true)
		asked := w.asks("JobSpecRequest")
		w.send(plan(3, 8, granted("k", 9)))
		<-w.agent.Done()
		if err := w.agent.Err(); !errors.Is(err, journal.ErrDisk) || w.logs.count("disk failed") != 1 {
			t.Errorf("ended with %v, logs %v; want the failed disk named once", err, w.logs.text)
		}
		if w.starts("k") != 0 || w.asks("JobSpecRequest") != asked {
			t.Error("an order was followed that the journal does not know")
		}
		if stops := w.stops("j"); len(stops) != 0 {
			t.Errorf("stops %v, want the job to go on", stops)
		}
		w.machine.leave()
		w.start()
		w.advance(2 * time.Second)
		w.exit("j", 0)
		w.want("j:completed")
	})
}
