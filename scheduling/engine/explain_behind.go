package engine

import (
	"fmt"
	"slices"

	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// behind says why what is freed is not for an operation that is not below its fair share,
// whatever lacks: it comes after others in a FIFO pool, or has no fair share.
func (iq *inquiries) behind(op *operation, k resource.Kind) *Fact {
	if op.clock.Status == preemption.BelowFairShare {
		return nil
	}
	l := starver{operation: op}.level()
	if l.fifo() > 1 && iq.boundOf(l, k).Code == FactBoundFIFO {
		return iq.behindOthers(op, l.fifo())
	}
	if op.share.FairShare.MaxComponent() > resource.Epsilon {
		return nil
	}
	return iq.shareless(op, k)
}

// ahead are the active operations that come before one in its FIFO pool, in pools of that too.
func (iq *inquiries) ahead(op *operation) (all []*operation) {
	for _, other := range op.pool.operations {
		if rank(other.share) < rank(op.share) {
			all = append(all, other)
		}
	}
	for _, p := range op.pool.pools {
		if rank(p.share) < rank(op.share) {
			all = p.below(all)
		}
	}
	return slices.DeleteFunc(all, func(other *operation) bool { return !other.active() })
}

// behindOthers says what those have to start that come before an operation in its FIFO
// pool.
func (iq *inquiries) behindOthers(op *operation, place int) *Fact {
	f := Fact{Code: FactFIFO, Pool: op.pool.name, Of: int64(place - 1)}
	var first *operation
	waiting, running := 0, 0
	for _, other := range iq.ahead(op) {
		running += other.held
		jobs := int64(0)
		for i := range other.tasks {
			jobs += other.tasks[i].effective()
		}
		if jobs == 0 {
			continue
		}
		waiting++
		f.Count += jobs
		if first == nil || other.pool == first.pool && rank(other.share) < rank(first.share) {
			first = other
		}
	}
	f.Text = fmt.Sprintf("%s in FIFO order of pool %q", ordinal(place), op.pool.name)
	switch {
	case first == nil:
		f.Text += fmt.Sprintf(": those before it have no more jobs to start, and %s %s", grouped(int64(running)), plural(running, "job that runs", "jobs that run"))
	case waiting == 1:
		f.Operation = first.ID
		f.Text += fmt.Sprintf(": %s %s of operation %s %s before it", grouped(f.Count), plural(f.Count, "job", "jobs"), first.ID, isOrAre(f.Count))
	default:
		f.Operation = first.ID
		f.Text += fmt.Sprintf(": %s jobs of %d operations are before it, first those of operation %s", grouped(f.Count), waiting, first.ID)
	}
	return &f
}

// shareless says why an operation has no fair share.
func (iq *inquiries) shareless(op *operation, k resource.Kind) *Fact {
	f := &Fact{Code: FactNoShare}
	if op.share.DemandShare.IsZero() {
		f.Text = "it has no fair share yet: that follows from its jobs with the next update"
		return f
	}
	const leftovers = "it gets only what all others leave"
	for at := (starver{operation: op}); ; at = (starver{pool: at.level().above}) {
		l := at.level()
		if l.above == nil {
			break
		}
		f.Pool = l.fact.Pool
		switch s := l.share; {
		case s.Weight == 0:
			f.Setting, f.Text = "weight", fmt.Sprintf("it has no fair share: %s has weight 0, so %s", l.name, leftovers)
			return f
		case s.LimitsShare[k] <= resource.Epsilon:
			f.Setting, f.Text = "resource_limits", fmt.Sprintf("it has no fair share: the resource_limits, the max_share_ratio or the nodes of the filter of %s leave it no %s", l.name, k)
			return f
		case l.fifo() > 1 && l.above.share.FairShare.MaxComponent() > resource.Epsilon:
			f.Code, f.Text = FactFIFO, fmt.Sprintf("%s is the %s in FIFO pool %q: those before it get all that they can use first", l.name, ordinal(l.fifo()), l.above.name)
			return f
		case l.above.share.FairShare.MaxComponent() > resource.Epsilon:
			f.Text = fmt.Sprintf("it has no fair share: guarantees of others take all that pool %q has", l.above.name)
			if s.Gang {
				f.Text = fmt.Sprintf("it has no fair share: as a gang it has all or nothing, and what pool %q has for it is not enough for all of its jobs", l.above.name)
			}
			return f
		}
	}
	f.Pool, f.Text = "", "it has no fair share: the tree has none to give"
	return f
}

// grouped writes a large number for people.
func grouped(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

func plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
