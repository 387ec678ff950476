package explain

import (
	"cmp"
	"container/heap"
	"math"

	"weir/scheduling/resource"
)

// play runs a trial and returns after how many seconds the wish is fulfilled.
func (f *forecast) play() float64 {
	for len(f.ends) > 0 {
		e := heap.Pop(f).(ending)
		if e.at > f.horizon {
			break
		}
		f.now = e.at
		if e.op < 0 {
			f.arrive(-1-e.op, e.at)
		} else {
			f.release(e)
		}
		if f.serve(e) {
			return e.at
		}
		if f.round == f.maxEnds {
			f.overran = true
			return f.extrapolate(e.at)
		}
	}
	return math.Inf(1)
}

// release frees what the ended jobs held.
func (f *forecast) release(e ending) {
	f.use(e.op, -float64(e.jobs)*e.holds)
	f.free += float64(e.jobs) * e.holds
	f.moved = f.moved || f.ops[e.op].jobs == 0
}

// use adds an amount to the usage of an operation and of all pools above it.
func (f *forecast) use(op int, amount float64) {
	f.ops[op].settle(f.now)
	f.ops[op].usage += amount
	for p := f.ops[op].pool; p >= 0; p = f.pools[p].above {
		f.pools[p].settle(f.now)
		f.pools[p].usage += amount
	}
}

// serve starts jobs in what is free after an end. It reports whether the wish is fulfilled.
func (f *forecast) serve(e ending) bool {
	f.round++
	f.reshare()
	out := f.wish.reach < 1 && f.chance.Float64() >= f.wish.reach
	for f.free >= f.least {
		i := f.next()
		if i < 0 {
			return false
		}
		op := &f.ops[i]
		n := min(op.jobs, f.group, int64(f.free/op.needs), f.room(i))
		if i == f.target && (out || op.needs > e.holds) {
			// The ended jobs were on a node that the wish may not use, or freed too little there.
			n = 0
		}
		if n <= 0 {
			op.passed = f.round
			continue
		}
		f.start(i, n, e.at)
		if i == f.target {
			if f.met += n; f.met >= f.wish.jobs {
				return true
			}
		}
	}
	return false
}

// room returns how many more jobs are allowed by the limits of an operation and of the pools above it.
func (f *forecast) room(i int) int64 {
	op := &f.ops[i]
	left := op.most - op.usage
	for p := op.pool; p >= 0; p = f.pools[p].above {
		left = min(left, f.pools[p].most-f.pools[p].usage)
	}
	return int64(min(left/op.needs, math.MaxInt32))
}

// start starts jobs of an operation.
func (f *forecast) start(i int, n int64, now float64) {
	op := &f.ops[i]
	f.free -= float64(n) * op.needs
	f.use(i, float64(n)*op.needs)
	f.turn++
	op.jobs, op.served = op.jobs-n, f.turn
	for p := op.pool; p >= 0; p = f.pools[p].above {
		f.pools[p].served = f.turn
		if op.jobs == 0 {
			f.pools[p].waiting--
		}
	}
	f.push(ending{at: now + f.lasts(i, 0), op: i, jobs: n, holds: op.needs})
}

// next returns the operation whose turn it is, or -1 if none is left in this round.
func (f *forecast) next() int {
	for at := 0; ; {
		p := &f.pools[at]
		pool, op := -1, -1
		for _, c := range p.pools {
			if child := &f.pools[c]; child.waiting > 0 && child.passed != f.round && (pool < 0 || child.before(&f.pools[pool].contested, f.now)) {
				pool = c
			}
		}
		for _, c := range p.queue {
			if child := &f.ops[c]; child.jobs > 0 && child.passed != f.round && (op < 0 || child.first(&f.ops[op], p.fifo, f.now)) {
				op = c
			}
		}
		switch {
		case op >= 0 && (pool < 0 || f.ops[op].before(&f.pools[pool].contested, f.now)):
			return op
		case pool >= 0:
			at = pool
		case at == 0:
			return -1
		default:
			p.passed = f.round
			at = 0
		}
	}
}

