package engine

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

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
