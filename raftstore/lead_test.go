package raftstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestFollowersNameTheLeader(t *testing.T) {
	c := startCluster(t, 3, nil)
	leader, follower := c.leader(), c.follower()
	ctx := testContext(t)
	if err := follower.WaitApplied(ctx, c.propose(createPool(t, testPool))[0].GetIndex()); err != nil {
		t.Fatal(err)
	}
	_, proposed := follower.Propose(ctx, setWeight(t, 1))
	_, read := follower.ReadIndex(ctx)
	for name, err := range map[string]error{
		"propose": proposed, "read index": read, "barrier": follower.Barrier(ctx), "transfer": follower.Transfer(ctx, ""),
	} {
		var hint *NotLeaderError
		if !errors.As(err, &hint) || !errors.Is(err, ErrNotLeader) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s on a follower: got %v, want ErrNotLeader", name, err)
		} else if hint.LeaderID != leader.cfg.ReplicaID || hint.Address != leader.cfg.Address {
			t.Errorf("%s: hint %+v, want %s at %s", name, hint, leader.cfg.ReplicaID, leader.cfg.Address)
		}
	}
}

func TestLeadIsHandedOver(t *testing.T) {
	tests := map[string]func(t *testing.T, c *cluster, leader *Store){
		"by transfer to any": func(t *testing.T, _ *cluster, leader *Store) {
			if err := leader.Transfer(testContext(t), ""); err != nil {
				t.Fatal(err)
			}
		},
		"by close": func(_ *testing.T, c *cluster, leader *Store) { c.stop(leader.cfg.ReplicaID) },
	}
	for name, hand := range tests {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 3, nil)
			wantAccepted(t, c.propose(createPool(t, testPool)))
			leader := c.leader()
			before, _ := leader.Leadership()
			hand(t, c, leader)
			next, _ := c.leader().Leadership()
			if next.LeaderID == before.LeaderID || next.Term <= before.Term {
				t.Errorf("before %+v, after %+v", before, next)
			}
			wantAccepted(t, c.propose(setWeight(t, 2)))
			c.wantEqual()
		})
	}
}

func TestTransferToAReplica(t *testing.T) {
	c := startCluster(t, 3, nil)
	leader, to := c.leader(), c.follower().cfg.ReplicaID
	ctx := testContext(t)
	if err := leader.Transfer(ctx, leader.cfg.ReplicaID); err != nil {
		t.Errorf("to the leader itself: %v", err)
	}
	if err := leader.Transfer(ctx, "r9"); err == nil {
		t.Error("to a replica that does not exist: no error")
	}
	// What is to be said before is committed by the one that leads still.
	words := 0
	leader.BeforeTransfer(func(ctx context.Context) {
		words++
		if _, err := leader.Propose(ctx, createPool(t, testPool)); err != nil {
			t.Errorf("last words: %v", err)
		}
	})
	if err := leader.Transfer(ctx, to); err != nil {
		t.Fatal(err)
	}
	if got := c.leader().cfg.ReplicaID; got != to || words != 1 {
		t.Errorf("%s leads after %d last words, want %s after 1", got, words, to)
	}
	c.wantEqual()
	only := startCluster(t, 1, nil)
	if err := only.leader().Transfer(ctx, ""); err == nil {
		t.Error("the only voter: no error")
	}
}

// TestTransferToAReplicaThatIsAway is refused, however often it is asked for, and commands are accepted.
func TestTransferToAReplicaThatIsAway(t *testing.T) {
	c := startCluster(t, 3, func(cfg *Config) { cfg.Timeouts = steady() })
	leader, to := c.leader(), c.follower().cfg.ReplicaID
	c.propose(createPool(t, testPool))
	c.stop(to)
	waitUntil(t, "the replica is known to be away", func() bool {
		return leader.transport.silent.silent(raft.ServerID(to), leader.raft.CurrentTerm()) != nil
	})
	for range 2 {
		if err := leader.Transfer(testContext(t), to); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("got %v", err)
		}
		wantAccepted(t, c.propose(setWeight(t, 2)))
	}
}

// TestLastWordsOfALeaderThatCloses has them committed, whether or not there is somebody
// to lead afterwards.
func TestLastWordsOfALeaderThatCloses(t *testing.T) {
	for name, replicas := range map[string]int{"alone": 1, "with others": 3} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, replicas, nil)
			leader := c.leader()
			// However slow the disks are, the words have time.
			leader.patience = patience
			words := make(chan error, 1)
			leader.BeforeTransfer(func(ctx context.Context) {
				_, err := leader.Propose(ctx, createPool(t, testPool))
				words <- err
			})
			c.stop(leader.cfg.ReplicaID)
			select {
			case err := <-words:
				if err != nil {
					t.Errorf("last words: %v", err)
				}
			default:
				t.Error("the leader went without a word")
			}
			if len(words) != 0 {
				t.Error("the last words were said twice")
			}
			if replicas > 1 {
				c.wantEqual()
			}
		})
	}
}

