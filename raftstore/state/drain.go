package state

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// drain returns the drain of a node; nil if there is none.
func (n *node) drain() *statepb.Drain { return n.record.GetDrain() }

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
	case len(m.GetReason()) > bounds.DrainReason:
		return refuse(CodeInvalidCommand, "drain node %q: reason has %d bytes, the limit is %d", m.GetNode(), len(m.GetReason()), bounds.DrainReason)
	}
	if n.drain() == nil || m.GetReason() != "" && m.GetReason() != n.drain().GetReason() {
		drain := &statepb.Drain{User: m.GetUser(), Time: c.timestamp(), Reason: m.GetReason()}
		c.changeNode(n, func(record *statepb.Node) { record.Drain = drain })
	}
	if m.GetInterruptMillis() > 0 {
		c.tellStops(c.orderAll(n.allocations, drainOrder(m, cutText(c.limits, n.drain().GetReason(), maxOrderBytes), c.timestamp())))
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
