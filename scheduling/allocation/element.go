package allocation

import (
	"weir/scheduling/resource"
)

// NoFilter is the filter of elements that may use every node.
const NoFilter = -1

// Element is a pool or an operation in the order of scheduling.
type Element struct {
	// What siblings are compared by comes first, side by side.

	// at is the place in the heap of the parent, or -1.
	at int
	// satisfaction is what the element goes by: its own, or in a pool that goes by its
	// operations that of the first waiting child. Those that are high come before all others.
	satisfaction float64
	// part is the usage as a part of the fair share, or of the cluster without one: it tells
	// apart those that are equally satisfied.
	part float64
	debt Debt
	// served is the turn in which a job below was started last.
	served uint64
	// rank orders the equally satisfied.
	rank       int64
	high, pool bool
	id         string
	parent     *Element

	fair, demand resource.Vector
	usage        resource.Amounts
	// leaving is what is no longer usage and not free yet: it counts in limits.
	leaving resource.Amounts
	total   resource.Amounts
	// most is the dominant share of the fair share.
	most float64
	// turn is, of the root, the last one.
	turn uint64
	// kinds are those of the operations in a pool.
	kinds Kinds
	// ahead is what counts as used of the next job where it is decided whose turn is next.
	ahead resource.Vector
	// promised is what guarantees alone would give.
	promised resource.Vector

	// limits are never exceeded by a start, where limited; by those that preempt others
	// no more than by tolerance.
	limits, tolerance resource.Amounts
	limited           bool
	// filter is the place in Node.Takes, or NoFilter.
	filter int

	// operation's
	tasks   []Task
	enabled bool
	// guarded operations start jobs only where Node.Admit lets them.
	guarded bool
	// owner is whose element it is.
	owner any
	facts Facts

	order Order
	// waiting is the heap of the children of a pool that have pending jobs.
	waiting []*Element
	// least is at most what any pending job needs, per resource. That of a pool
	// falls with new demand and rises at Refresh only, so that a start does not
	// have to look at all siblings.
	least resource.Amounts
	// head is what the first job needs that an operation may start.
	head resource.Amounts
}

// NewPool returns a pool that is nowhere yet.
func NewPool(id string) *Element {
	return &Element{id: id, pool: true, at: -1, filter: NoFilter, satisfaction: resource.MaxSatisfaction, least: resource.Infinite}
}

// NewOperation returns an enabled operation that is nowhere yet. Of equally
// satisfied siblings the one of lower rank is first.
func NewOperation(id string, rank int64) *Element {
	return &Element{
		id: id, rank: rank, at: -1, filter: NoFilter, enabled: true, satisfaction: resource.MaxSatisfaction, least: resource.Infinite,
	}
}

// Order is how the children of a pool follow each other, and the pool its siblings.
type Order struct {
	// FIFO serves the children of the pool strictly by rank.
	FIFO bool
	// NoGuaranteesFirst has children to which guarantees owe a job come in the order of all.
	NoGuaranteesFirst bool
	// ByOperations has the pool be as satisfied as the first of its waiting children, and
	// not as it is itself (F.13).
	ByOperations bool
}

// SetOrder sets the order of a pool.
func (e *Element) SetOrder(order Order) {
	if e.order == order {
		return
	}
	e.order = order
	for i := len(e.waiting)/2 - 1; i >= 0; i-- {
		e.down(i)
	}
	for up := e; up != nil; up = up.parent {
		up.judge()
	}
}

// SetOwner has Owner return owner.
func (e *Element) SetOwner(owner any) { e.owner = owner }

// Owner returns what SetOwner was given.
func (e *Element) Owner() any { return e.owner }

// ID returns the id that the element was made with.
func (e *Element) ID() string { return e.id }

// Rename gives an element that is nowhere another id.
func (e *Element) Rename(id string) { e.id = id }

// Usage returns what the element uses: starts not yet committed count.
func (e *Element) Usage() resource.Amounts { return e.usage }

// Attach puts e below parent, with its usage and its pending jobs.
func (e *Element) Attach(parent *Element) {
	e.parent = parent
	e.judge()
	parent.AddUsage(e.usage)
	parent.AddLeaving(e.leaving)
	e.place()
}

// Detach takes e out of its pool.
func (e *Element) Detach() {
	if e.parent == nil {
		return
	}
	e.leave()
	e.parent.SubUsage(e.usage)
	e.parent.SubLeaving(e.leaving)
	e.parent = nil
}