func TestLeaderWithoutAMajority(t *testing.T) {
	c := startCluster(t, 3, restless)
	c.propose(createPool(t, testPool))
	old := c.leader()
	c.wires[old.cfg.ReplicaID].setCut(true)
	ctx := testContext(t)
	// Whether the old leader knows already or not, neither is a result.
	if _, err := old.Propose(ctx, setWeight(t, 666)); !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrNotLeader) {
		t.Errorf("propose: got %v", err)
	}
	if _, err := old.ReadIndex(ctx); !errors.Is(err, ErrNotLeader) {
		t.Errorf("read index: got %v, want ErrNotLeader", err)
	}
	delete(c.stores, old.cfg.ReplicaID)
	wantAccepted(t, c.propose(setWeight(t, 2)))
	c.stores[old.cfg.ReplicaID] = old
	c.wires[old.cfg.ReplicaID].setCut(false)
	c.wantEqual()
	if got := weightOf(old); got != 2 {
		t.Errorf("the old leader has weight %d, want 2", got)
	}
}

// TestLeaderWhoseProcessIsGone: a port that refuses connections tells more than silence. The heartbeat
// timeout, by which this cluster would elect nobody during the test, need not pass.
func TestLeaderWhoseProcessIsGone(t *testing.T) {
	timeouts := steady()
	timeouts.Heartbeat, timeouts.Election, timeouts.Lease = 20*time.Second, 20*time.Second, 5*time.Second
	c := startCluster(t, 3, func(cfg *Config) { cfg.Timeouts = timeouts })
	c.propose(createPool(t, testPool))
	old := c.leader()
	before, _ := old.Leadership()
	began := time.Now()
	if err := old.transport.closeConns(); err != nil {
		t.Fatal(err)
	}
	c.forget(old.cfg.ReplicaID)
	next, _ := c.leader().Leadership()
	if next.Term != before.Term+1 || time.Since(began) >= timeouts.Heartbeat {
		t.Errorf("term %d after %v, want %d before the heartbeat timeout of %v", next.Term, time.Since(began), before.Term+1, timeouts.Heartbeat)
	}
	wantAccepted(t, c.propose(setWeight(t, 2)))
	for _, s := range c.running() {
		for current, changed := s.Leadership(); current.Term != next.Term; current, changed = s.Leadership() {
			<-changed
		}
	}
	c.stores[old.cfg.ReplicaID] = old
}

// TestLeaderThatIsOnlyCutOff: a connection that breaks is no reason for an election, as long as the leader's
// port does not refuse the next one.
func TestLeaderThatIsOnlyCutOff(t *testing.T) {
	c := startCluster(t, 3, nil)
	c.propose(createPool(t, testPool))
	leader := c.leader()
	before, _ := leader.Leadership()
	for range 5 {
		c.wires[leader.cfg.ReplicaID].setCut(true)
		c.wires[leader.cfg.ReplicaID].setCut(false)
		wantAccepted(t, c.propose(setWeight(t, 2)))
	}
	for _, s := range c.running() {
		if s == leader {
			continue
		}
		v := vacancy{s}
		if current, gone := v.leaderGone(); gone || current.Term != before.Term {
			t.Errorf("%s: leader %+v gone: %v, want that of term %d", s.cfg.ReplicaID, current, gone, before.Term)
		}
		if v.refuses(raft.ServerAddress(leader.cfg.Address)) {
			t.Errorf("%s: the port of a leader that lives refuses connections", s.cfg.ReplicaID)
		}
	}
	c.wantEqual()
}

// TestTurnsOfVoters has the voters stand for election in the order of their ids, from the one that follows the leader's.
func TestTurnsOfVoters(t *testing.T) {
	voters := []raft.ServerID{"r3", "r1", "r2"}
	for gone, want := range map[raft.ServerID][]raft.ServerID{
		"r1": {"r2", "r3"}, "r2": {"r3", "r1"}, "r3": {"r1", "r2"}, "removed": {"r1", "r2", "r3"}, "r20": {"r3", "r1", "r2"},
	} {
		for turn, self := range want {
			if got := turnOf(self, gone, voters); got != turn {
				t.Errorf("%s gone: %s stands after %d others, want %d", gone, self, got, turn)
			}
		}
	}
	if got := turnOf("removed", "r1", voters[1:2]); got != 0 {
		t.Errorf("without other voters: after %d", got)
	}
}

func TestLeadershipChannel(t *testing.T) {
	signal := newLeadershipSignal()
	_, changed := signal.read()
	if _, differs := signal.set(Leadership{}); differs {
		t.Error("setting the same value is a change")
	}
	signal.set(Leadership{Leader: true, Term: 1})
	<-changed
	_, changed = signal.read()
	signal.set(Leadership{Leader: true, Term: 2})
	<-changed
	if current, _ := signal.read(); current.Term != 2 {
		t.Errorf("got %+v", current)
	}
}
