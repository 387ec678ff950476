package raftstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

const testPool = "ads"

func createPool(tb testing.TB, name string) *commandpb.Command {
	return mustCommand(tb, poolCreation(name))
}

func poolCreation(name string) *commandpb.EditTree {
	return &commandpb.EditTree{Tree: string(scheduling.DefaultTree), Edits: []*commandpb.TreeEdit{
		{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: name}}}}}
}

// setWeight writes value where weightOf reads it.
func setWeight(tb testing.TB, value int) *commandpb.Command {
	return mustCommand(tb, &commandpb.EditTree{Tree: string(scheduling.DefaultTree), Edits: []*commandpb.TreeEdit{
		{Edit: &commandpb.TreeEdit_ChangePool{ChangePool: &commandpb.PoolChange{Name: testPool, Options: &commandpb.Changes{
			Values: map[string]*structpb.Value{"weight": structpb.NewNumberValue(float64(value))}}}}}}})
}

func weightOf(s *Store) (value int) {
	s.View(func(st *state.State) {
		tree, _ := st.Tree(scheduling.DefaultTree)
		for _, pool := range tree.GetPools() {
			if pool.GetName() == testPool {
				value = int(pool.GetOptions().GetFields()["weight"].GetNumberValue())
			}
		}
	})
	return value
}

func wantAccepted(tb testing.TB, results []*commandpb.Result) {
	tb.Helper()
	for _, r := range results {
		if r.GetRefusal() != nil {
			tb.Fatalf("refused: %s", r.GetRefusal().GetMessage())
		}
	}
}

func TestReplicasAgree(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d replicas", n), func(t *testing.T) {
			c := startCluster(t, n, nil)
			wantAccepted(t, c.propose(createPool(t, testPool), setWeight(t, 7)))
			refused := c.propose(createPool(t, testPool), setWeight(t, 8))
			if refused[0].GetRefusal().GetCode() != state.CodePoolExists || refused[1].GetRefusal() != nil {
				t.Errorf("got %v, want the first command refused and the second carried out", refused)
			}
			if refused[0].GetIndex() != refused[1].GetIndex() {
				t.Errorf("commands of one call are in entries %d and %d", refused[0].GetIndex(), refused[1].GetIndex())
			}
			c.wantEqual()
			for id, s := range c.stores {
				if got := weightOf(s); got != 8 {
					t.Errorf("replica %s has weight %d, want 8", id, got)
				}
			}
			members, err := c.leader().Members()
			if err != nil || len(members) != n || members[0].Suffrage != Voter {
				t.Errorf("got members %v, %v, want %d voters", members, err, n)
			}
		})
	}
}

func TestRestartFromDisk(t *testing.T) {
	c := startCluster(t, 1, nil)
	wantAccepted(t, c.propose(createPool(t, testPool)))
	wantAccepted(t, c.propose(setWeight(t, 3)))
	for range 2 { // bootstrapping twice does nothing
		c.stop("r1")
		c.start("r1")
		c.leader()
		if got := weightOf(c.stores["r1"]); got != 3 {
			t.Fatalf("got weight %d after a restart, want 3", got)
		}
	}
}

func TestLaggingFollowerGetsASnapshot(t *testing.T) {
	c := startCluster(t, 3, func(cfg *Config) {
		cfg.TrailingLogs = 1
		cfg.WatchBuffer = 10
	})
	wantAccepted(t, c.propose(createPool(t, testPool)))
	lagging := c.follower().cfg.ReplicaID
	watch, err := c.stores[lagging].Watch(1)
	if err != nil {
		t.Fatal(err)
	}
	// Cut off, so that the store and its watch live on.
	c.wires[lagging].setCut(true)
	for i := range 50 {
		wantAccepted(t, c.propose(setWeight(t, i+1)))
	}
	leader := c.leader()
	if err := leader.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if first, err := leader.disk.FirstIndex(); err != nil || first < 40 {
		t.Fatalf("the log starts at %d, %v: the follower would not need a snapshot", first, err)
	}
	c.wires[lagging].setCut(false)
	c.wantEqual()
	if c.stores[lagging].Stats().RestoreTook == 0 {
		t.Error("no snapshot was restored")
	}
	var compacted *CompactedError
	for err = nil; err == nil; {
		_, err = watch.Next(testContext(t))
	}
	if !errors.As(err, &compacted) {
		t.Fatalf("the follower's watch: got %v, want ErrCompacted", err)
	}
	if compacted.Oldest < 40 {
		t.Errorf("got %+v, want the index after the snapshot", compacted)
	}
	// The snapshot is what the replica starts from, and watches begin after it.
	c.stop(lagging)
	restarted := c.start(lagging)
	c.wantEqual()
	if _, err := restarted.Watch(1); !errors.Is(err, ErrCompacted) {
		t.Errorf("watch from before the snapshot: got %v, want ErrCompacted", err)
	}
}