// SetShares tells e its fair share and demand, as parts of total, and of a pool the kinds of what
// is in it.
func (e *Element) SetShares(fair, demand resource.Vector, total resource.Amounts, below Kinds) {
	e.fair, e.demand, e.total, e.most, e.kinds = fair, demand, total, fair.MaxComponent(), below
	e.move()
}

// SetPromised tells e what guarantees alone would give it, as a part of the cluster. While
// an operation uses less, and a pool so much less that a job fits, it comes before those of
// which this is not so (F.12.2).
func (e *Element) SetPromised(promised resource.Vector) {
	if e.promised != promised {
		e.promised = promised
		e.move()
	}
}

// High reports whether e comes before others because it has less than it was promised.
func (e *Element) High() bool { return e.high }

// SetRank changes the rank of an element: the place in a FIFO pool, for one.
func (e *Element) SetRank(rank int64) {
	if e.rank == rank {
		return
	}
	e.rank = rank
	e.move()
}

// SetLimits sets what no start may make e exceed, resource.Infinite for nothing.
func (e *Element) SetLimits(limits resource.Amounts) {
	e.limits, e.limited = limits, limits != resource.Infinite
}

// SetTolerance sets by how much a job that preempts others may make e exceed its limits.
func (e *Element) SetTolerance(tolerance resource.Amounts) { e.tolerance = tolerance }

// SetGuarded says whether jobs of an operation start only where Node.Admit lets them.
func (e *Element) SetGuarded(guarded bool) { e.guarded = guarded }

// SetFilter sets which nodes e may use: those whose Takes has true at this place.
func (e *Element) SetFilter(filter int) { e.filter = filter }

// room is what of free the limits of e leave.
func (e *Element) room(free resource.Amounts, tolerant bool) resource.Amounts {
	if !e.limited {
		return free
	}
	left := e.limits.Sub(e.usage).Sub(e.leaving)
	if tolerant {
		left = left.Add(e.tolerance)
	}
	return free.Min(left)
}

// Serve counts what a job is given as used by e and all above it: their turn is over.
func (e *Element) Serve(needs resource.Amounts) {
	root := e
	for root.parent != nil {
		root = root.parent
	}
	root.turn++
	for up := e; up != nil; up = up.parent {
		up.served, up.usage = root.turn, up.usage.Add(needs)
		up.judge()
	}
}

// AddUsage counts resources as used by e and all above it.
func (e *Element) AddUsage(a resource.Amounts) {
	for up := e; up != nil; up = up.parent {
		up.usage = up.usage.Add(a)
		up.judge()
	}
}

// SubUsage takes back what AddUsage counted.
func (e *Element) SubUsage(a resource.Amounts) {
	for up := e; up != nil; up = up.parent {
		up.usage = up.usage.Sub(a)
		up.judge()
	}
}

// Leaving returns what allocations hold that have been told to go: it is no usage, and
// counts in limits until it is free.
func (e *Element) Leaving() resource.Amounts { return e.leaving }

// AddLeaving counts resources as leaving, of e and of all above it.
func (e *Element) AddLeaving(a resource.Amounts) {
	for up := e; up != nil; up = up.parent {
		up.leaving = up.leaving.Add(a)
	}
}

// SubLeaving takes back what AddLeaving counted.
func (e *Element) SubLeaving(a resource.Amounts) {
	for up := e; up != nil; up = up.parent {
		up.leaving = up.leaving.Sub(a)
	}
}

// Matches reports whether e may use a node with these tags, by its filter and those of
// all above it.
func (e *Element) Matches(takes []bool) bool {
	for up := e; up != nil; up = up.parent {
		if up.filter != NoFilter && !takes[up.filter] {
			return false
		}
	}
	return true
}

// SetEnabled says whether jobs of an operation may start.
func (e *Element) SetEnabled(enabled bool) {
	if e.enabled != enabled {
		e.enabled = enabled
		e.place()
	}
}

// Refresh finds anew what the least demanding pending jobs of e, and of the
// pools below, need. Without it more and more pools are looked into in vain.
func (e *Element) Refresh() {
	for _, c := range e.waiting {
		c.Refresh()
	}
	e.measure()
}

// Waiting returns how many operations there are at or below e that have jobs to start.
func (e *Element) Waiting() int {
	if !e.pool {
		return 1
	}
	n := 0
	for _, c := range e.waiting {
		n += c.Waiting()
	}
	return n
}
