package raftstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// join starts a replica that is not in the list that the cluster began with.
func (c *cluster) join(id string) *Store {
	c.tb.Helper()
	listener := listen(c.tb)
	c.peers = append(c.peers, Peer{ID: id, Address: listener.Addr().String()})
	c.wires[id] = &wire{listener: listener}
	tune := c.tune
	c.tune = func(cfg *Config) {
		if tune != nil {
			tune(cfg)
		}
		cfg.InitialPeers = nil
	}
	return c.start(id)
}

func (c *cluster) address(id string) string {
	for _, p := range c.peers {
		if p.ID == id {
			return p.Address
		}
	}
	c.tb.Fatalf("no replica %s", id)
	return ""
}

// insist asks the leader until it agrees.
func (c *cluster) insist(what string, ask func(ctx context.Context, leader *Store) error) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := ask(ctx, c.leader())
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			c.tb.Fatalf("%s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// admit asks until the replica is what it is to be.
func (c *cluster) admit(a Applicant, want Suffrage) {
	c.tb.Helper()
	c.insist("admit "+a.ID, func(ctx context.Context, leader *Store) error {
		got, err := leader.Admit(ctx, a)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %q, want %q", a.ID, got, want)
		}
		return err
	})
}

func (c *cluster) suffrage(id string) Suffrage {
	c.tb.Helper()
	members, err := c.leader().Members()
	if err != nil {
		c.tb.Fatal(err)
	}
	for _, m := range members {
		if m.ID == id {
			return m.Suffrage
		}
	}
	return Stranger
}

// load proposes ever higher weights, as a client that tries until it is answered,
// until the returned function is called, which returns the last one.
func (c *cluster) load() (stop func() int) {
	c.propose(createPool(c.tb, testPool))
	var weight atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for next := 1; ctx.Err() == nil; next++ {
			for !c.write(next) {
				if ctx.Err() != nil {
					return
				}
			}
			weight.Store(int64(next))
		}
	})
	return func() int {
		cancel()
		done.Wait()
		return int(weight.Load())
	}
}

// write sets a weight at whichever replica leads, and reports whether it was
// answered. The weight may be set all the same.
func (c *cluster) write(weight int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, s := range c.running() {
		if results, err := s.Propose(ctx, setWeight(c.tb, weight)); err == nil {
			return results[0].GetRefusal() == nil
		}
	}
	return false
}

func TestReplicasComeAndGoUnderLoad(t *testing.T) {
	c := startCluster(t, 3, func(cfg *Config) {
		restless(cfg)
		cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.TrailingLogs = 50, 10*time.Millisecond, 20
	})
	c.leader()
	stop := c.load()
	for _, id := range []string{"r4", "r5"} {
		c.join(id)
		c.admit(Applicant{ID: id, Votes: true}, Stranger)
		c.insist("add "+id, func(ctx context.Context, leader *Store) error { return leader.AddReplica(ctx, id, c.address(id)) })
		c.admit(Applicant{ID: id, Address: c.address(id), Votes: true}, Voter)
	}
	// Each in turn, the leader too.
	for _, id := range []string{"r1", "r2", "r3", "r4", "r5"} {
		c.stop(id)
		c.start(id)
		c.insist(id+" is back", func(_ context.Context, leader *Store) error {
			if id == leader.cfg.ReplicaID {
				return nil
			}
			return (membership{leader}).readiness(id)
		})
	}
	for _, id := range []string{"r1", "r2"} {
		c.insist("remove "+id, func(ctx context.Context, leader *Store) error { return leader.RemoveReplica(ctx, id, false) })
		if got := c.suffrage(id); got != Stranger {
			t.Errorf("%s is %q after it was removed", id, got)
		}
		c.stop(id)
	}
	last := stop()
	if last == 0 {
		t.Error("nothing was written")
	}
	c.wantEqual()
	if got := weightOf(c.leader()); got != last && got != last+1 {
		t.Errorf("got weight %d after %d was answered", got, last)
	}
}

func TestReplicaThatLostItsLogDoesNotVote(t *testing.T) {
	c := startCluster(t, 3, nil)
	c.propose(createPool(t, testPool))
	lost := c.follower().cfg.ReplicaID
	c.stop(lost)
	if err := os.RemoveAll(filepath.Join(c.dir, lost)); err != nil {
		t.Fatal(err)
	}
	c.admit(Applicant{ID: lost, Address: c.address(lost), Empty: true}, NonVoter)
	c.tune = func(cfg *Config) {
		if cfg.ReplicaID == lost {
			cfg.InitialPeers = nil
		}
	}
	c.start(lost)
	c.admit(Applicant{ID: lost, Address: c.address(lost), Votes: true}, Voter)
	c.wantEqual()
	if got := c.suffrage(lost); got != Voter {
		t.Errorf("it is %q, want voter", got)
	}
}