// before orders the elements of a pool, as F.13 does. The one that has the smallest part of its fair
// share comes first, counting the part of a job that it is not owed. Among equals, the one that uses
// less comes first, then the one that has lacked more, and the one that was served least recently.
func (c *contested) before(other *contested, now float64) bool { return c.compare(other, now) < 0 }

func (c *contested) compare(other *contested, now float64) int {
	if a, b := c.satisfaction(now), other.satisfaction(now); a != b {
		return cmp.Compare(a, b)
	}
	if a, b := c.part(), other.part(); a != b {
		return cmp.Compare(a, b)
	}
	if a, b := other.lag(now), c.lag(now); a != b {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(c.served, other.served)
}

func (c *contested) satisfaction(now float64) float64 {
	if c.judged != now || c.stale {
		c.judged, c.stale, c.satisfied = now, false, c.judge(now)
	}
	return c.satisfied
}

func (c *contested) judge(now float64) float64 {
	if c.fair <= 0 {
		return resource.MaxSatisfaction + c.usage
	}
	used := c.usage
	if c.debt.Counts && c.job > 0 {
		used += c.job * min(max(.5-c.lacks(now)/(c.job*c.debt.Period), 0), 1)
	}
	return used / c.fair
}

func (c *contested) part() float64 {
	if c.fair <= 0 {
		return c.usage
	}
	return c.usage / c.fair
}

func (c *contested) lag(now float64) float64 {
	if c.fair <= 0 || !c.debt.Counts {
		return 0
	}
	return c.lacks(now) / c.fair
}

// lacks returns what an element has lacked by now.
func (c *contested) lacks(now float64) float64 {
	most := c.job * c.debt.Horizon
	return min(max(c.lack+(c.fair-c.usage)*(now-c.since), -most), most)
}

// settle brings the debt of an element up to now, before its usage or its fair share changes.
func (c *contested) settle(now float64) { c.lack, c.since, c.stale = c.lacks(now), now, true }

// first orders the operations of a pool.
func (op *fieldOp) first(other *fieldOp, fifo bool, now float64) bool {
	if fifo {
		return op.rank < other.rank
	}
	if order := op.compare(&other.contested, now); order != 0 {
		return order < 0
	}
	return op.place < other.place
}

// extrapolate returns when a trial that has reached its bound would have fulfilled the wish. In a
// FIFO pool it assumes that the operations before the target continue to start jobs at the same
// pace; elsewhere there is no answer.
func (f *forecast) extrapolate(now float64) float64 {
	target := &f.ops[f.target]
	if !f.pools[target.pool].fifo {
		return math.Inf(1)
	}
	before, left := 0.0, 0.0
	for _, i := range f.pools[target.pool].ops {
		op := &f.ops[i]
		if i >= len(f.beginOps) {
			// It came later.
			continue
		}
		if op.jobs == 0 && f.beginOps[i].jobs == 0 || op.rank >= target.rank || op.most-op.usage < op.needs {
			continue
		}
		before += float64(f.beginOps[i].jobs) * op.needs
		left += float64(op.jobs) * op.needs
	}
	if before <= left {
		return math.Inf(1)
	}
	return now * before / (before - left)
}

func (f *forecast) push(e ending) { heap.Push(f, e) }

// Len, Less, Swap, Push and Pop make the ends a heap, the next one first.
func (f *forecast) Len() int { return len(f.ends) }

func (f *forecast) Less(i, j int) bool { return f.ends[i].at < f.ends[j].at }

func (f *forecast) Swap(i, j int) { f.ends[i], f.ends[j] = f.ends[j], f.ends[i] }

// Push implements heap.Interface.
func (f *forecast) Push(e any) { f.ends = append(f.ends, e.(ending)) }

// Pop implements heap.Interface.
func (f *forecast) Pop() any {
	last := f.ends[len(f.ends)-1]
	f.ends = f.ends[:len(f.ends)-1]
	return last
}
