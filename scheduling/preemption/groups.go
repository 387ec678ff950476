package preemption

import (
	"math"

	"weir/scheduling/resource"
)

// Bounds determine the groups of an operation's allocations. Fair and Demand are as of the last
// update, as parts of Total.
type Bounds struct {
	Fair, Demand resource.Vector
	Total        resource.Amounts
	// Usage up to AggressiveThreshold times the fair share is never preempted. Usage up to
	// Threshold times the fair share is preempted only aggressively. AggressiveThreshold <=
	// Threshold.
	AggressiveThreshold, Threshold float64
	// Protected is the usage below which nothing is preempted. Usage is below it if it is less in
	// every resource. Resources that do not matter are Infinite. The zero value protects nothing.
	Protected resource.Amounts
	// OnBoundPreemptible puts an allocation that crosses a bound on the preemptible side.
	OnBoundPreemptible bool
	// Aggressive means that jobs of the operation may be preempted aggressively.
	Aggressive bool
}

// Below reports whether usage is less than Threshold times the fair share, in the resources that
// count (F.10). If so, an allocation that is added to this usage is not preemptible. The result is
// true for any usage if the fair share covers the demand.
//
// An operation that is preempted gracefully starts a job only while Below is true of its usage,
// including what leaving jobs hold. So no job starts that would be told to leave at once, or that
// would replace one that was told to leave.
func (b *Bounds) Below(usage resource.Amounts) bool {
	r := b.reach(normalCut)
	return r.below(usage)
}

// The cuts between the groups.
const (
	aggressiveCut = iota
	normalCut
	cutCount
)

// bound returns the share up to which the cut c protects.
func (b *Bounds) bound(c int) resource.Vector {
	switch {
	case c == aggressiveCut:
		return b.Fair.Scale(b.AggressiveThreshold)
	case b.Fair.Near(b.Demand, resource.Epsilon) && !b.Demand.Near(resource.Vector{}, resource.Epsilon):
		return resource.Uniform(math.Inf(1))
	default:
		return b.Fair.Scale(b.Threshold)
	}
}

// reach is how far a cut protects, in amounts. It is the precomputed result of
// Shares.NonBlockedDominates for a bound, for any usage. The zero value protects nothing.
type reach struct {
	// least is the smallest amount of each resource whose share is not below the bound.
	least     resource.Amounts
	protected resource.Amounts
	// any means that usage counts as below the bound if it is below in one resource.
	any bool
}

func (b *Bounds) reach(c int) reach {
	r := reach{protected: b.Protected, any: b.Fair.Dominates(b.Demand)}
	bound := b.bound(c)
	for i := range bound {
		k := resource.Kind(i)
		least := int64(math.MaxInt64)
		if r.any || b.Fair[i] < b.Demand[i] {
			least = leastNotBelow(bound[i], b.Total.Of(k))
		}
		r.least = r.least.With(k, least)
	}
	return r
}

// leastNotBelow returns the smallest amount whose share of total is not less than bound. Shares are
// rounded as by resource.Share.
func leastNotBelow(bound float64, total int64) int64 {
	guess := math.Ceil(bound * float64(total))
	switch {
	case bound <= 0:
		return 0
	case total == 0 || guess >= math.MaxInt64/2:
		return math.MaxInt64
	}
	share := func(amount int64) float64 { return float64(amount) / float64(total) }
	least := int64(guess)
	for share(least) < bound {
		least++
	}
	for share(least-1) >= bound {
		least--
	}
	return least
}

func (r *reach) below(usage resource.Amounts) bool {
	switch {
	case r.protected.StrictlyDominates(usage):
		return true
	case r.any:
		return usage.UserSlots < r.least.UserSlots || usage.CPU < r.least.CPU || usage.GPU < r.least.GPU ||
			usage.Memory < r.least.Memory || usage.Network < r.least.Network
	default:
		return r.least.StrictlyDominates(usage)
	}
}

// near reports whether usage equals the bound of a cut, up to Epsilon.
func (b *Bounds) near(c int, usage resource.Amounts) bool {
	return resource.Share(usage, b.Total).Near(b.bound(c), resource.Epsilon)
}

// Groups are the allocations of an operation, in the order of their start, in three consecutive
// groups (F.12.1). They are updated as members are added and removed, and as bounds change; each
// update touches only the allocations that change their group. The zero value has no members, and
// protects nothing.
//
// Allocations that are leaving their nodes are not members, and do not count.
type Groups struct {
	bounds      Bounds
	first, last *Member
	// recent is the member that was added last; nil if it has been removed.
	recent *Member
	usage  resource.Amounts
	count  int
	cuts   [cutCount]cut
}

