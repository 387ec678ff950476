package engine

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
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

// filters are the node filters that pools and operations have, each once. A node
// knows by place which of them take it.
type filters struct {
	all []filter
	// free are the places that nobody has.
	free []int
	// edits grows when a place gets another filter.
	edits uint64
}

type filter struct {
	pooltree.Filter
	users int
	// total is the resources of the nodes that it takes and that may run jobs, awaited that
	// of those that are about to be heard again.
	total, awaited resource.Amounts
}

// useFilter returns the place of a filter, which one more element has now.
func (cl *cluster) useFilter(f pooltree.Filter) int {
	if f.Empty() {
		return allocation.NoFilter
	}
	for i := range cl.filters.all {
		if known := &cl.filters.all[i]; known.users > 0 && known.String() == f.String() {
			known.users++
			return i
		}
	}
	at := len(cl.filters.all)
	if n := len(cl.filters.free); n > 0 {
		at, cl.filters.free = cl.filters.free[n-1], cl.filters.free[:n-1]
	} else {
		cl.filters.all = append(cl.filters.all, filter{})
	}
	cl.filters.all[at] = filter{Filter: f, users: 1}
	cl.filters.edits++
	for _, n := range cl.nodes {
		if n.matchOne(cl.filters.all, at); n.takes[at] {
			cl.filters.all[at].count(n, resource.Amounts.Add)
		}
	}
	return at
}

// dropFilter takes back a use.
func (cl *cluster) dropFilter(at int) {
	if at == allocation.NoFilter {
		return
	}
	f := &cl.filters.all[at]
	if f.users--; f.users == 0 {
		*f = filter{}
		cl.filters.free = append(cl.filters.free, at)
	}
}

// changeFilter is useFilter of a filter in place of another one.
func (cl *cluster) changeFilter(at int, to pooltree.Filter) int {
	changed := cl.useFilter(to)
	cl.dropFilter(at)
	return changed
}

// matchOne finds whether the filter at a place, which may be a new one, takes the node.
func (n *node) matchOne(all []filter, at int) {
	takes := all[at].Match(n.tags)
	switch more := len(all) - len(n.takes); {
	case more > 0:
		n.takes = append(n.takes, make([]bool, more)...)
	case n.takes[at] != takes:
		n.takes = slices.Clone(n.takes)
	default:
		return
	}
	n.takes[at] = takes
}

// match finds which filters take the node.
func (n *node) match(all []filter) {
	n.takes = make([]bool, len(all))
	for i := range all {
		n.takes[i] = all[i].users > 0 && all[i].Match(n.tags)
	}
}

// count adds what a node offers, or is about to, to the cluster and to the filters that
// take it, or takes it away.
func (cl *cluster) count(n *node, add func(resource.Amounts, resource.Amounts) resource.Amounts) {
	cl.total, cl.awaited = add(cl.total, n.offer()), add(cl.awaited, n.expected())
	for i := range cl.filters.all {
		if f := &cl.filters.all[i]; f.users > 0 && n.takes[i] {
			f.count(n, add)
		}
	}
}

func (f *filter) count(n *node, add func(resource.Amounts, resource.Amounts) resource.Amounts) {
	f.total, f.awaited = add(f.total, n.offer()), add(f.awaited, n.expected())
}

// limitsOf is what fair shares take for the limits of an element: what was set, and
// what the nodes have that its own filter takes (F.2). While nodes have the time to come
// back to a new leader, it is no less than that part of the nodes that are there which
// the filter takes of all that are, or will be.
func (cl *cluster) limitsOf(set resource.Amounts, at int) resource.Amounts {
	if at == allocation.NoFilter {
		return set
	}
	f := &cl.filters.all[at]
	if cl.moment.connected || cl.awaited.IsZero() {
		return set.Min(f.total)
	}
	part := resource.Share(f.total.Add(f.awaited), cl.total.Add(cl.awaited))
	return set.Min(f.total.Max(part.Amounts(cl.total)))
}

