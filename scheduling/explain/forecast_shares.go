package explain

import (
	"cmp"
	"math"
	"slices"

	"weir/scheduling/resource"
)

const (
	// sharesAtOnce bounds how many elements have their fair shares computed in all trials.
	sharesAtOnce = 1_000_000
	// maxArrivals is how many operations come in a trial at most.
	maxArrivals = 120
	// The level of fair shares is found with this relative precision, which takes at most so many
	// halvings. Weights may differ by 18 orders of magnitude.
	precision, halvings = 1e-6, 90
	// leastScale and mostScale bound by how much simulated fair shares are corrected.
	leastScale, mostScale = .5, 2
)

// calibrate finds how fair shares at the beginning differ from those that share finds: it knows one
// resource only, and not all rules.
func (f *forecast) calibrate() {
	for i := range f.beginPools {
		if p := &f.beginPools[i]; p.fifo {
			// Those that come later have their turn later, so they are added at the end.
			slices.SortStableFunc(p.ops, func(a, b int) int { return cmp.Compare(f.beginOps[a].rank, f.beginOps[b].rank) })
		}
	}
	f.pools, f.ops = append(f.pools[:0], f.beginPools...), append(f.ops[:0], f.beginOps...)
	f.share()
	scale := func(is, found *contested) {
		if is.fair > resource.Epsilon && found.fair > resource.Epsilon {
			is.scale = min(max(is.fair/found.fair, leastScale), mostScale)
		}
	}
	for i := range f.pools {
		scale(&f.beginPools[i].contested, &f.pools[i].contested)
	}
	for i := range f.ops {
		scale(&f.beginOps[i].contested, &f.ops[i].contested)
	}
}

// reshare finds fair shares again if demand has changed. As a trial goes on, it does so more rarely.
func (f *forecast) reshare() {
	if !f.moved || f.round < f.shareAt {
		return
	}
	f.share()
	f.moved = false
	elements := len(f.ops) + len(f.pools)
	f.shareAt = f.round + 1 + f.round*trials*elements*8/sharesAtOnce
}

// share finds the fair shares of the lacking resource: strong and integral guarantees first, the rest
// by weight (F.7), as far as there is demand.
func (f *forecast) share() {
	for i := range f.ops {
		op := &f.ops[i]
		op.settle(f.now)
		op.demand = min(op.usage+float64(op.jobs)*op.needs+op.beyond, max(op.most, op.usage))
	}
	// Pools come after those above them.
	for i := len(f.pools) - 1; i >= 0; i-- {
		p := &f.pools[i]
		p.settle(f.now)
		p.demand = 0
		for _, c := range p.pools {
			p.demand += f.pools[c].demand
		}
		for _, c := range p.ops {
			p.demand += f.ops[c].demand
		}
		p.demand = min(p.demand, max(p.most, p.usage))
	}
	for i := range f.pools {
		p := &f.pools[i]
		if i == 0 {
			p.fair = min(f.total, p.demand)
		}
		f.divide(p)
	}
}

// divide divides the fair share of a pool among its children.
func (f *forecast) divide(p *fieldPool) {
	if p.fifo {
		f.inTurn(p)
		return
	}
	f.children = f.children[:0]
	for _, c := range p.pools {
		f.children = append(f.children, &f.pools[c].contested)
	}
	for _, c := range p.ops {
		f.children = append(f.children, &f.ops[c].contested)
	}
	level := math.Inf(1)
	if p.fair < p.demand {
		low, high := 0.0, 0.0
		for _, c := range f.children {
			if c.demand > 0 {
				high = max(high, c.demand/c.weight)
			}
		}
		for i := 0; i < halvings && high-low > precision*high; i++ {
			level = (low + high) / 2
			given := 0.0
			for _, c := range f.children {
				given += c.at(level)
			}
			if given > p.fair {
				high = level
			} else {
				low = level
			}
		}
	}
	for _, c := range f.children {
		c.fair = c.at(level) * c.scale
	}
}

// at is the fair share of an element at a level of shares by weight.
func (c *contested) at(level float64) float64 {
	if math.IsInf(level, 1) {
		return c.demand
	}
	return min(c.demand, max(c.guarantee, c.weight*level))
}

// inTurn divides the fair share of a FIFO pool among its children: pools first.
func (f *forecast) inTurn(p *fieldPool) {
	left := p.fair
	give := func(c *contested) {
		given := min(left, c.demand)
		left -= given
		c.fair = given * c.scale
	}
	for _, c := range p.pools {
		give(&f.pools[c].contested)
	}
	for _, c := range p.ops {
		give(&f.ops[c].contested)
	}
}

// expect adds the next operation that comes to a pool to the ends of a trial.
func (f *forecast) expect(pool int, now float64) {
	if rate := f.pools[pool].rate; rate > 0 && len(f.ops) < len(f.beginOps)+maxArrivals {
		if at := now + f.chance.ExpFloat64()/rate; at <= f.horizon {
			f.push(ending{at: at, op: -1 - pool})
		}
	}
}

// arrive adds an operation to a pool, like one that came before.
func (f *forecast) arrive(pool int, now float64) {
	f.expect(pool, now)
	past := &f.contest.Pools[pool].Past
	like := &past.Arrivals[f.chance.IntN(len(past.Arrivals))]
	op := fieldOp{
		contested: contested{weight: like.Weight, scale: 1, stale: true, most: math.Inf(1)},
		pool:      pool, place: math.MaxInt, rank: math.MaxInt64, jobs: like.Jobs, needs: float64(like.Needs.Of(f.wish.k)), drawn: true,
	}
	op.debt, op.job, op.since = f.pools[pool].debt, op.needs, now
	if op.needs <= 0 || !f.wish.fits(like.Needs) {
		return
	}
	op.lasts, op.pace = f.unlike(pool, &Lengths{}, &ages{}, nil)
	f.least = min(f.least, op.needs)
	f.pools[pool].ops, f.pools[pool].queue = append(f.pools[pool].ops, len(f.ops)), append(f.pools[pool].queue, len(f.ops))
	f.ops = append(f.ops, op)
	for p := pool; p >= 0; p = f.pools[p].above {
		f.pools[p].waiting++
		if f.pools[p].job == 0 {
			f.pools[p].job = op.needs
		}
	}
	f.moved = true
}
