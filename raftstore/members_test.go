package raftstore

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestReplicasThatAreAccepted (T6) asks replicas whom they let in: from the start on the members, who are
// the founders at first, and then those of the moment.
func TestReplicasThatAreAccepted(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.doubtAfter = patience })
	first := c.start("r1")
	if err := first.Accepts("r2"); err != nil {
		t.Errorf("before there is a leader: %v", err)
	}
	if first.Accepts("r9") == nil {
		t.Error("before there is a leader a stranger is accepted")
	}
	c.start("r2")
	c.start("r3")
	c.elect()
	c.propose(createPool(t, testPool))
	c.wantEqual()
	for id, store := range c.stores {
		for _, member := range []string{"r1", "r2", "r3"} {
			if err := store.Accepts(member); err != nil {
				t.Errorf("%s refuses %s: %v", id, member, err)
			}
		}
		if err := store.Accepts("r9"); err == nil || !strings.Contains(err.Error(), "weir cluster add") {
			t.Errorf("%s about r9: %v", id, err)
		}
	}
	leader, gone := c.leader(), c.follower().cfg.ReplicaID
	if err := leader.RemoveReplica(testContext(t), gone, false); err != nil {
		t.Fatal(err)
	}
	if leader.Accepts(gone) == nil {
		t.Errorf("%s is accepted after it was removed", gone)
	}
	if err := leader.AddReplica(testContext(t), gone, c.address(gone)); err != nil {
		t.Fatal(err)
	}
	if err := leader.Accepts(gone); err != nil {
		t.Errorf("after it was added again: %v", err)
	}
}

// TestMembersFromTheStart (T6) removes a replica and starts another again, which has heard of no leader
// since: it knows the members from its log or its snapshot, before its store is open, and refuses the one
// that was removed until it doubts its list. Even then it gives it no vote and takes no term from it, and
// doubt ends with a leader.
func TestMembersFromTheStart(t *testing.T) {
	for name, snapshot := range map[string]bool{"from the log": false, "from a snapshot": true} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 3, nil)
			leader, gone := c.leader(), c.follower()
			if err := leader.RemoveReplica(testContext(t), gone.cfg.ReplicaID, false); err != nil {
				t.Fatal(err)
			}
			c.propose(createPool(t, testPool))
			var members []string
			for _, p := range c.peers {
				if p.ID != gone.cfg.ReplicaID {
					members = append(members, p.ID)
					waitUntil(t, p.ID+" has the change", func() bool { return c.stores[p.ID].Accepts(gone.cfg.ReplicaID) != nil })
				}
			}
			if snapshot {
				for _, id := range members {
					if err := c.stores[id].raft.Snapshot().Error(); err != nil {
						t.Fatal(err)
					}
				}
			}
			c.settle()
			for _, id := range members {
				c.stop(id)
				dir := filepath.Join(c.dir, id)
				if onDisk, err := MembersOnDisk(dir); err != nil || !slices.Equal(slices.Sorted(slices.Values(onDisk)), members) {
					t.Errorf("members in the folder of %s: %v, %v; want %v", id, onDisk, err, members)
				}
			}
			c.askAfterRestart(t, members, gone)
		})
	}
	if onDisk, err := MembersOnDisk(t.TempDir()); err != nil || len(onDisk) != 0 {
		t.Errorf("members in an empty folder: %v, %v", onDisk, err)
	}
}

// askAfterRestart starts the first of two members, which has no leader then, with and without doubt.
func (c *cluster) askAfterRestart(t *testing.T, members []string, gone *Store) {
	t.Helper()
	name := gone.cfg.ReplicaID
	c.tune = func(cfg *Config) { cfg.doubtAfter = patience }
	here := c.start(members[0])
	if err := here.Accepts(members[1]); err != nil {
		t.Errorf("the other member: %v", err)
	}
	if err := here.Accepts(name); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("the removed one, right after the start: %v", err)
	}
	c.stop(members[0])

	c.tune = func(cfg *Config) { cfg.doubtAfter = time.Millisecond }
	here = c.start(members[0])
	waitUntil(t, "it doubts", func() bool { return here.Accepts(name) == nil })
	term, target := here.raft.CurrentTerm(), raft.ServerAddress(here.cfg.Address)
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(name), Addr: gone.transport.EncodePeer(gone.self(), raft.ServerAddress(gone.cfg.Address))}
	for _, transfer := range []bool{false, true} {
		var vote raft.RequestVoteResponse
		ask := raft.RequestVoteRequest{RPCHeader: header, Term: term + 9, LastLogIndex: 1 << 40, LastLogTerm: term + 8, LeadershipTransfer: transfer}
		if err := gone.transport.RequestVote(here.self(), target, &ask, &vote); err != nil || vote.Granted {
			t.Errorf("the removed one got the answer %v to its candidature, %v", &vote, err)
		}
	}
	var vote raft.RequestPreVoteResponse
	ask := raft.RequestPreVoteRequest{RPCHeader: header, Term: term + 9, LastLogIndex: 1 << 40, LastLogTerm: term + 8}
	if err := gone.transport.RequestPreVote(here.self(), target, &ask, &vote); err != nil || vote.Granted {
		t.Errorf("the removed one got the answer %v to its pre-vote, %v", &vote, err)
	}
	if now := here.raft.CurrentTerm(); now != term {
		t.Errorf("the removed one made term %d of %d", now, term)
	}
	c.start(members[1])
	c.elect()
	waitUntil(t, "a leader ends the doubt", func() bool { return here.Accepts(name) != nil })
}
