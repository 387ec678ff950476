package engine

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// What one leader leaves to the next of who starves, and of who has taken from whom.

// ElementClock is the clock of a pool, by its id, or of an operation.
type ElementClock struct {
	Pool      scheduling.PoolID
	Operation scheduling.OperationID
	Clock     preemption.Clock
}

// Clocks returns the clocks that run as of the last Tick: those of pools first, by id.
func (e *Engine) Clocks() (all []ElementClock) {
	for _, p := range e.pools {
		if p.id != 0 && !p.hunger.From().IsZero() {
			all = append(all, ElementClock{Pool: p.id, Clock: p.hunger})
		}
	}
	for id, op := range e.operations {
		if !op.hunger.From().IsZero() && !op.removed {
			all = append(all, ElementClock{Operation: id, Clock: op.hunger})
		}
	}
	slices.SortFunc(all, func(a, b ElementClock) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Pool, b.Pool))
	})
	return all
}

// SetClocks goes on from what Clocks returned: whoever is below at the next Tick has been
// since then, and whoever is not is well. What is not known is left out.
func (e *Engine) SetClocks(clocks []ElementClock) {
	pools := make(map[scheduling.PoolID]*pool, len(e.pools))
	for _, p := range e.pools {
		pools[p.id] = p
	}
	for _, c := range clocks {
		p, op := pools[c.Pool], e.operations[c.Operation]
		switch {
		case c.Operation != "" && op != nil && op.active():
			op.hunger = c.Clock
		case c.Operation == "" && c.Pool != 0 && p != nil:
			p.hunger = c.Clock
		}
	}
}

// Age is who has taken from whom (X8).
type Age struct {
	// Digest is of all that ends the age when it changes, but for what volumes pay for; 0:
	// nothing was taken in this one.
	Digest uint64
	// Takings are sorted by operation, then by whom it was taken from.
	Takings []Taking
}

// Taking is that an operation has taken from another one, or, from nobody, that it gave up
// gracefully what it had beyond Usage.
type Taking struct {
	Operation, From scheduling.OperationID
	Usage           resource.Amounts
	// Former is one of an age before.
	Former bool
}

// Age returns the age as of now, at most so many takings of it.
func (e *Engine) Age(most int) (a Age) {
	current := false
	for _, id := range slices.Sorted(maps.Keys(e.operations)) {
		op := e.operations[id]
		first := len(a.Takings)
		if op.settledIn != 0 && op.effective.Graceful {
			a.Takings = append(a.Takings, Taking{Operation: id, Usage: op.settled, Former: op.settledIn != e.age})
			current = current || op.settledIn == e.age
		}
		for _, t := range op.takings {
			if t.age == e.age && e.operations[t.from.ID] == t.from {
				a.Takings = append(a.Takings, Taking{Operation: id, From: t.from.ID, Usage: t.usage})
				current = true
			}
		}
		slices.SortFunc(a.Takings[first:], func(a, b Taking) int { return cmp.Compare(a.From, b.From) })
	}
	a.Takings = a.Takings[:min(len(a.Takings), most)]
	if current {
		a.Digest = e.digest()
	}
	return a
}

// SetAge goes on from what Age returned, after a Tick. The age is over if anything is not
// as it was then; while nodes are awaited, nobody can say, and it goes on.
func (e *Engine) SetAge(a Age, awaiting bool) {
	goesOn := a.Digest != 0 && (awaiting || a.Digest == e.digest())
	for _, t := range a.Takings {
		op, from := e.operations[t.Operation], e.operations[t.From]
		switch {
		case op == nil:
		case t.From == "" && goesOn && !t.Former:
			op.settled, op.settledIn = t.Usage, e.age
		case t.From == "":
			op.settled, op.settledIn = t.Usage, e.age-1
		case goesOn && from != nil:
			op.takings = slices.DeleteFunc(op.takings, func(known taking) bool { return known.from == from })
			op.takings = append(op.takings, taking{from: from, age: e.age, usage: t.Usage})
		}
	}
}

// digest is of what operations ask for and may have, as of the last Tick, and of the nodes. It is
// found once in an age, which ends when any of that changes.
func (e *Engine) digest() uint64 {
	if e.digested.known && e.digested.age == e.age {
		return e.digested.of
	}
	h := fnv.New64a()
	for _, id := range slices.Sorted(maps.Keys(e.operations)) {
		op := e.operations[id]
		if op.removed {
			continue
		}
		fmt.Fprintln(h, id, op.Pool, op.Weight, op.active(), op.Gang, op.wanted, option.Write(op.Options))
	}
	for _, id := range slices.Sorted(maps.Keys(e.nodes)) {
		n := e.nodes[id]
		fmt.Fprintln(h, id, n.known, n.schedulable, n.limits, n.tags)
	}
	e.digested = digested{known: true, age: e.age, of: max(h.Sum64(), 1)}
	return e.digested.of
}

// digested is the digest of an age of this engine.
type digested struct {
	known   bool
	age, of uint64
}
