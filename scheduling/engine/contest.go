package engine

import (
	"math"
	"time"

	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

const (
	// contendersPerStep and agesPerStep bound for how many operations, and jobs of theirs,
	// the engine is held up at once by a look at those that compete.
	contendersPerStep, agesPerStep = 128, 2048
	// agesKept is of how many jobs of an operation it is known when they were started: of
	// those that were first. The others were started evenly from then on.
	agesKept = 64
)

// contest is what is known of those that compete for what jobs give back when they end. It
// shares nothing with the engine.
type contest struct {
	begun bool
	total resource.Amounts
	// left are the operations that are still to be looked at.
	left       []*operation
	pools      []arena
	contenders []contender
	at         map[*pool]int
	place      map[*operation]int
}

// arena is a pool in which others compete.
type arena struct {
	// above is the place of the pool above, -1: there is none.
	above   int
	fifo    bool
	fair    resource.Vector
	usage   resource.Amounts
	limits  resource.Amounts
	lengths lengths
}

// contender is an operation that runs jobs, or has some to start.
type contender struct {
	// op is for the engine alone, but for telling contenders apart.
	op   *operation
	pool int
	// place is that in the order of scheduling, rank that in a FIFO pool.
	place int
	rank  int64
	// jobs are to start, and each needs so much; of running ones each holds so much.
	jobs, running int64
	needs, holds  resource.Amounts
	// first are the starts of the running jobs that were first, newest is the last start.
	first         []time.Time
	newest        time.Time
	fair          resource.Vector
	usage, limits resource.Amounts
	lengths       lengths
	// gang operations have a turn that is none of the order.
	gang bool
}

// compete takes one step of the look at those that compete.
func (iq *inquiries) compete(s *survey) {
	c := &s.contest
	if !c.begun {
		c.begun, c.total, c.left = true, iq.cluster.total, iq.tree.root.below(nil)
		c.at, c.place = map[*pool]int{}, make(map[*operation]int, len(s.order))
		for i, op := range s.order {
			c.place[op] = i
		}
		return
	}
	for looked, ages := 0, 0; looked < contendersPerStep && ages < agesPerStep && len(c.left) > 0; looked++ {
		op := c.left[0]
		if c.left = c.left[1:]; iq.tree.operations[op.ID] == op && op.pool != nil {
			ages += c.add(op)
		}
	}
}

// known reports whether the engine has said all.
func (c *contest) known() bool { return c.begun && len(c.left) == 0 }

// add takes note of an operation, and returns of how many jobs it was asked when they were
// started.
func (c *contest) add(op *operation) int {
	usage := op.order.Usage()
	n := contender{
		op: op, rank: rank(op.share), place: math.MaxInt, running: int64(op.held), fair: op.share.FairShare, usage: usage,
		limits: op.effective.Limits.Min(op.ceiling), gang: len(op.gangs) > 0,
	}
	if at, waits := c.place[op]; waits {
		n.place = at
		for _, t := range op.order.Tasks() {
			if t.Waits() {
				n.jobs += t.Pending
				n.needs = n.needs.Add(t.PerJob.Times(t.Pending))
			}
		}
	}
	if n.jobs == 0 && n.running == 0 && !n.gang {
		return 0
	}
	if n.jobs > 0 {
		n.needs = n.needs.Scale(1 / float64(n.jobs))
	}
	if n.running > 0 {
		n.holds = usage.Add(op.order.Leaving()).Scale(1 / float64(n.running))
	}
	n.first, n.newest = op.starts(), op.lastStart
	if m := op.groups.Last(); m != nil {
		n.newest = m.Started
	}
	n.lengths = op.lengths.clone()
	n.pool = c.arena(op.pool)
	c.contenders = append(c.contenders, n)
	return len(n.first)
}

// starts is when those jobs that run were started that were first.
func (op *operation) starts() []time.Time {
	all := make([]time.Time, 0, min(op.groups.Len(), agesKept))
	for m := op.groups.First(); m != nil && len(all) < agesKept; m = m.Next() {
		all = append(all, m.Started)
	}
	return all
}

// arena returns the place of a pool, after those above it.
func (c *contest) arena(p *pool) int {
	if p == nil {
		return -1
	}
	at, known := c.at[p]
	if !known {
		a := arena{
			above: c.arena(p.parent), fifo: p.effective.Mode == pooltree.FIFO, fair: p.share.FairShare, usage: p.order.Usage(),
			limits: p.effective.Limits.Min(p.ceiling), lengths: p.lengths.clone(),
		}
		at = len(c.pools)
		c.at[p] = at
		c.pools = append(c.pools, a)
	}
	return at
}

// enough reports whether so many lengths say how long jobs run.
func (l *lengths) enough() bool { return l.ended >= 3 }

// lengthsOf is for how long jobs of a contender run: those of its own, or of the nearest
// pool above of which enough have ended.
func (c *contest) lengthsOf(n *contender) (l *lengths, own, known bool) {
	if n.lengths.enough() {
		return &n.lengths, true, true
	}
	for at := n.pool; at >= 0; at = c.pools[at].above {
		if l := &c.pools[at].lengths; l.enough() {
			return l, false, true
		}
	}
	return nil, false, false
}
