package allocation

import "weir/scheduling/resource"

// NoFilter is the filter of elements that may use every node.
const NoFilter = -1

// Element is a pool or an operation in the order of scheduling.
type Element struct {
	// The fields by which siblings are compared come first, next to each other in memory.

	// at is the index of the element in the heap of the parent, or -1.
	at int
	// satisfaction is the key of the element: its own satisfaction or, for a pool with
	// Order.ByOperations, the key of the first waiting child. Elements whose field high is set come
	// before all others.
	satisfaction float64
	// part is the usage as a part of the fair share, or of the cluster if the fair share is zero.
	// It breaks ties of satisfaction.
	part float64
	// served is the turn in which a job at or below the element was last started.
	served uint64
	// rank breaks ties that remain.
	rank       int64
	high, pool bool
	id         string
	parent     *Element

	standing
	bounds
	// Facts count the refusals of nodes. The refusals of the pools above apply to the element as
	// well.
	Facts
	// turn is the number of the last turn. It is set for the root only.
	turn uint64
	// ahead is the part of the next job that already counts as used when the next turn is decided.
	ahead resource.Vector
	// owner is the value that the caller attached with SetOwner.
	owner any

	// tasks, enabled and head are for operations only.
	tasks   tasks
	enabled bool
	// head is what the operation's first job that may start needs.
	head resource.Amounts

	// children are the children of a pool that have pending jobs.
	children queue
	// least is a lower bound of what any pending job needs, per resource. For a pool the bound
	// falls with new demand and rises at Refresh only, so that a start does not have to visit all
	// siblings.
	least resource.Amounts
}

// NewPool returns a pool that is not attached.
func NewPool(id string) *Element {
	return &Element{id: id, pool: true, at: -1, bounds: bounds{filter: NoFilter}, satisfaction: resource.MaxSatisfaction, least: resource.Infinite}
}

// NewOperation returns an enabled operation that is not attached. Of equally satisfied siblings,
// the one with the lower rank is first.
func NewOperation(id string, rank int64) *Element {
	return &Element{
		id: id, rank: rank, at: -1, bounds: bounds{filter: NoFilter}, enabled: true, satisfaction: resource.MaxSatisfaction, least: resource.Infinite,
	}
}

// SetOrder sets the order of a pool.
func (e *Element) SetOrder(order Order) {
	if e.children.order == order {
		return
	}
	e.children.order = order
	for i := len(e.children.waiting)/2 - 1; i >= 0; i-- {
		e.children.down(i)
	}
	for up := e; up != nil; up = up.parent {
		up.judge()
	}
}

// SetOwner sets the value that Owner returns.
func (e *Element) SetOwner(owner any) { e.owner = owner }

// Owner returns the value set by SetOwner.
func (e *Element) Owner() any { return e.owner }

// ID returns the id that the element was made with.
func (e *Element) ID() string { return e.id }

// Rename changes the id of an element that is not attached.
func (e *Element) Rename(id string) { e.id = id }

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

// SetShares sets the fair share and demand of e, as parts of total. The parameter below holds, for
// a pool, the kinds of the elements below it.
func (e *Element) SetShares(fair, demand resource.Vector, total resource.Amounts, below Kinds) {
	e.fair, e.demand, e.total, e.most, e.kinds = fair, demand, total, fair.MaxComponent(), below
	e.move()
}

// SetPromised sets the share that guarantees alone would give e, as a part of the cluster. An
// operation that uses less than this comes before others, and so does a pool that uses less by at
// least one job (F.12.2).
func (e *Element) SetPromised(promised resource.Vector) {
	if e.promised != promised {
		e.promised = promised
		e.move()
	}
}

// SetRank changes the rank of an element, which in a FIFO pool is its place.
func (e *Element) SetRank(rank int64) {
	if e.rank == rank {
		return
	}
	e.rank = rank
	e.move()
}

// room returns the part of free that the limits of e allow, plus their tolerance if tolerant is
// set.
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

// Serve counts needs as used by e and all above it, and ends their turn.
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
func (e *Element) AddUsage(a resource.Amounts) { e.use(a, resource.Amounts.Add) }

// SubUsage takes back what AddUsage counted.
func (e *Element) SubUsage(a resource.Amounts) { e.use(a, resource.Amounts.Sub) }

func (e *Element) use(a resource.Amounts, count func(resource.Amounts, resource.Amounts) resource.Amounts) {
	for up := e; up != nil; up = up.parent {
		up.usage = count(up.usage, a)
		up.judge()
	}
}

// AddLeaving counts resources of leaving jobs for e and all above it.
func (e *Element) AddLeaving(a resource.Amounts) {
	for up := e; up != nil; up = up.parent {
		up.leaving = up.leaving.Add(a)
	}
}

// SubLeaving takes back what AddLeaving counted.
func (e *Element) SubLeaving(a resource.Amounts) { e.AddLeaving(resource.Amounts{}.Sub(a)) }

// Matches reports whether e may use a node with these tags, by its own filter and the filters of
// all elements above.
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

// Refresh recomputes the lower bounds of what pending jobs of e, and of the pools below, need.
// Without Refresh, more and more pools would be searched in vain.
func (e *Element) Refresh() {
	for _, c := range e.children.waiting {
		c.Refresh()
	}
	e.measure()
}

// Waiting returns how many operations at or below e have jobs to start.
func (e *Element) Waiting() int {
	if !e.pool {
		return 1
	}
	n := 0
	for _, c := range e.children.waiting {
		n += c.Waiting()
	}
	return n
}

// bounds restrict where jobs of an element may start, and how many.
type bounds struct {
	// limits, if limited is set, are never exceeded by a start, except that jobs that preempt
	// others may exceed them by tolerance.
	limits, tolerance resource.Amounts
	limited           bool
	// filter is the index in Node.Takes, or NoFilter.
	filter int
	// guarded operations start jobs only where Node.Admit allows it.
	guarded bool
}

// SetLimits sets amounts that no start may make e exceed; resource.Infinite removes the limits.
func (b *bounds) SetLimits(limits resource.Amounts) {
	b.limits, b.limited = limits, limits != resource.Infinite
}

// SetTolerance sets by how much a job that preempts others may make e exceed its limits.
func (b *bounds) SetTolerance(tolerance resource.Amounts) { b.tolerance = tolerance }

// SetGuarded sets whether jobs of an operation start only where Node.Admit allows it.
func (b *bounds) SetGuarded(guarded bool) { b.guarded = guarded }

// SetFilter sets which nodes e may use: the nodes whose Takes is true at this index.
func (b *bounds) SetFilter(filter int) { b.filter = filter }
