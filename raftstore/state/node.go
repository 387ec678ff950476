package state

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// node is a node and the allocations on it.
type node struct {
	record      *statepb.Node
	allocations map[scheduling.JobID]*statepb.Allocation
	// Invariant: usage is the sum of the node's allocations, of all its incarnations.
	usage resource.Amounts
	// ports maps each TCP port in use to its job.
	ports map[int32]scheduling.JobID
	// shrunk is set while the node's allocations hold more resources than it has, because it
	// registered with fewer.
	shrunk bool
	// claims are what the grants of nodes say about it.
	claims claimant
}

func newNode(record *statepb.Node) *node {
	return &node{record: record, allocations: make(map[scheduling.JobID]*statepb.Allocation), ports: make(map[int32]scheduling.JobID)}
}

func byNodeID(n *node, id scheduling.NodeID) int { return cmp.Compare(n.record.GetId(), string(id)) }

// free returns the node's free resources. They are negative if the node has shrunk.
func (n *node) free() resource.Amounts { return n.record.GetResources().Amounts().Sub(n.usage) }

// hold adds an allocation to the node.
func (n *node) hold(a *statepb.Allocation) {
	n.allocations[scheduling.JobID(a.GetJobId())] = a
	n.usage = n.usage.Add(a.GetResources().Amounts())
	for _, port := range a.GetPorts() {
		n.ports[port] = scheduling.JobID(a.GetJobId())
	}
}

// release removes an allocation from the node.
func (n *node) release(a *statepb.Allocation) {
	delete(n.allocations, scheduling.JobID(a.GetJobId()))
	n.usage = n.usage.Sub(a.GetResources().Amounts())
	for _, port := range a.GetPorts() {
		delete(n.ports, port)
	}
	n.resize()
}

// resize updates shrunk.
func (n *node) resize() { n.shrunk = !n.usage.Fits(n.record.GetResources().Amounts()) }

// registerNode makes a node known and online, in the pool tree whose filter matches it, if
// there is one. Allocations of an earlier incarnation stay until the leader aborts them.
func (c nodeChange) registerNode(m *commandpb.RegisterNode) *refusal {
	id := scheduling.NodeID(m.GetNode().GetId())
	switch {
	case id == "":
		return refuse(CodeInvalidCommand, "register node: the node has no id")
	case m.GetNode().GetIncarnation() == 0:
		return refuse(CodeInvalidCommand, "register node %q: incarnation 0: the first life of a node is 1", id)
	}
	if err := cmp.Or(checkResources(m.GetNode().GetResources()), checkPorts(m.GetNode())); err != nil {
		return refuse(CodeInvalidCommand, "register node %q: %v", id, err)
	}
	claims := claimantOf(c.State, m.GetNode())
	if claims.refusal != "" {
		return refuse(CodeNodeNotGranted, "register node %q: %s", id, claims.refusal)
	}
	n, known := c.nodes[id]
	if known && m.GetNode().GetIncarnation() < n.record.GetIncarnation() {
		return refuse(CodeStaleIncarnation, "register node %q: incarnation %d has ended, the current one is %d: "+
			"is there another agent with this name?", id, m.GetNode().GetIncarnation(), n.record.GetIncarnation())
	}
	tree, refused := c.treeOf(fmt.Sprintf("register node %q", id), m.GetNode().GetTags())
	if refused != nil {
		return refused
	}
	if known && n.record.GetTree() != tree && len(n.allocations) > 0 {
		return refuse(CodeTreeInUse, "register node %q: with the tags %v it would move from pool tree %q to %q, but it has %d jobs: "+
			"start it with its former tags %v, drain it and wait for the jobs to end", id, m.GetNode().GetTags(), n.record.GetTree(), tree,
			len(n.allocations), n.record.GetTags())
	}
	record := shallow(m.GetNode())
	record.Tree, record.State = tree, statepb.NodeOnline
	record.ChangedTime, record.RegisteredTime = c.timestamp(), c.timestamp()
	former := orEmpty(c.nodes, id).record
	record.Drain, record.NextPort, record.PreemptedTime = former.GetDrain(), former.GetNextPort(), former.GetPreemptedTime()
	if former.GetIncarnation() == record.GetIncarnation() {
		record.RegisteredTime = former.GetRegisteredTime()
	}
	if !known {
		n = newNode(record)
		c.nodes[id] = n
		at, _ := slices.BinarySearchFunc(c.byName, id, byNodeID)
		c.byName = slices.Insert(c.byName, at, n)
	}
	n.record = record
	n.resize()
	setClaimant(c.State, n, claims)
	c.emit(NodeChanged{ID: id, State: statepb.NodeOnline, Incarnation: record.GetIncarnation()})
	return nil
}

// setNodeOffline records that a node gets no more jobs. If it is offline already, nothing
// changes.
func (c nodeChange) setNodeOffline(m *commandpb.SetNodeOffline) *refusal {
	id := scheduling.NodeID(m.GetNode())
	n, known := c.nodes[id]
	switch {
	case !known:
		return refuse(CodeUnknownNode, "set node offline: no node %q has registered", id)
	case n.record.GetIncarnation() != m.GetIncarnation():
		return refuse(CodeStaleIncarnation, "set node %q offline: incarnation %d requested, but the current one is %d",
			id, m.GetIncarnation(), n.record.GetIncarnation())
	case n.record.GetState() == statepb.NodeOffline:
		return nil
	}
	c.changeNode(n, func(record *statepb.Node) { record.State = statepb.NodeOffline })
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
	if at, ok := slices.BinarySearchFunc(c.byName, id, byNodeID); ok {
		c.byName = slices.Delete(c.byName, at, at+1)
	}
	delete(c.refused, id)
	c.emit(NodeRemoved{ID: id})
	return nil
}

// changeNode replaces the record of a node by a changed copy and emits NodeChanged.
func (c *change) changeNode(n *node, set func(record *statepb.Node)) {
	n.record = shallow(n.record)
	n.record.ChangedTime = c.timestamp()
	set(n.record)
	c.emit(NodeChanged{ID: scheduling.NodeID(n.record.GetId()), State: n.record.GetState(), Incarnation: n.record.GetIncarnation()})
}

// checkResources returns an error unless every amount is between 0 and that of
// resource.Infinite, so that sums of a node's allocations are exact.
func checkResources(r *statepb.Resources) error {
	a := r.Amounts()
	if err := a.Validate(); err != nil {
		return err
	}
	if k, lacking := a.Lacking(resource.Infinite); lacking {
		return fmt.Errorf("resource %s: amount %d exceeds the limit, %d", k, a.Of(k), resource.Infinite.Of(k))
	}
	return nil
}

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