// node is a machine, or the memory of one that still holds allocations.
type node struct {
	id     scheduling.NodeID
	limits resource.Amounts
	usage  resource.Amounts
	tags   []string
	// takes says which filters take the node, by their places. Surveys have it too: what
	// they have seen of it does not change.
	takes []bool
	// place is that in the list of the engine; surveyed is the last survey that has it.
	place    int
	surveyed uint64
	// known nodes have registered and were not removed.
	known       bool
	schedulable bool
	// awaited nodes take no jobs, and are about to.
	awaited bool
	// overcommitted says that usage came to exceed limits by other than a start:
	// the limits fell, or allocations were found there.
	overcommitted bool
	// since is when that was first seen by a heartbeat; zero when it is not so.
	since time.Time
	held  []*holding
	// leaving of usage has been told to go; claimed is held for those who wait.
	leaving resource.Amounts
	claims  []*claim
	claimed resource.Amounts
	// reserved keeps what is free for a job that needs more.
	reserved reservation
	// attempted is when preemption was tried last; zero: never.
	attempted time.Time
	// looked is when the node was looked at last; zero: never.
	looked time.Time
}

// SetNode tells the resources of a node, whether jobs may start on it, and its tags,
// by which pools and operations choose. Jobs that run there go on in any case.
func (e *Engine) SetNode(id scheduling.NodeID, limits resource.Amounts, schedulable bool, tags ...string) error {
	if err := limits.Validate(); err != nil {
		return fmt.Errorf("set node %s: %w", id, err)
	}
	n := e.cluster.node(id)
	if !n.known || n.limits != limits || n.schedulable != schedulable || !slices.Equal(n.tags, tags) {
		e.moment.age++
		e.cluster.layout++
	}
	e.cluster.count(n, resource.Amounts.Sub)
	n.limits, n.known, n.schedulable = limits, true, schedulable
	if !slices.Equal(n.tags, tags) {
		n.tags = slices.Clone(tags)
		n.match(e.cluster.filters.all)
	}
	e.cluster.count(n, resource.Amounts.Add)
	e.cluster.nodesChanged = true
	n.judge()
	e.claims.trim(n)
	return nil
}

// RemoveNode takes a node out of the cluster. What its allocations hold stays
// used until each is removed.
func (e *Engine) RemoveNode(id scheduling.NodeID) error {
	n, err := e.cluster.knownNode(id)
	if err != nil {
		return fmt.Errorf("remove node %s: %w", id, err)
	}
	e.cluster.count(n, resource.Amounts.Sub)
	e.moment.age++
	e.cluster.layout++
	n.limits, n.known, n.schedulable, n.awaited = resource.Amounts{}, false, false, false
	e.cluster.nodesChanged = true
	for len(n.claims) > 0 {
		e.claims.endClaim(n.claims[0], ClaimNodeLost)
	}
	if n.reserved.pool != nil {
		n.reserved.end()
	}
	n.judge()
	e.cluster.forgetNode(n)
	return nil
}

// offer is the part of the node in the resources of the cluster.
func (n *node) offer() resource.Amounts {
	if !n.known || !n.schedulable {
		return resource.Amounts{}
	}
	return n.limits
}

// expected is what a node that is about to be heard again will offer.
func (n *node) expected() resource.Amounts {
	if !n.known || n.schedulable || !n.awaited {
		return resource.Amounts{}
	}
	return n.limits
}

func (n *node) free() resource.Amounts { return n.limits.Sub(n.usage) }

// judge marks a node whose allocations hold more than it has. Of an unknown node
// no one can say.
func (n *node) judge() {
	n.overcommitted = n.known && !n.usage.Fits(n.limits)
	if !n.overcommitted {
		n.since = time.Time{}
	}
}

// hold counts h as used. It does not judge: only who finds allocations does,
// lest a start that does not fit goes unnoticed.
func (n *node) hold(h *holding) {
	h.at = len(n.held)
	n.held = append(n.held, h)
	n.usage = n.usage.Add(h.Resources)
}

func (n *node) release(h *holding) {
	last := n.held[len(n.held)-1]
	n.held[h.at], last.at = last, h.at
	n.held[len(n.held)-1] = nil
	n.held = n.held[:len(n.held)-1]
	n.usage = n.usage.Sub(h.Resources)
	n.judge()
}
