package scheduler

import (
	"math"
	"slices"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// This file keeps the nodes of a tree: which exist, which may be given jobs, and which are in the
// next plans.

// roster holds the nodes of a tree.
type roster struct {
	// ready are nodes that were offered in this term, in the order of their first offer.
	ready map[string]bool
	order []string
	// queue holds the nodes of the next plans; queued is the set of the same nodes. whole means that it holds
	// all that may be given jobs.
	queue  []string
	queued map[string]bool
	whole  bool
	// turn is the node in order whose turn it is in offerNext.
	turn int
	// doubted holds ready nodes that may be dead. They are in no plan until they are offered.
	doubted map[string]bool
	// awaited holds the nodes that were online when the tree was made and have not sent a heartbeat
	// since.
	awaited map[string]bool
	// draining holds the nodes that are being drained. They get no jobs, even if they are ready.
	draining map[string]bool
	// incarnations and tags describe the tree's nodes. Grants contain the incarnation; filters
	// match the tags.
	incarnations map[string]uint64
	tags         map[string][]string
}

// SetNode applies a node's committed record. A node of the tree gets jobs once it is online and
// has been offered in this term, unless it is being drained.
func (t *Tree) SetNode(node *statepb.Node) error {
	if node.GetTree() != string(t.name) {
		return t.dropNode(node.GetId())
	}
	if node.GetState() != statepb.NodeOnline || node.GetDrain() != nil {
		delete(t.nodes.awaited, node.GetId())
	}
	if t.nodes.incarnations[node.GetId()] != node.GetIncarnation() || node.GetState() != statepb.NodeOnline {
		t.nodes.withdraw(node.GetId())
		t.engine.EndClaims(scheduling.NodeID(node.GetId()))
	}
	t.nodes.incarnations[node.GetId()] = node.GetIncarnation()
	t.nodes.tags[node.GetId()] = node.GetTags()
	if node.GetDrain() != nil {
		t.nodes.draining[node.GetId()] = true
	} else if t.nodes.draining[node.GetId()] {
		delete(t.nodes.draining, node.GetId())
		t.nodes.enqueue(node.GetId())
	}
	return t.setNode(node.GetId(), node.GetResources().Amounts())
}

// dropNode removes a node that has moved to another tree or has been removed.
func (t *Tree) dropNode(node string) error {
	if !t.nodes.has(node) {
		return nil
	}
	t.nodes.withdraw(node)
	delete(t.nodes.awaited, node)
	delete(t.nodes.incarnations, node)
	delete(t.nodes.tags, node)
	delete(t.nodes.draining, node)
	return t.engine.RemoveNode(scheduling.NodeID(node))
}

// has reports whether a node belongs to this tree.
func (r *roster) has(node string) bool {
	_, has := r.incarnations[node]
	return has
}

// setNode updates a node in the engine.
func (t *Tree) setNode(node string, limits resource.Amounts) error {
	id := scheduling.NodeID(node)
	if err := t.engine.SetNode(id, limits, t.nodes.ready[node] && !t.nodes.draining[node], t.nodes.tags[node]...); err != nil {
		return err
	}
	return t.engine.Await(id, t.nodes.awaited[node])
}

// Offer records that a node is alive and may be given jobs. It ignores a node that is not known in
// this tree yet, which will be offered again later.
func (t *Tree) Offer(node string, limits resource.Amounts) error {
	if !t.nodes.has(node) {
		return nil
	}
	if !t.nodes.ready[node] {
		t.nodes.ready[node] = true
		delete(t.nodes.awaited, node)
		t.nodes.order = append(t.nodes.order, node)
		if err := t.setNode(node, limits); err != nil {
			return err
		}
	}
	delete(t.nodes.doubted, node)
	t.nodes.enqueue(node)
	return nil
}

// doubt records that a node may be dead, so that it is given no jobs until it is offered again.
func (r *roster) doubt(node string) {
	if r.ready[node] {
		r.doubted[node] = true
	}
}

// Withdraw records that a node must not be given jobs.
func (t *Tree) Withdraw(node string, limits resource.Amounts) error {
	awaited := t.nodes.awaited[node]
	delete(t.nodes.awaited, node)
	if !t.nodes.withdraw(node) && !awaited {
		return nil
	}
	return t.setNode(node, limits)
}

func (r *roster) withdraw(node string) bool {
	if !r.ready[node] {
		return false
	}
	delete(r.ready, node)
	delete(r.doubted, node)
	r.order = slices.DeleteFunc(r.order, func(id string) bool { return id == node })
	return true
}

// OfferAll offers every ready node, because demand has grown.
func (t *Tree) OfferAll() {
	if t.nodes.whole {
		return
	}
	for _, node := range t.nodes.order {
		t.nodes.enqueue(node)
	}
	t.nodes.whole = true
}

// offerNext offers the ready nodes whose turn it is, so that each has had one when the parts add up to 1.
func (r *roster) offerNext(part float64) {
	for range min(int(math.Ceil(float64(len(r.order))*part)), len(r.order)) {
		r.turn++
		r.enqueue(r.order[r.turn%len(r.order)])
	}
}

func (r *roster) enqueue(node string) {
	if r.ready[node] && !r.doubted[node] && !r.queued[node] {
		r.queued[node] = true
		r.queue = append(r.queue, node)
	}
}

// Waiting reports whether nodes wait for a plan.
func (t *Tree) Waiting() bool { return len(t.nodes.queue) > 0 }
