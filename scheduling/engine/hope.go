package engine

import (
	"math"
	"time"

	"weir/scheduling/explain"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// hopes are when an operation starves, or a pool above it, by which it may preempt others, and
// by whose starvation: as far as who starves will still be below its share when it is the
// operation's turn; outrun says why it will not.
func (iq *inquiries) hopes(op *operation) (all [preemption.StageCount]explain.Hope, by [preemption.StageCount]starver, outrun string) {
	from := func(who starver, c preemption.Clock, t preemption.Timeouts) {
		var at [preemption.StageCount]time.Time
		at[preemption.NormalStage], at[preemption.AggressiveStage] = c.Starves(t)
		for stage, at := range at {
			if known := all[stage].At; !at.IsZero() && (known.IsZero() || at.Before(known)) {
				all[stage].At, by[stage] = at, who
			}
		}
	}
	from(starver{operation: op}, op.clock, iq.tree.timeoutsOf(op))
	if iq.moment.settings.Preemption.PriorityScope != pooltree.OperationOnly {
		for p := op.pool; p.parent != nil; p = p.parent {
			from(starver{pool: p}, p.clock, p.timeouts())
		}
	}
	for stage := range all {
		h, who := &all[stage], by[stage]
		if h.At.IsZero() {
			continue
		}
		var taken resource.Amounts
		if h.Rivals, taken = iq.rivals(op, who, h.At); !who.owed(op.order.Next(), taken, iq.cluster.total) {
			outrun = explain.Outrun("")
			if who.pool != nil {
				outrun = explain.Outrun(who.pool.name)
			}
			*h, by[stage] = explain.Hope{}, starver{}
		}
	}
	return all, by, outrun
}

// rivals counts the jobs of others for which jobs have to leave before it is the turn of an
// operation, of those that starve by then, and what they take of that who starves for it
// lacks.
func (iq *inquiries) rivals(op *operation, by starver, at time.Time) (jobs int, taken resource.Amounts) {
	counted := map[*operation]bool{op: true}
	count := func(other *operation, lacks bool) {
		if counted[other] || !other.active() || !other.order.Before(op.order) {
			return
		}
		counted[other] = true
		n, needs := iq.before(other, op)
		jobs += n
		if lacks {
			taken = taken.Add(needs.Times(int64(n)))
		}
	}
	if by.pool != nil {
		for _, other := range by.pool.below(nil) {
			count(other, true)
		}
	}
	for _, other := range op.pool.operations {
		if starves, _ := other.clock.Starves(iq.tree.timeoutsOf(other)); !starves.IsZero() && !starves.After(at) {
			count(other, false)
		}
	}
	for stage := range iq.stages.starving {
		for _, other := range iq.stages.starving[stage] {
			count(other, false)
		}
	}
	return jobs, taken
}

// before is how many jobs another operation starts before it is the turn of op, and what
// each of them needs: in a FIFO pool all that it has, elsewhere those that bring it, or the
// pool that it is in, to where op is, or the pool that op is in.
func (iq *inquiries) before(other, op *operation) (jobs int, needs resource.Amounts) {
	waiting := other.jobs()
	for i := range other.tasks {
		if t := &other.tasks[i]; t.effective() > 0 {
			needs = needs.Max(t.perJob)
		}
	}
	if waiting == 0 {
		return 0, needs
	}
	if other.pool == op.pool && op.pool.fifo {
		return int(min(waiting, math.MaxInt32)), needs
	}
	mine, its, share := op.order, other.order, other.share
	for p := other.pool; p != nil && !op.order.Below(p.order); p = p.parent {
		its, share = p.order, p.share
	}
	for p := op.pool; p != nil && !other.order.Below(p.order); p = p.parent {
		mine = p.order
	}
	k := explain.Greatest(share)
	lacks := min(mine.Satisfaction(), 1)*share.FairShare[k]*float64(iq.cluster.total.Of(k)) - float64(its.Usage().Of(k))
	n := int64(1)
	if needs.Of(k) > 0 {
		n = max(1, int64(math.Ceil(lacks/float64(needs.Of(k)))))
	}
	return int(min(n, waiting, math.MaxInt32)), needs
}
