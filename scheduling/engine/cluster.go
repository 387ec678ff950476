package engine

import (
	"weir/scheduling"
	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// cluster is the nodes, what they have in sum, and for whom.
type cluster struct {
	moment *moment

	nodes map[scheduling.NodeID]*node
	// list has the nodes in no order, each at its place.
	list []*node
	// total is the resources of all nodes that may run jobs, awaited that of those that are
	// about to be heard again.
	total, awaited resource.Amounts
	filters        filters
	// layout grows with every change of what nodes have, and of who may use them.
	layout uint64
	// classes are the nodes that take jobs, or are about to, in a layout, with the filters
	// of so many edits.
	classes                []alike
	classified, classEdits uint64
	// memory is the nodes by what they have of it, out of which best allocation
	// shares are found, now and then and when nodes have changed.
	memory       []fairshare.NodeMemory
	nodesChanged bool
}

// node returns the node of this id, unknown as yet when there is none.
func (cl *cluster) node(id scheduling.NodeID) *node {
	n := cl.nodes[id]
	if n == nil {
		n = &node{id: id}
		n.match(cl.filters.all)
		n.place = len(cl.list)
		cl.list = append(cl.list, n)
		cl.nodes[id] = n
	}
	return n
}

// knownNode returns a node that has registered and was not removed.
func (cl *cluster) knownNode(id scheduling.NodeID) (*node, error) {
	if n := cl.nodes[id]; n != nil && n.known {
		return n, nil
	}
	return nil, ErrUnknown
}

// forgetNode drops a node that is not known and holds nothing.
func (cl *cluster) forgetNode(n *node) {
	if n.known || len(n.held)+len(n.claims) > 0 || cl.nodes[n.id] != n {
		return
	}
	last := cl.list[len(cl.list)-1]
	cl.list[n.place], last.place = last, n.place
	cl.list[len(cl.list)-1] = nil
	cl.list = cl.list[:len(cl.list)-1]
	delete(cl.nodes, n.id)
}

// countMemory counts the nodes that may run jobs by their memory.
func (cl *cluster) countMemory() {
	nodes := map[int64]int64{}
	for _, n := range cl.nodes {
		nodes[n.offer().Memory]++
	}
	cl.memory = cl.memory[:0]
	for bytes, count := range nodes {
		cl.memory = append(cl.memory, fairshare.NodeMemory{Bytes: bytes, Nodes: count})
	}
}