// cut marks the end of a prefix of the members.
type cut struct {
	// last is the last member of the prefix; nil if it is empty.
	last *Member
	// usage is the sum over the prefix.
	usage resource.Amounts
	reach reach
}

// Usage returns what all members use.
func (g *Groups) Usage() resource.Amounts { return g.usage }

// Len returns the number of members.
func (g *Groups) Len() int { return g.count }

// Bounds returns the bounds that divide the groups; they must not be changed.
func (g *Groups) Bounds() *Bounds { return &g.bounds }

// First returns the member that started first, or nil.
func (g *Groups) First() *Member { return g.first }

// Last returns the member that started last, or nil.
func (g *Groups) Last() *Member { return g.last }

// Next returns the member of the same groups that started next, or nil.
func (m *Member) Next() *Member { return m.next }

// Prev returns the member of the same groups that started before, or nil.
func (m *Member) Prev() *Member { return m.prev }

// Protected returns what the protected members use. The result always is the usage of the members
// that can never be preempted. The result normally also includes the members that can be preempted
// only aggressively. All other members are preemptible.
func (g *Groups) Protected() (always, normally resource.Amounts) {
	// With OnBoundPreemptible the second cut may come before the first.
	always = g.cuts[aggressiveCut].usage
	normally = always.Max(g.cuts[normalCut].usage)
	if !g.bounds.Aggressive {
		return normally, normally
	}
	return always, normally
}

// SetBounds changes the bounds and regroups the members.
func (g *Groups) SetBounds(b Bounds) {
	if b == g.bounds {
		return
	}
	g.bounds = b
	for c := range g.cuts {
		g.cuts[c].reach = b.reach(c)
	}
	g.rebalance()
}

// Add adds a member that is in no Groups. The search for its place begins at the end, or at the member added before it,
// so adding in the order of start is O(1), and so are many in that order of which all come before others.
func (g *Groups) Add(m *Member) {
	after := g.place(m)
	g.recent = m
	m.groups, m.prev = g, after
	if after == nil {
		m.next, g.first = g.first, m
	} else {
		m.next, after.next = after.next, m
	}
	if m.next == nil {
		g.last = m
	} else {
		m.next.prev = m
	}
	g.usage = g.usage.Add(m.Resources)
	g.count++
	for c := range g.cuts {
		if m.within[c] = m.next != nil && m.next.within[c]; m.within[c] {
			g.cuts[c].usage = g.cuts[c].usage.Add(m.Resources)
		}
	}
	g.rebalance()
}

// place returns the member after which m belongs; nil if it is the first.
func (g *Groups) place(m *Member) *Member {
	after := g.last
	if after == nil || !m.before(after) {
		return after
	}
	if g.recent != nil {
		after = g.recent
	}
	for after != nil && m.before(after) {
		after = after.prev
	}
	for next := g.after(after); next != nil && !m.before(next); next = next.next {
		after = next
	}
	return after
}

// Remove removes a member, which may be added again later. It ignores a member that is in no
// Groups. The member must not belong to other Groups.
func (g *Groups) Remove(m *Member) {
	if m.groups == nil {
		return
	}
	for c := range g.cuts {
		if !m.within[c] {
			continue
		}
		g.cuts[c].usage = g.cuts[c].usage.Sub(m.Resources)
		if g.cuts[c].last == m {
			g.cuts[c].last = m.prev
		}
	}
	if m.prev == nil {
		g.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		g.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	if g.recent == m {
		g.recent = nil
	}
	m.groups, m.prev, m.next, m.within = nil, nil, nil, [cutCount]bool{}
	g.usage = g.usage.Sub(m.Resources)
	g.count--
	g.rebalance()
}

// rebalance puts each cut after the shortest prefix that is not below its bound. If a prefix is not
// below the bound, no longer prefix is.
func (g *Groups) rebalance() {
	for c := range g.cuts {
		k := &g.cuts[c]
		for k.last != nil && !k.reach.below(k.usage.Sub(k.last.Resources)) {
			g.retreat(c)
		}
		next := g.after(k.last)
		for ; next != nil && k.reach.below(k.usage); next = next.next {
			next.within[c] = true
			k.last, k.usage = next, k.usage.Add(next.Resources)
		}
		if g.bounds.OnBoundPreemptible && k.last != nil && !k.reach.below(k.usage) && !g.bounds.near(c, k.usage) {
			g.retreat(c)
		}
	}
}

// retreat shortens a prefix by its last member.
func (g *Groups) retreat(c int) {
	k := &g.cuts[c]
	k.last.within[c] = false
	k.usage = k.usage.Sub(k.last.Resources)
	k.last = k.last.prev
}

func (g *Groups) after(m *Member) *Member {
	if m == nil {
		return g.first
	}
	return m.next
}
