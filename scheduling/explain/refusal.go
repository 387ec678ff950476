package explain

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// Refusal says how often, and when last, an operation or a pool was left out for a cause.
type Refusal struct {
	Cause allocation.Cause
	Count uint64
	// Of is the pool that was left out; empty: the operation itself.
	Of scheduling.PoolName
	// At and Node are those of the last time.
	At   time.Time
	Node scheduling.NodeID
	// Resource is the first one of which there was too little, where that is the cause.
	Resource resource.Kind
	// By is the pool whose limits or filter were the cause; empty: those of the operation,
	// or other causes.
	By scheduling.PoolName
}

// Fact says it of an operation or a pool.
func (r Refusal) Fact() Fact {
	f := Fact{
		Code: FactRefused, Setting: r.Cause.String(), Pool: r.Of, Node: r.Node, Resource: r.Resource.String(), Count: int64(r.Count), At: r.At,
	}
	who := "it was"
	if r.Of != "" {
		who = PoolTitle(r.Of) + " was"
	}
	f.Text = fmt.Sprintf("%s passed over %s because %s, last on node %s at %s", who, times(r.Count), r.reason(), r.Node, clock(r.At))
	return f
}

// GivenBack says that what was held for an operation on a node was given back, and why.
func GivenBack(on scheduling.NodeID, at time.Time, why fmt.Stringer) Fact {
	return Fact{
		Code: FactVictims, Node: on, At: at, Setting: why.String(),
		Text: fmt.Sprintf("what was held for it on node %s was given back at %s: %s", on, clock(at), why),
	}
}

// reason says why an element was left out.
func (r Refusal) reason() string {
	by := "its own"
	if r.By != "" {
		by = fmt.Sprintf("pool %q's", r.By)
	}
	switch r.Cause {
	case allocation.Unmatched:
		return fmt.Sprintf("the node's tags are not those of %s scheduling_tag_filter", by)
	case allocation.Lacking:
		return fmt.Sprintf("the node had too little %s", r.Resource)
	case allocation.Limited:
		return fmt.Sprintf("%s resource_limits left too little %s", by, r.Resource)
	case allocation.Withheld:
		return "it has its fair share, and its jobs that leave gracefully have not gone"
	case allocation.Unpacked:
		return "its jobs fit other nodes better (packing)"
	case allocation.Crowded:
		return "the node has jobs of it, and another one with fewer had room (spread)"
	case allocation.Scarce:
		return "the node had less free than the tree gives a look"
	case allocation.Reserved:
		return "what was free is held for jobs for which others were preempted"
	case allocation.NoVictims:
		return "there was not enough that could be preempted"
	default:
		return r.Cause.String()
	}
}
