package allocation

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// Cause says why an operation, or a pool with all below it, was left out on a node.
type Cause uint8

// The causes, in the order in which they are looked at.
const (
	// Unmatched elements may not use the node: its tags are not those of the filter.
	Unmatched Cause = iota
	// Lacking: the node has too little of a resource for any of the jobs.
	Lacking
	// Limited: the limits of the element, or of one above it, leave too little.
	Limited
	// Withheld operations have their part: who goes gracefully for it has to have gone.
	Withheld
	// Unpacked operations wait for a node that their jobs fit better (F.14).
	Unpacked
	// Crowded operations wait for a node that has fewer of their jobs (F.14.1).
	Crowded
	// Scarce: the node has less than the tree wants to be free for any look.
	Scarce
	// Reserved: what is free is kept for those for whom jobs were preempted.
	Reserved
	// NoVictims: starving operations find not enough that could be preempted.
	NoVictims

	// CauseCount is the number of causes.
	CauseCount
)

var causes = [CauseCount]string{
	"unmatched", "lacking", "limited", "withheld", "unpacked", "crowded", "scarce", "reserved", "no_victims",
}

// String returns the name of the cause, such as "limited".
func (c Cause) String() string { return causes[c] }

// Fact is one look at a node that came to nothing.
type Fact struct {
	At   time.Time
	Node scheduling.NodeID
	// Resource is the first one of which there was too little, where that is the cause.
	Resource resource.Kind
	// By is the element whose limits or filter were the cause; nil: none.
	By *Element
}

// Facts are, by cause, how often an element was left out, and when that was last. They
// are written while choosing, and cost little.
type Facts [CauseCount]struct {
	Count uint64
	Last  Fact
}

// Note takes note of a look that came to nothing.
func (f *Facts) Note(cause Cause, of Fact) {
	noted := &f[cause]
	noted.Count++
	noted.Last = of
}

// limiting returns the nearest element, from e up, whose limits leave too little for any
// job of e, and the first resource of that.
func (e *Element) limiting() (*Element, resource.Kind) {
	for up := e; up != nil; up = up.parent {
		if k, lacks := e.least.Lacking(up.room(resource.Infinite, false)); lacks {
			return up, k
		}
	}
	return nil, 0
}
