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

// State that one leader passes to the next: which elements starve, and which operation has taken
// from which.

// ElementClock is the starvation clock of a pool or of an operation; only one of the two ids is
// set.
type ElementClock struct {
	Pool      scheduling.PoolID
	Operation scheduling.OperationID
	Clock     preemption.Clock
}

// Clocks returns the clocks that are running as of the last Tick. They are sorted by id, clocks of
// pools first.
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

// SetClocks restores what Clocks returned. If an element is below its share at the next Tick, its
// clock continues; otherwise it is reset. Unknown elements are skipped.
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

// Age says which operations have taken resources from which (X8).
type Age struct {
	// Digest is a hash of everything whose change ends the age, except for what volumes pay for; 0
	// if nothing was taken in this age.
	Digest uint64
	// Takings are sorted by the operation that took, then by the one that lost.
	Takings []Taking
}

// Taking says that an operation has taken resources from another one or, if From is empty, that it
// gave up gracefully what it had beyond Usage.
type Taking struct {
	Operation, From scheduling.OperationID
	Usage           resource.Amounts
	// Former takings belong to an earlier age.
	Former bool
}

// Age returns the current age, with no more than `most` takings.
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

// SetAge restores what Age returned, after a Tick. The age continues if its digest is unchanged. It
// also continues while nodes are awaited, because digests cannot be compared then.
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

// digest returns a hash of what operations ask for and may have, as of the last Tick, and of the
// nodes. It is computed once in an age, which ends when any of these changes.
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

// State of an engine that is made while the cluster runs: the claims, rates and attempts that follow
// from preemptions that another engine planned.

// AddClaim holds resources of a node for a job for which others have been told to leave. Those
// others may have left already, or are passed to Leave later. Add operations, demand and
// allocations first. A claim whose job is no longer wanted is skipped.
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

// EndClaims ends the claims on a node that is lost, so that their jobs may start elsewhere.
func (e *Engine) EndClaims(id scheduling.NodeID) {
	n := e.cluster.nodes[id]
	for n != nil && len(n.claims) > 0 {
		e.claims.endClaim(n.claims[len(n.claims)-1], ClaimNodeLost)
	}
}

// SetRate restores the times at which jobs at or below a pool were preempted within the last
// minute. An unknown pool is skipped.
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

// SetAttempted restores when preemption was last tried on a node, so that it is tried again only after
// the backoff. An unknown node is skipped.
func (e *Engine) SetAttempted(id scheduling.NodeID, at time.Time) {
	if n := e.cluster.nodes[id]; n != nil && at.After(n.attempted) {
		n.attempted = at
	}
}

// limited returns the ids of p and the pools above it that have a rate limit. The parameter rated
// says whether any pool has one.
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

// PoolVolume is the state of a pool's volume that is kept from one Tick to the next, and passed from
// one leader to the next (G7).
type PoolVolume struct {
	Pool scheduling.PoolName
	// ID identifies the pool even if it was renamed. If ID is 0, the field Pool identifies the
	// pool.
	ID scheduling.PoolID
	// Volume is the volume that has accumulated and is not spent.
	Volume resource.Volume
	// Rest is the rounding error of Volume: see fairshare.Pool.
	Rest float64
	// LastShareRatio is what the last Tick granted; the next one charges it.
	LastShareRatio float64
}

// Volumes returns the volumes of the pools that have some, or that have to pay for a grant, sorted
// by name. The result `at` is the time of the last Tick, to which the volumes refer.
func (e *Engine) Volumes() (at time.Time, volumes []PoolVolume) {
	for name, p := range e.tree.pools {
		if p := p.share.Pool; !p.Volume.IsZero() || p.LastShareRatio != 0 {
			volumes = append(volumes, PoolVolume{Pool: name, ID: e.tree.pools[name].id, Volume: p.Volume, Rest: p.Rest, LastShareRatio: p.LastShareRatio})
		}
	}
	slices.SortFunc(volumes, func(a, b PoolVolume) int { return cmp.Compare(a.Pool, b.Pool) })
	return e.tree.shares.Updated, volumes
}

// SetVolumes restores what Volumes returned: the next Tick accrues and charges for the time since
// `at`. It returns an error, and changes nothing, if a pool is unknown or a value is invalid.
func (e *Engine) SetVolumes(at time.Time, volumes []PoolVolume) error {
	pools := make([]*pool, len(volumes))
	for i, v := range volumes {
		pools[i] = e.tree.poolOf(v)
		switch {
		case pools[i] == nil:
			return fmt.Errorf("set volume of pool %q: %w", v.Pool, ErrUnknown)
		case v.Volume.Min(resource.Volume{}) != resource.Volume{}:
			return fmt.Errorf("set volume of pool %q: volume %+v has a negative amount", v.Pool, v.Volume)
		case math.IsNaN(v.Rest) || math.IsInf(v.Rest, 0):
			return fmt.Errorf("set volume of pool %q: rest %v is not a finite number", v.Pool, v.Rest)
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

// poolOf returns the pool of a volume, or nil if there is none.
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
