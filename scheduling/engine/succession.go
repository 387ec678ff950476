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
	for _, p := range e.tree.pools {
		if p.id != 0 && !p.clock.From().IsZero() {
			all = append(all, ElementClock{Pool: p.id, Clock: p.clock})
		}
	}
	for id, op := range e.tree.operations {
		if !op.clock.From().IsZero() && !op.removed {
			all = append(all, ElementClock{Operation: id, Clock: op.clock})
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
	pools := make(map[scheduling.PoolID]*pool, len(e.tree.pools))
	for _, p := range e.tree.pools {
		pools[p.id] = p
	}
	for _, c := range clocks {
		p, op := pools[c.Pool], e.tree.operations[c.Operation]
		switch {
		case c.Operation != "" && op != nil && op.active():
			op.clock = c.Clock
		case c.Operation == "" && c.Pool != 0 && p != nil:
			p.clock = c.Clock
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
	for _, id := range slices.Sorted(maps.Keys(e.tree.operations)) {
		op := e.tree.operations[id]
		first := len(a.Takings)
		if op.settledIn != 0 && op.effective.Graceful {
			a.Takings = append(a.Takings, Taking{Operation: id, Usage: op.settled, Former: op.settledIn != e.moment.age})
			current = current || op.settledIn == e.moment.age
		}
		for _, t := range op.takings {
			if t.age == e.moment.age && e.tree.operations[t.from.ID] == t.from {
				a.Takings = append(a.Takings, Taking{Operation: id, From: t.from.ID, Usage: t.usage})
				current = true
			}
		}
		slices.SortFunc(a.Takings[first:], func(a, b Taking) int { return cmp.Compare(a.From, b.From) })
	}
	a.Takings = a.Takings[:min(len(a.Takings), most)]
	if current {
		a.Digest = e.tree.digest()
	}
	return a
}

// SetAge goes on from what Age returned, after a Tick. The age is over if anything is not
// as it was then; while nodes are awaited, nobody can say, and it goes on.
func (e *Engine) SetAge(a Age, awaiting bool) {
	goesOn := a.Digest != 0 && (awaiting || a.Digest == e.tree.digest())
	for _, t := range a.Takings {
		op, from := e.tree.operations[t.Operation], e.tree.operations[t.From]
		switch {
		case op == nil:
		case t.From == "" && goesOn && !t.Former:
			op.settled, op.settledIn = t.Usage, e.moment.age
		case t.From == "":
			op.settled, op.settledIn = t.Usage, e.moment.age-1
		case goesOn && from != nil:
			op.takings = slices.DeleteFunc(op.takings, func(known taking) bool { return known.from == from })
			op.takings = append(op.takings, taking{from: from, age: e.moment.age, usage: t.Usage})
		}
	}
}

// digest is of what operations ask for and may have, as of the last Tick, and of the nodes. It is
// found once in an age, which ends when any of that changes.
func (tr *tree) digest() uint64 {
	if tr.digested.known && tr.digested.age == tr.moment.age {
		return tr.digested.of
	}
	h := fnv.New64a()
	for _, id := range slices.Sorted(maps.Keys(tr.operations)) {
		op := tr.operations[id]
		if op.removed {
			continue
		}
		fmt.Fprintln(h, id, op.Pool, op.Weight, op.active(), op.Gang, op.wanted, option.Write(op.Options))
	}
	for _, id := range slices.Sorted(maps.Keys(tr.cluster.nodes)) {
		n := tr.cluster.nodes[id]
		fmt.Fprintln(h, id, n.known, n.schedulable, n.limits, n.tags)
	}
	tr.digested = digested{known: true, age: tr.moment.age, of: max(h.Sum64(), 1)}
	return tr.digested.of
}

// digested is the digest of an age of this engine.
type digested struct {
	known   bool
	age, of uint64
}