func TestWatchAcrossSnapshots(t *testing.T) {
	c := startCluster(t, 1, func(cfg *Config) { cfg.TrailingLogs = 2 })
	created := c.propose(createPool(t, testPool))
	s := c.leader()
	watch, err := s.Watch(created[0].GetIndex())
	if err != nil {
		t.Fatal(err)
	}
	var want []uint64
	want = append(want, created[0].GetIndex())
	for i := range 30 {
		want = append(want, c.propose(setWeight(t, i+1))[0].GetIndex())
		if i%10 == 9 {
			if err := s.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, index := range want {
		batch, err := watch.Next(testContext(t))
		if err != nil || batch.Index != index {
			t.Fatalf("got the events of %d, %v, want those of %d", batch.Index, err, index)
		}
	}
}

func TestPeersCountForAnEmptyFolderOnly(t *testing.T) {
	c := startCluster(t, 3, nil)
	wantAccepted(t, c.propose(createPool(t, testPool)))
	// A folder with the first entry alone still counts as empty.
	c.wantEqual()
	for name, tune := range map[string]func(*Config){
		"none":     func(cfg *Config) { cfg.InitialPeers = nil },
		"one more": func(cfg *Config) { cfg.InitialPeers = append(cfg.InitialPeers[:3:3], Peer{"r4", "127.0.0.1:1"}) },
	} {
		t.Run(name, func(t *testing.T) {
			c.halt()
			c.tune = tune
			c.startAll()
			c.wantEqual()
			for id, s := range c.stores {
				members, err := s.Members()
				if err != nil || len(members) != 3 || members[0].Address != c.peers[0].Address {
					t.Errorf("replica %s: got %v, %v, want %v", id, members, err, c.peers)
				}
			}
		})
	}
}

func TestClusterMovesToOtherAddresses(t *testing.T) {
	c := startCluster(t, 3, nil)
	wantAccepted(t, c.propose(createPool(t, testPool)))
	c.halt()
	moved := newCluster(t, 3, nil)
	moved.dir = c.dir
	moved.startAll()
	wantAccepted(t, moved.propose(setWeight(t, 2)))
	moved.wantEqual()
	members, err := moved.leader().Members()
	if err != nil || members[2].Address != moved.peers[2].Address {
		t.Errorf("got %v, %v, want %v", members, err, moved.peers)
	}
	current, _ := moved.follower().Leadership()
	for _, p := range moved.peers {
		if p.ID == current.LeaderID && p.Address != current.LeaderAddress {
			t.Errorf("the leader is said to be at %s, it is at %s", current.LeaderAddress, p.Address)
		}
	}
}

func TestWhatIsKnownOfAFailedProposal(t *testing.T) {
	s := startCluster(t, 1, nil).leader()
	tests := map[string]struct {
		err         error
		wantUnknown bool
	}{
		"refused by a follower":          {raft.ErrNotLeader, false},
		"refused during a transfer":      {raft.ErrLeadershipTransferInProgress, false},
		"in the log of a lost leader":    {raft.ErrLeadershipLost, true},
		"raft was shut down":             {raft.ErrRaftShutdown, true},
		"the leader's disk did not take": {errors.New("input/output error"), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := s.explainPropose(test.err)
			if errors.Is(err, ErrOutcomeUnknown) != test.wantUnknown || errors.Is(err, ErrNotLeader) == test.wantUnknown {
				t.Errorf("got %v, want unknown %v", err, test.wantUnknown)
			}
		})
	}
}

func TestClosedStore(t *testing.T) {
	c := startCluster(t, 1, nil)
	s := c.leader()
	watch, err := s.Watch(s.Applied() + 1)
	if err != nil {
		t.Fatal(err)
	}
	c.stop("r1")
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	ctx := testContext(t)
	_, proposed := s.Propose(ctx, setWeight(t, 1))
	_, read := s.ReadIndex(ctx)
	_, next := watch.Next(ctx)
	for name, err := range map[string]error{
		"propose": proposed, "read index": read, "barrier": s.Barrier(ctx), "transfer": s.Transfer(ctx, ""),
		"watch": next, "wait": s.WaitApplied(ctx, s.Applied()+1),
	} {
		if !errors.Is(err, ErrClosed) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: got %v, want ErrClosed", name, err)
		}
	}
	if current, _ := s.Leadership(); current.Leader {
		t.Error("a closed store leads")
	}
}

func TestBootstrapAtDifferentTimes(t *testing.T) {
	c := newCluster(t, 3, nil)
	// One alone waits; with the second there is a majority; the third comes late.
	first := c.start("r2")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := first.Barrier(ctx); err == nil {
		t.Error("one of three answers")
	}
	c.start("r3")
	c.elect()
	wantAccepted(t, c.propose(createPool(t, testPool)))
	c.start("r1")
	c.wantEqual()
}
