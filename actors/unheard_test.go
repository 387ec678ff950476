package actors

import (
	"testing"

	"weir/messages/actorpb"
)

// TestBrokenConnectionsAreTold (I4) has the leader's connection with an agent break. Every replica
// knows that no instance on that node is ready, though nothing is in the log, and that they are
// again when the agent is heard. Of an agent that says that it stops nothing is told: its jobs go on.
func TestBrokenConnectionsAreTold(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, nil)
	leader := c.leader()
	stopped, broken := startAgent(t, c, "n1"), startAgent(t, c, "n2")
	service := c.controlledBy(leader, "service")
	// As many as fill both.
	leader.interruptible(t, service, 8)
	everyone := func(what string, want map[string]bool) {
		t.Helper()
		for _, r := range c.replicas {
			eventually(t, r.id+" sees "+what, func() bool {
				ready := map[string]int{}
				for _, in := range r.instancesOf(service).GetInstances() {
					if in.GetState() != actorpb.InstanceLive || in.GetReady() != (in.GetUnready() == "") {
						return false
					}
					if in.GetReady() {
						ready[in.GetNode()]++
					}
				}
				return ready["n1"] == 4 == want["n1"] && ready["n2"] == 4 == want["n2"] && (ready["n1"]+ready["n2"])%4 == 0
			})
		}
	}
	everyone("that all are ready", map[string]bool{"n1": true, "n2": true})

	// What it is told of comes after what became of the other.
	stopped.stop()
	eventually(t, "the agent has gone", func() bool { return !leader.remote.Connected(peerOfAgent("n1")) })
	broken.mute.Store(true)
	eventually(t, "the leader doubts the node", func() bool {
		// Where the agent is back before that is noticed, nothing has happened.
		leader.remote.Disconnect(peerOfAgent("n2"))
		return leader.nodes.Unheard("n2")
	})
	index := leader.store.Applied()
	everyone("that those of one node are not", map[string]bool{"n1": true})
	broken.mute.Store(false)
	everyone("that all are ready again", map[string]bool{"n1": true, "n2": true})
	if leader.nodes.Unheard("n1") || leader.store.Applied() > index+20 {
		t.Errorf("the agent that has stopped is unheard: %t; %d entries were written", leader.nodes.Unheard("n1"), leader.store.Applied()-index)
	}
}