func TestMembersThatAreNotChanged(t *testing.T) {
	c := startCluster(t, 3, restless)
	leader, follower := c.leader(), c.follower()
	dead := ""
	for id, s := range c.stores {
		if s != leader && s != follower {
			dead = id
		}
	}
	c.stop(dead)
	c.insist(dead+" is dead", func(_ context.Context, leader *Store) error {
		if err := (membership{leader}).readiness(dead); err == nil || !strings.Contains(err.Error(), "no response to the leader") {
			return fmt.Errorf("it lives: %w", err)
		}
		return nil
	})
	live := follower.cfg.ReplicaID
	tests := map[string]struct {
		change func(ctx context.Context, s *Store) error
		want   string
	}{
		"one too many removed":  {func(ctx context.Context, s *Store) error { return s.RemoveReplica(ctx, live, false) }, "only 1 are up"},
		"one too many demoted":  {func(ctx context.Context, s *Store) error { return s.DemoteReplica(ctx, live, false) }, "start or remove " + dead + " first"},
		"another address":       {func(ctx context.Context, s *Store) error { return s.AddReplica(ctx, live, "else:1") }, "remove it first"},
		"a taken address":       {func(ctx context.Context, s *Store) error { return s.AddReplica(ctx, "r9", c.address(live)) }, "is already at " + c.address(live)},
		"no address":            {func(ctx context.Context, s *Store) error { return s.AddReplica(ctx, "r9", "") }, "needs an id and an address"},
		"a vote for a stranger": {func(ctx context.Context, s *Store) error { return s.PromoteReplica(ctx, "r9") }, "not a member: add it first"},
		"no vote of a stranger": {func(ctx context.Context, s *Store) error { return s.DemoteReplica(ctx, "r9", false) }, "not a member"},
	}
	for name, test := range tests {
		// The leader may see late who lives, or be another one by now.
		c.insist(name, func(ctx context.Context, leader *Store) error {
			if err := test.change(ctx, leader); !errors.Is(err, ErrMembership) || !strings.Contains(err.Error(), test.want) {
				return fmt.Errorf("got %w, want %q", err, test.want)
			}
			return nil
		})
	}
	c.insist("a follower adds nobody", func(ctx context.Context, leader *Store) error {
		for _, s := range c.running() {
			if s == leader {
				continue
			}
			if err := s.AddReplica(ctx, "r9", "h:1"); !errors.Is(err, ErrNotLeader) {
				return fmt.Errorf("got %w, want ErrNotLeader", err)
			}
		}
		return nil
	})
	// The dead one can go, and be replaced.
	c.insist("remove the dead one", func(ctx context.Context, s *Store) error { return s.RemoveReplica(ctx, dead, false) })
	c.join("r4")
	c.insist("add r4", func(ctx context.Context, s *Store) error { return s.AddReplica(ctx, "r4", c.address("r4")) })
	err := c.leader().PromoteReplica(testContext(t), "r4")
	if early := err != nil && (strings.Contains(err.Error(), "catching up") || strings.Contains(err.Error(), "no response to the leader")); err != nil && !early && !errors.Is(err, ErrNotLeader) {
		t.Error(err)
	}
	c.insist("promote r4", func(ctx context.Context, s *Store) error { return s.PromoteReplica(ctx, "r4") })
	c.insist("demote r4", func(ctx context.Context, s *Store) error { return s.DemoteReplica(ctx, "r4", false) })
	c.admit(Applicant{ID: "r4"}, NonVoter)
}

func TestOnlyVoterStays(t *testing.T) {
	c := startCluster(t, 1, nil)
	if err := c.leader().RemoveReplica(testContext(t), "r1", true); !errors.Is(err, ErrMembership) || !strings.Contains(err.Error(), "only voter") {
		t.Errorf("got %v", err)
	}
	if _, err := c.leader().Admit(testContext(t), Applicant{ID: "r1", Empty: true}); !errors.Is(err, ErrMembership) {
		t.Errorf("a second r1: got %v", err)
	}
}

// TestHangingDiskOfTheLeader has the leader's disk hang: it stops, and another one
// leads.
func TestHangingDiskOfTheLeader(t *testing.T) {
	const id = "r1"
	fatal, disk := newFatalErrors(), newFrozenFiles()
	c := startCluster(t, 3, func(cfg *Config) {
		restless(cfg)
		if cfg.ReplicaID != id {
			return // However slow their disks are, they do not hang.
		}
		cfg.Fatal = fatal.fatal
		cfg.spoil = func(f files) files { disk.files = f; return disk }
		cfg.DiskStall = 5 * time.Second
	})
	c.propose(createPool(t, testPool))
	old := c.stores[id]
	c.insist(id+" leads", func(ctx context.Context, leader *Store) error { return leader.Transfer(ctx, id) })
	// A process whose disk has failed ends at once. This one does not, so it must not hear of what
	// others have decided since, or win their votes: raft falls over what it cannot write.
	wire := c.wires[id]
	disk.hangs = sync.OnceFunc(func() {
		wire.requests.hold()
		wire.answers.hold()
	})
	thaw := sync.OnceFunc(func() {
		disk.hangs() // So that there is something to release, whatever has failed.
		wire.requests.release()
		wire.answers.release()
		close(disk.thaw)
	})
	t.Cleanup(thaw)
	disk.frozen.Store(true)
	asked := make(chan bool, 1)
	go func() { asked <- c.write(5) }()
	select {
	case <-fatal.told:
	case <-time.After(patience):
		t.Fatal("a leader with a disk that hangs goes on")
	}
	if err := fatal.errs[0]; !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "no answer within 5s") {
		t.Errorf("got %v", err)
	}
	// What the process would do: it is gone.
	wire.setCut(true)
	c.forget(id)
	c.propose(setWeight(t, 6))
	if c.leader() == old {
		t.Error("it still leads")
	}
	down := old.raft.Shutdown()
	thaw()
	if err := errors.Join(old.transport.closeConns(), down.Error(), old.Close()); err != nil {
		t.Logf("close after the disk was given up: %v", err)
	}
	<-asked
}

// frozenFiles hang while they are frozen.
type frozenFiles struct {
	files
	frozen atomic.Bool
	// hangs is called before the first write that does.
	hangs func()
	thaw  chan struct{}
}

func newFrozenFiles() *frozenFiles { return &frozenFiles{thaw: make(chan struct{})} }

func (f *frozenFiles) StoreLogs(entries []*raft.Log) error {
	if f.frozen.Load() {
		f.hangs()
		<-f.thaw
	}
	return f.files.StoreLogs(entries)
}
