package state

import (
	"fmt"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// removeNode forgets a node that is offline. Its lease has expired, so its agent has ended its
// jobs; those still counted as running are aborted. An online node is forgotten only with force,
// and only if it is drained and has no jobs: a job that was still running would be started a second
// time elsewhere.
func (c nodeChange) removeNode(m *commandpb.RemoveNode) *refusal {
	id := scheduling.NodeID(m.GetNode())
	what := fmt.Sprintf("remove node %q", id)
	n, known := c.nodes[id]
	switch {
	case !known:
		return refuse(CodeUnknownNode, "%s: no such node has registered: see weir node list", what)
	case n.record.GetState() != statepb.NodeOnline:
	case n.drain() == nil:
		return refuse(CodeNodeInUse, "%s: it is online: drain it, stop its agent, and remove it once it is offline", what)
	case !m.GetForce():
		return refuse(CodeNodeInUse, "%s: it is online: stop its agent and remove it once it is offline, or use force once it has no jobs; "+
			"with force it registers again when its agent reconnects", what)
	case len(n.allocations) > 0:
		return refuse(CodeNodeInUse, "%s: it is online and has %d jobs: wait for them, interrupt them (weir node drain %s --interrupt-timeout 1m), "+
			"or stop its agent", what, len(n.allocations), id)
	}
	var lost losses
	for _, a := range byGrant(n.allocations) {
		c.lose(&lost, a, lifecycle.AbortNodeOffline.String())
	}
	c.tellLosses(lost)
	delete(c.nodes, id)
	c.emit(NodeRemoved{ID: id})
	return nil
}
