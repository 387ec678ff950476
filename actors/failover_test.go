package actors

import (
	"slices"
	"testing"

	"weir/messages/statepb"
	"weir/raftstore/state"
)

// TestFirstGrantWaitsForNoNode has a leader crash together with the agent of one of two nodes. The next leader gives
// the other node jobs long before the lease of the silent one is over, and keeps the jobs of both.
func TestFirstGrantWaitsForNoNode(t *testing.T) {
	c := startCluster(t, 3, nil)
	first, other := c.leader(), c.follower()
	silent, spoken := startAgent(t, c, "n1"), startAgent(t, c, "n2")
	old := c.controlledBy(other, "old")
	other.submit(t, old, 8)
	eventually(t, "jobs run on both nodes", func() bool {
		return len(silent.running())+len(spoken.running()) == 8 && len(silent.running()) > 0 && len(spoken.running()) > 0
	})
	held := silent.running()
	silent.stop()
	c.without(first)
	spoken.finish()
	other.submit(t, "next", 1)
	other.await(t, "next", "completed")
	eventually(t, "only the jobs of the silent node are left", func() bool { return slices.Equal(slices.Sorted(slices.Values(other.jobsOf(old))), held) })
	other.store.View(func(s *state.State) {
		if n, _ := s.Node("n1"); n.GetState() != statepb.NodeOnline {
			t.Errorf("the silent node is %s: its lease was over before", n.GetState())
		}
	})
}
