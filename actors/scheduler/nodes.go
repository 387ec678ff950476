package scheduler

import (
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// The nodes of a tree: which there are, which may be given jobs, and which are to be
// looked at next.

// SetNode takes a node's committed record. A node of the tree gets jobs once it is
// online and has been offered in this term, while nobody drains it.
func (t *Tree) SetNode(node *statepb.Node) error {
	if node.GetTree() != string(t.name) {
		return t.dropNode(node.GetId())
	}
	if node.GetState() != statepb.NodeOnline || node.GetDrain() != nil {
		delete(t.awaited, node.GetId())
	}
	if t.incarnations[node.GetId()] != node.GetIncarnation() || node.GetState() != statepb.NodeOnline {
		t.withdraw(node.GetId())
		t.engine.EndClaims(scheduling.NodeID(node.GetId()))
	}
	t.incarnations[node.GetId()] = node.GetIncarnation()
	t.tags[node.GetId()] = node.GetTags()
	if node.GetDrain() != nil {
		t.draining[node.GetId()] = true
	} else if t.draining[node.GetId()] {
		delete(t.draining, node.GetId())
		t.enqueue(node.GetId())
	}
	return t.setNode(node.GetId(), node.GetResources().Amounts())
}

// dropNode takes out a node that is of another tree, or is forgotten.
func (t *Tree) dropNode(node string) error {
	if !t.has(node) {
		return nil
	}
	t.withdraw(node)
	delete(t.awaited, node)
	delete(t.incarnations, node)
	delete(t.tags, node)
	delete(t.draining, node)
	return t.engine.RemoveNode(scheduling.NodeID(node))
}

// has reports whether a node is of this tree.
func (t *Tree) has(node string) bool {
	_, has := t.incarnations[node]
	return has
}

// setNode tells the engine of a node.
func (t *Tree) setNode(node string, limits resource.Amounts) error {
	id := scheduling.NodeID(node)
	if err := t.engine.SetNode(id, limits, t.ready[node] && !t.draining[node], t.tags[node]...); err != nil {
		return err
	}
	return t.engine.Await(id, t.awaited[node])
}

// Offer says that a node lives and may be given jobs. One that is not known as a
// node of this tree is offered again when it is.
func (t *Tree) Offer(node string, limits resource.Amounts) error {
	if !t.has(node) {
		return nil
	}
	if !t.ready[node] {
		t.ready[node] = true
		delete(t.awaited, node)
		t.order = append(t.order, node)
		if err := t.setNode(node, limits); err != nil {
			return err
		}
	}
	t.enqueue(node)
	return nil
}

// Withdraw says that a node must not be given jobs.
func (t *Tree) Withdraw(node string, limits resource.Amounts) error {
	awaited := t.awaited[node]
	delete(t.awaited, node)
	if !t.withdraw(node) && !awaited {
		return nil
	}
	return t.setNode(node, limits)
}

func (t *Tree) withdraw(node string) bool {
	if !t.ready[node] {
		return false
	}
	delete(t.ready, node)
	for i, id := range t.order {
		if id == node {
			t.order = append(t.order[:i], t.order[i+1:]...)
			break
		}
	}
	return true
}

// OfferAll offers every node that lives: demand has grown.
func (t *Tree) OfferAll() {
	for _, node := range t.order {
		t.enqueue(node)
	}
}

func (t *Tree) enqueue(node string) {
	if t.ready[node] && !t.queued[node] {
		t.queued[node] = true
		t.queue = append(t.queue, node)
	}
}

// Waiting reports whether nodes are to be looked at.
func (t *Tree) Waiting() bool { return len(t.queue) > 0 }
