package state

import (
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// drain says who keeps jobs away from a node; nil: nobody, or there is no node.
func (n *node) drain() *statepb.Drain {
	if n == nil {
		return nil
	}
	return n.record.GetDrain()
}

// maxReasonBytes bounds the reason of a drain: it goes into every list of nodes.
const maxReasonBytes = 1024

// drainNode keeps new jobs away from a node, online or not. Jobs that run there go
// on.
func (c *change) drainNode(m *commandpb.DrainNode) *refusal {
	n, known := c.nodes[scheduling.NodeID(m.GetNode())]
	switch {
	case !known:
		return refuse(CodeUnknownNode, "drain node: no node %q has registered: see weir node list", m.GetNode())
	case len(m.GetReason()) > maxReasonBytes:
		return refuse(CodeInvalidCommand, "drain node %q: the reason has %d bytes, at most %d are kept", m.GetNode(), len(m.GetReason()), maxReasonBytes)
	case n.drain() != nil && (m.GetReason() == "" || m.GetReason() == n.drain().GetReason()):
		return nil
	}
	c.setDrain(n, &statepb.Drain{User: m.GetUser(), Time: c.timestamp(), Reason: m.GetReason()})
	return nil
}

// undrainNode lets a node have jobs again.
func (c *change) undrainNode(m *commandpb.UndrainNode) *refusal {
	n, known := c.nodes[scheduling.NodeID(m.GetNode())]
	switch {
	case !known:
		return refuse(CodeUnknownNode, "undrain node: no node %q has registered: see weir node list", m.GetNode())
	case n.drain() == nil:
		return nil
	}
	c.setDrain(n, nil)
	return nil
}

func (c *change) setDrain(n *node, drain *statepb.Drain) {
	record := shallow(n.record)
	record.Drain = drain
	record.ChangedTime = c.timestamp()
	n.record = record
	c.emit(NodeChanged{ID: scheduling.NodeID(record.GetId()), State: record.GetState(), Incarnation: record.GetIncarnation()})
}
