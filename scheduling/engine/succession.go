package engine

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
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

// What an engine goes on from that is made while the cluster runs: what has been left by
// preemptions that another engine planned, and what that one tells of them.

// AddClaim holds resources of a node for a job for which others have been told to go
// there. They may have gone, or be told of by Leave later. Operations, demand and
// allocations come first. A claim whose job is not wanted any more is left out.
func (e *Engine) AddClaim(id scheduling.NodeID, b Beneficiary, planned, expires time.Time) error {
	n := e.cluster.node(id)
	if e.claims.findClaim(n, b, planned) != nil {
		return fmt.Errorf("add claim of operation %s on node %s: %w", b.Operation, id, ErrExists)
	}
	if c := e.claims.claimAgain(n, b, planned); c != nil {
		c.expires, c.restored = expires, true
		e.claims.trim(n)
	}
	e.cluster.forgetNode(n)
	return nil
}

// EndClaims gives back what is held on a node that is lost: jobs that wait for it may
// start elsewhere.
func (e *Engine) EndClaims(id scheduling.NodeID) {
	n := e.cluster.nodes[id]
	for n != nil && len(n.claims) > 0 {
		e.claims.endClaim(n.claims[len(n.claims)-1], ClaimNodeLost)
	}
}

// SetRate tells when jobs of a pool, and of those below it, were preempted within the last
// minute. A pool that is not known is left out.
func (e *Engine) SetRate(id scheduling.PoolID, times []time.Time) {
	for _, p := range e.tree.pools {
		if p.id != id {
			continue
		}
		for _, at := range slices.SortedFunc(slices.Values(times), time.Time.Compare) {
			p.rate.Take(at)
		}
	}
}

// SetAttempted tells when preemption was tried last on a node: it is tried again when the
// backoff is over. A node that is not known is left out.
func (e *Engine) SetAttempted(id scheduling.NodeID, at time.Time) {
	if n := e.cluster.nodes[id]; n != nil && at.After(n.attempted) {
		n.attempted = at
	}
}

// limited returns those of p and the pools above it that have a rate limit, by id; rated
// says that some have one.
func (p *pool) limited(rated bool) (ids []scheduling.PoolID) {
	if !rated {
		return nil
	}
	for ; p != nil; p = p.parent {
		if p.effective.Preemption.RateLimit != pooltree.NoRateLimit && p.id != 0 {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// PoolVolume is what has to be remembered of a pool from one Tick to the next, and
// from one leader to the next (G7).
type PoolVolume struct {
	Pool scheduling.PoolName
	// ID is the pool under whatever name; 0: the one of the name.
	ID scheduling.PoolID
	// Volume has accumulated and was not spent.
	Volume resource.Volume
	// Rest is fairshare.Pool's.
	Rest float64
	// LastShareRatio was granted by the last Tick, to be paid by the next one.
	LastShareRatio float64
}

// Volumes returns the pools that have volume or owe some, sorted by name, and the
// time of the last Tick, to which they belong.
func (e *Engine) Volumes() (at time.Time, volumes []PoolVolume) {
	for name, p := range e.tree.pools {
		if p := p.share.Pool; !p.Volume.IsZero() || p.LastShareRatio != 0 {
			volumes = append(volumes, PoolVolume{Pool: name, ID: e.tree.pools[name].id, Volume: p.Volume, Rest: p.Rest, LastShareRatio: p.LastShareRatio})
		}
	}
	slices.SortFunc(volumes, func(a, b PoolVolume) int { return cmp.Compare(a.Pool, b.Pool) })
	return e.tree.shares.Updated, volumes
}

// SetVolumes goes on from what Volumes returned: at the next Tick, the time since
// then flows in and is paid. It fails, and changes nothing, when a pool is not
// known or what it has cannot be.
func (e *Engine) SetVolumes(at time.Time, volumes []PoolVolume) error {
	pools := make([]*pool, len(volumes))
	for i, v := range volumes {
		pools[i] = e.tree.poolOf(v)
		switch {
		case pools[i] == nil:
			return fmt.Errorf("set volume of pool %q: %w", v.Pool, ErrUnknown)
		case v.Volume.Min(resource.Volume{}) != resource.Volume{}:
			return fmt.Errorf("set volume of pool %q: %+v is negative", v.Pool, v.Volume)
		case math.IsNaN(v.Rest) || math.IsInf(v.Rest, 0):
			return fmt.Errorf("set volume of pool %q: rest %v is no number", v.Pool, v.Rest)
		case !(v.LastShareRatio >= 0 && v.LastShareRatio <= 1+resource.LargeEpsilon):
			return fmt.Errorf("set volume of pool %q: last share ratio %v is not a number from 0 to 1", v.Pool, v.LastShareRatio)
		}
	}
	for i, v := range volumes {
		p := pools[i].share.Pool
		p.Volume, p.LastShareRatio, p.Rest = v.Volume, v.LastShareRatio, v.Rest
	}
	e.tree.shares.Updated = at
	return nil
}

// poolOf returns the pool of a volume, nil when there is none.
func (tr *tree) poolOf(v PoolVolume) *pool {
	if p := tr.pools[v.Pool]; v.ID == 0 || p != nil && p.id == v.ID {
		return p
	}
	for _, p := range tr.pools {
		if p.id == v.ID {
			return p
		}
	}
	return nil
}
