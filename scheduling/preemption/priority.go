package preemption

import "weir/scheduling/resource"

// Ancestors are the lowest starving elements on the way from an element to the root,
// itself included, by their ids; "" where none starves.
type Ancestors struct {
	// Starving is the lowest one that starves, aggressively or not.
	Starving string
	// Aggressive is the lowest one that starves aggressively.
	Aggressive string
}

// Of returns the ancestors of an element below one with these. Those of the root, which
// never starves, are the zero value.
func (above Ancestors) Of(id string, own Starvation) Ancestors {
	if own != NonStarving {
		above.Starving = id
	}
	if own == AggressivelyStarving {
		above.Aggressive = id
	}
	return above
}

// Priority says in which stage an operation may preempt others (F.12.2).
type Priority uint8

// The priorities.
const (
	// NoPriority is that of operations that do not starve: they preempt nobody.
	NoPriority Priority = iota
	// NormalPriority is that of operations that starve.
	NormalPriority
	// AggressivePriority is that of operations that starve aggressively.
	AggressivePriority
)

// String returns the name of the priority: "none", "normal" or "aggressive".
func (p Priority) String() string {
	switch p {
	case NormalPriority:
		return "normal"
	case AggressivePriority:
		return "aggressive"
	default:
		return "none"
	}
}

// PriorityOf returns the priority of an operation by the starvation of all on its way
// to the root, or by its own alone.
func PriorityOf(own Starvation, all Ancestors, ownAlone bool) Priority {
	if ownAlone {
		all = Ancestors{}.Of("itself", own)
	}
	switch {
	case all.Aggressive != "":
		return AggressivePriority
	case all.Starving != "":
		return NormalPriority
	default:
		return NoPriority
	}
}

// BelowPromised reports whether an operation has less than what guarantees alone
// promise it (F.5.6). Such operations come before all others (F.12.2).
func (s Shares) BelowPromised(promised resource.Vector) bool {
	return s.NonBlockedDominates(promised, s.Usage)
}
