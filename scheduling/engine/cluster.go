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

// cluster holds the nodes, their total resources, and the filters that choose among them.
type cluster struct {
	moment *moment

	nodes map[scheduling.NodeID]*node
	// list holds the nodes in no particular order, each at index node.place.
	list []*node
	// total is the sum of the resources of all nodes that may run jobs. awaited is the sum for the
	// nodes that are expected to reconnect.
	total, awaited resource.Amounts
	filters        filters
	// layout is incremented with every change of the resources of nodes, or of the elements that
	// may use the nodes.
	layout uint64
	// classes are the groups of alike nodes that take jobs, or are expected to. The fields
	// classified and classEdits hold the values of layout and filters.edits when the groups were
	// made.
	classes                []alike
	classified, classEdits uint64
	// memory counts the nodes by the memory that they have. Best allocation shares are computed
	// from it, periodically and when nodes have changed.
	memory       []fairshare.NodeMemory
	nodesChanged bool
}

// node returns the node with this id. If there is none, it adds an unknown node.
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

// filters are the node filters of pools and operations, without duplicates. Nodes, pools and
// operations refer to a filter by its index.
type filters struct {
	all []filter
	// free are the unused indexes.
	free []int
	// edits is incremented when an index gets another filter.
	edits uint64
}

type filter struct {
	pooltree.Filter
	users int
	// total is the sum of the resources of the matching nodes that may run jobs. awaited is the sum
	// for the matching nodes that are expected to reconnect.
	total, awaited resource.Amounts
}

// useFilter returns the index of a filter, and counts one more user of it.
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

// dropFilter decrements the number of users of a filter.
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

// changeFilter replaces the filter of one user, and returns the index of the new one.
func (cl *cluster) changeFilter(at int, to pooltree.Filter) int {
	changed := cl.useFilter(to)
	cl.dropFilter(at)
	return changed
}

// matchOne updates whether the filter at an index, which may be new, matches the node.
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

// match updates which filters match the node.
func (n *node) match(all []filter) {
	n.takes = make([]bool, len(all))
	for i := range all {
		n.takes[i] = all[i].users > 0 && all[i].Match(n.tags)
	}
}

// count adds what a node offers, or is expected to offer, to the totals of the cluster and of the
// filters that match the node. It subtracts instead if `add` is a subtraction.
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

// limitsOf returns the limits of an element for the computation of fair shares. They are the limits
// that were set, but no more than the resources of the nodes that match the element's own filter
// (F.2). While nodes may still reconnect to a new leader, the second bound is at least the current
// total times the fraction of all nodes, connected and awaited, that match the filter.
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

// node is a machine, or the record of an unknown one that holds allocations or claims.
type node struct {
	id     scheduling.NodeID
	limits resource.Amounts
	usage  resource.Amounts
	tags   []string
	// takes says by index which filters match the node. Surveys share the slice, so its elements
	// never change.
	takes []bool
	// place is the index of the node in cluster.list. surveyed is the number of the last survey
	// that includes the node.
	place    int
	surveyed uint64
	// known nodes have registered and were not removed.
	known       bool
	schedulable bool
	// awaited nodes take no jobs yet, but are expected to reconnect.
	awaited bool
	// overcommitted says that usage exceeds limits for a reason other than a start: limits were
	// lowered, or allocations were added.
	overcommitted bool
	// since is when a heartbeat first found the node overcommitted; zero if none has.
	since time.Time
	held  []*holding
	// leaving is the part of usage that leaving allocations hold. claimed is what claims hold.
	leaving resource.Amounts
	claims  []*claim
	claimed resource.Amounts
	// reserved keeps the free resources for a job that needs more.
	reserved reservation
	// attempted is when preemption was last tried; zero: never.
	attempted time.Time
	// looked is the time of the last heartbeat of the node; zero if there was none.
	looked time.Time
}

// SetNode sets the resources of a node, whether jobs may start on it, and the tags by which
// pools and operations choose nodes. Running jobs continue in any case.
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

// RemoveNode removes a node from the cluster. What its allocations hold counts as used until each of
// them is removed.
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

// offer returns what the node adds to the resources of the cluster.
func (n *node) offer() resource.Amounts {
	if !n.known || !n.schedulable {
		return resource.Amounts{}
	}
	return n.limits
}

// expected returns what an awaited node will offer once it has reconnected.
func (n *node) expected() resource.Amounts {
	if !n.known || n.schedulable || !n.awaited {
		return resource.Amounts{}
	}
	return n.limits
}

func (n *node) free() resource.Amounts { return n.limits.Sub(n.usage) }

// judge marks a node as overcommitted if its allocations hold more than it has. An unknown node is
// never marked.
func (n *node) judge() {
	n.overcommitted = n.known && !n.usage.Fits(n.limits)
	if !n.overcommitted {
		n.since = time.Time{}
	}
}

// hold counts what h holds as used. It does not call judge, so that a start that does not fit is not
// mistaken for overcommitment; AddAllocation calls judge itself.
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
