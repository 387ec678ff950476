package state

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// drain returns the drain of a node; nil if there is none.
func (n *node) drain() *statepb.Drain { return n.record.GetDrain() }

// maxReasonBytes bounds the reason of a drain: every list of nodes includes it.
const maxReasonBytes = 1024

// drainNode keeps new jobs away from a node, which may be online or offline. The node's running
// jobs continue, or are interrupted. Draining a drained node again may interrupt its jobs, or
// shorten the time that they have left.
func (c nodeChange) drainNode(m *commandpb.DrainNode) *refusal {
	n, known := c.nodes[scheduling.NodeID(m.GetNode())]
	if refused := checkGrace(fmt.Sprintf("drain node %q", m.GetNode()), m.GetInterruptMillis()); refused != nil {
		return refused
	}
	switch {
	case !known:
		return refuse(CodeUnknownNode, "drain node: no node %q has registered: see weir node list", m.GetNode())
	case len(m.GetReason()) > maxReasonBytes:
		return refuse(CodeInvalidCommand, "drain node %q: the reason has %d bytes, the limit is %d", m.GetNode(), len(m.GetReason()), maxReasonBytes)
	}
	if n.drain() == nil || m.GetReason() != "" && m.GetReason() != n.drain().GetReason() {
		drain := &statepb.Drain{User: m.GetUser(), Time: c.timestamp(), Reason: m.GetReason()}
		c.changeNode(n, func(record *statepb.Node) { record.Drain = drain })
	}
	if m.GetInterruptMillis() > 0 {
		c.tellStops(c.orderAll(n.allocations, drainOrder(m, n.drain().GetReason(), c.timestamp())))
	}
	return nil
}

// drainOrder is the stop order for the jobs of a node that is drained.
func drainOrder(m *commandpb.DrainNode, reason string, at *timestamppb.Timestamp) *statepb.StopOrder {
	message := fmt.Sprintf("node %q is drained by user %q", m.GetNode(), m.GetUser())
	if reason != "" {
		message += ": " + reason
	}
	return &statepb.StopOrder{
		Reason: lifecycle.AbortUserRequest.String(), Message: message, GraceMillis: m.GetInterruptMillis(),
		Time: at, Interruption: statepb.InterruptedByDrain,
	}
}

// undrainNode allows new jobs on a node again.
func (c nodeChange) undrainNode(m *commandpb.UndrainNode) *refusal {
	n, known := c.nodes[scheduling.NodeID(m.GetNode())]
	switch {
	case !known:
		return refuse(CodeUnknownNode, "undrain node: no node %q has registered: see weir node list", m.GetNode())
	case n.drain() == nil:
		return nil
	}
	c.changeNode(n, func(record *statepb.Node) { record.Drain = nil })
	return nil
}

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
