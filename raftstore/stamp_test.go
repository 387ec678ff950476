package raftstore

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// stoppedClock tells one time.
type stoppedClock struct {
	wallClock
	at time.Time
}

// Now implements Clock.
func (c stoppedClock) Now() time.Time { return c.at }

// TestOnlyTheLeaderStamps (T7): a proposer whose clock is 30 days ahead leaves the state's time alone,
// on the leader, which applies what it has decoded, and on followers, which read the log.
func TestOnlyTheLeaderStamps(t *testing.T) {
	leaders := time.Unix(1_800_000_000, 0)
	c := startCluster(t, 3, func(cfg *Config) { cfg.Clock = stoppedClock{at: leaders} })
	month := timestamppb.New(leaders.Add(30 * 24 * time.Hour))
	pool := poolCreation(testPool)
	pool.Time = month
	wantAccepted(t, c.propose(mustCommand(t, pool)))
	drain := &commandpb.DrainNode{Node: "n", Time: month}
	if refused := c.propose(mustCommand(t, drain))[0].GetRefusal(); refused.GetCode() != state.CodeUnknownNode {
		t.Fatalf("got %v, want the node to be unknown", refused)
	}
	c.wantEqual()
	for id, s := range c.stores {
		s.View(func(st *state.State) {
			tree, _ := st.Tree(scheduling.DefaultTree)
			if got := tree.GetModifiedTime().AsTime(); !st.LastTime().Equal(leaders) || !got.Equal(leaders) {
				t.Errorf("replica %s: its time is %v, that of the tree %v; want the leader's, %v", id, st.LastTime(), got, leaders)
			}
		})
	}
}
