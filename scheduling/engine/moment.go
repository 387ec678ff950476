package engine

import (
	"slices"
	"time"

	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// moment is what all decisions go by: the time, and the settings that hold.
type moment struct {
	config Config
	// settings are those of the tree.
	settings pooltree.Settings
	// now is the time of the last heartbeat or update; at is the node that is looked at.
	now time.Time
	at  *node
	// first is the time of the first Tick; connected says that nodes have had the
	// time to come back since, and those count no more that are awaited still.
	first     time.Time
	connected bool
	// updates numbers the updates; stale says that the tree has changed since the last one.
	updates uint64
	stale   bool
	// age grows with every change that moves shares other than what jobs use.
	age uint64
}

// changed says that the tree is another than at the last update.
func (m *moment) changed() {
	m.stale = true
	m.age++
}

// allowed is what an element may use. A ceiling moves with the nodes that there
// are: as with the jobs of a node that has shrunk, nothing has to go before that has lasted.
func (m *moment) allowed(of *element, now time.Time) resource.Amounts {
	if of.beyond.IsZero() || now.Sub(of.beyond) < m.config.OvercommitDuration {
		return of.limits
	}
	return of.limits.Min(of.ceiling)
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
