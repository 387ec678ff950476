package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/actors/agent/journal"
	"weir/messages/journalpb"
)

// TestPausedLeader stops the leader as it stands (SIGSTOP). It is replaced, and when
// it wakes up, what it had ordered comes too late: the agent refuses it and notes so
// in its journal.
//
// By itself a leader that wakes up hardly orders anything: it steps down before it
// has looked around. So its last order before the pause, to start a job, is held up on
// its way to the agent, and arrives when the agent has heard the next leader.
func TestPausedLeader(t *testing.T) {
	agents := []string{"n1", "n2", "n3", "n4", "n5"}
	c := prepareCluster(t, here, agents...)
	c.more = []string{"--timing", "fast"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	dir := c.folder(t)
	for round, agent := range agents {
		old, next := c.pauseLeader(t, agent, dir)
		var late *journalpb.Rejected
		if next != "" {
			late = c.lateOrder(t, agent, old)
		}
		if late != nil {
			if late.GetToken().GetTerm() >= late.GetSeen().GetTerm() {
				t.Errorf("refused was %v, want an order of %s of an earlier term than %s's", late, old, next)
			}
			t.Logf("an order %d.%d of %s was refused in round %d: %d.%d of %s had been seen", late.GetToken().GetTerm(), late.GetToken().GetIndex(),
				old, round+1, late.GetSeen().GetTerm(), late.GetSeen().GetIndex(), next)
			break
		}
		// Another replica led before, or nobody for so long that the agent had hung up.
		if round == len(agents)-1 {
			t.Errorf("no order came late in %d rounds", len(agents))
		}
		// Or it would be given the next job.
		c.nodeIs(t, agent, "offline")
	}
	for cookie, lines := range witnessed(t, dir) {
		if len(lines) != 2 || lines[0].pid != lines[1].pid || lines[1].what != "end" {
			t.Errorf("%s did not run exactly once: %v", cookie, lines)
		}
	}
}

// pauseLeader has the leader order a job of the one agent that runs, holds the order
// up, pauses the leader until the agent has heard the next one, and lets both go on.
// The job is started once, and ends well. There is no next leader if the lead had moved on
// by itself, as it does on a busy machine, before the order was under way.
func (c *cluster) pauseLeader(t *testing.T, agent, dir string) (old, next string) {
	t.Helper()
	old = c.leader(t)
	way := newGate(t, c.addresses[old])
	// It finds the others by the leader's word, and reaches them by no gate.
	flags := c.agentFlags(agent)
	flags[slices.Index(flags, "--replicas")+1] = old + "=" + way.address()
	node := c.launch(agent, c.launcher, flags...)
	node.says(t, "msg=registered")
	release := filepath.Join(dir, "release-"+agent)
	way.hold()
	operation := c.start(t, object{"tasks": object{agent: small(1, "run", dir, release)}})
	leads := true
	until(t, "the order is under way", func() string {
		if leads = c.leader(t) == old; !leads {
			return ""
		}
		if jobs := c.jobs(t, operation); len(jobs) != 1 || way.waiting() == 0 {
			return fmt.Sprintf("%d bytes are held up; jobs %v", way.waiting(), jobs)
		}
		return ""
	})
	if leads {
		c.process(old).pause(t)
		until(t, agent+" has heard the next leader", func() string {
			if next = c.leader(t); !strings.Contains(node.printed(), "leader="+next) {
				return next + " leads"
			}
			return ""
		})
		way.let()
		c.process(old).resume(t)
	} else {
		way.let()
	}
	until(t, old+" knows who leads", func() string {
		if st, err := c.status(t.Context(), old); err != nil || st.GetLeader() != c.leader(t) {
			return fmt.Sprint(st, err)
		}
		return ""
	})
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 1 || p.GetAborted() != 0 || p.GetFailed() != 0 {
		t.Errorf("progress %v", p)
	}
	if err := node.stop(); err != nil {
		t.Fatal(err)
	}
	return old, next
}

// lateOrder returns the order of a replica that an agent has refused for its token;
// nil: there was none.
func (c *cluster) lateOrder(t *testing.T, agent, of string) (late *journalpb.Rejected) {
	t.Helper()
	var tail journal.Tail
	err := tail.Read(filepath.Join(c.data(agent), "journal"), func(record *journalpb.Record) error {
		if r := record.GetRejected(); r.GetToken().GetTerm() != 0 && r.GetFrom() == of {
			late = r
		}
		return nil
	})
	if err := errors.Join(err, tail.Close()); err != nil {
		t.Fatal(err)
	}
	return late
}
