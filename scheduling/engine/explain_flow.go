package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// flowMemory is how long, about, ends of jobs count for the estimate of starts.
const flowMemory = time.Minute

// flow is how much jobs that end have given back of late, for estimates: what was given
// back some time ago counts less and less.
type flow struct {
	at time.Time
	// ended and freed are since at; weight is the time that passed, and jobs and given are
	// what came in it, all of them faded.
	ended        int
	freed        resource.Amounts
	weight, jobs float64
	given        [resource.Count]float64
}

// end counts a job that has ended.
func (f *flow) end(held resource.Amounts) {
	f.ended++
	f.freed = f.freed.Add(held)
}

// tick lets time pass.
func (f *flow) tick(now time.Time) {
	if f.at.IsZero() || !now.After(f.at) {
		if f.at.IsZero() {
			f.at = now
		}
		return
	}
	passed := now.Sub(f.at).Seconds()
	fade := math.Exp(-passed / flowMemory.Seconds())
	f.weight = f.weight*fade + passed
	f.jobs = f.jobs*fade + float64(f.ended)
	for i := range f.given {
		f.given[i] = f.given[i]*fade + float64(f.freed.Of(resource.Kind(i)))
	}
	f.at, f.ended, f.freed = now, 0, resource.Amounts{}
}

// until returns how long it takes until so much has been given back; false: too few jobs
// have ended of late to tell.
func (f *flow) until(needs resource.Amounts) (time.Duration, bool) {
	if f.jobs < 2 || f.weight <= 0 {
		return 0, false
	}
	longest := 0.0
	for i := range resource.Count {
		need := float64(needs.Of(resource.Kind(i)))
		if need <= 0 {
			continue
		}
		if f.given[i] <= 0 {
			return 0, false
		}
		longest = max(longest, need*f.weight/f.given[i])
	}
	if longest > (24 * time.Hour).Seconds() {
		return 0, false
	}
	return time.Duration(longest * float64(time.Second)), true
}

// explainPosition says whose turn it is before the operation's.
func (e *Engine) explainPosition(x *Explanation, op *operation, now time.Time) {
	at := 0
	e.filler.Order(e.root.order, func(waits *allocation.Element) {
		x.Waiting++
		if waits == op.order {
			at = x.Waiting
		}
	})
	x.Position = at
	if at == 0 {
		return
	}
	x.Facts = append(x.Facts, Fact{Code: FactPosition, Count: int64(at), Of: int64(x.Waiting), At: now,
		Text: fmt.Sprintf("it is the %s of %s that have jobs to start, in the order of scheduling: the least satisfied pools and operations first", ordinal(at), counted(x.Waiting, "operation"))})
}

// explainStart estimates when a job starts: when those that end have given back what the
// operations before this one, and itself, need for a job each; or when what is held for it
// is free.
func (e *Engine) explainStart(x *Explanation, op *operation, t TaskExplanation, now time.Time) {
	if t.Nodes.Fit > 0 && t.Verdict == FactStartsSoon {
		return
	}
	var needs resource.Amounts
	reached := false
	e.filler.Order(e.root.order, func(waits *allocation.Element) {
		if reached {
			return
		}
		reached = waits == op.order
		if reached {
			needs = needs.Add(t.PerJob)
			return
		}
		for _, other := range waits.Tasks() {
			if other.Pending > 0 {
				needs = needs.Add(other.PerJob)
				return
			}
		}
	})
	wait, known := e.flow.until(needs)
	if !known {
		return
	}
	x.Start = now.Add(wait)
	x.Facts = append(x.Facts, Fact{Code: FactEstimate, At: x.Start,
		Text: fmt.Sprintf("a job may start at about %s, if jobs go on to end as in the last minutes and each makes room for the next in the order", clock(x.Start))})
}

// maxVictims bounds those that are named.
const maxVictims = 10

// likelyVictims names the jobs that would leave if a node had to make room now: on the
// node where that takes the fewest.
func (e *Engine) likelyVictims(x *Explanation, op *operation, t *task, could []*node, now time.Time) []Fact {
	if len(x.Victims) > 0 {
		return nil
	}
	stage := op.stageNow()
	var fewest []*holding
	for _, n := range could {
		var candidates []*holding
		for _, h := range n.held {
			if h.operation != op && h.Grouped() && stage.Takes(h.Level()) && e.block(h, stage, now) == preemption.NotBlocked {
				candidates = append(candidates, h)
			}
		}
		victims, ok := preemption.Victims(t.perJob, n.spare(), candidates)
		if ok && len(victims) > 0 && (fewest == nil || len(victims) < len(fewest)) {
			fewest = slices.Clone(victims)
		}
	}
	for _, h := range fewest[:min(len(fewest), maxVictims)] {
		x.Victims = append(x.Victims, Victim{Job: h.Job, Operation: h.operation.ID, Node: h.node.id, Started: h.Started})
	}
	if len(fewest) == 0 {
		return nil
	}
	first := fewest[0]
	return []Fact{{Code: FactLikelyVictims, Task: t.name, Node: first.node.id, Job: first.Job, Operation: first.operation.ID, Count: int64(len(fewest)),
		Text: fmt.Sprintf("if others had to leave now, it would be %s on node %s, job %s of operation %s first", counted(len(fewest), "job"), first.node.id, first.Job, first.operation.ID)}}
}

// stageNow is the stage in which others would leave for the operation.
func (op *operation) stageNow() preemption.Stage {
	if op.hunger.Starvation == preemption.AggressivelyStarving {
		return preemption.AggressiveStage
	}
	return preemption.NormalStage
}

// block is why a job that could go in a stage is let stay.
func (e *Engine) block(h *holding, stage preemption.Stage, now time.Time) preemption.Block {
	if block := h.operation.owner().Blocks(stage, now, h.Started); block != preemption.NotBlocked {
		return block
	}
	if !e.rate(h, now) {
		return preemption.BlockedByRate
	}
	return preemption.NotBlocked
}

// sparedFacts count the jobs on nodes that could go for an operation, but for an option or
// the state of theirs: one fact for each of these and each of their pools.
func (e *Engine) sparedFacts(op *operation, could []*node, now time.Time) (facts []Fact) {
	type cause struct {
		block preemption.Block
		pool  scheduling.PoolName
	}
	stage := op.stageNow()
	counts := make(map[cause]int64)
	for _, n := range could {
		for _, h := range n.held {
			if h.operation == op || !h.Grouped() || !stage.Takes(h.Level()) {
				continue
			}
			if block := e.block(h, stage, now); block != preemption.NotBlocked {
				counts[cause{block, h.operation.pool.name}]++
			}
		}
	}
	for c, n := range counts {
		facts = append(facts, Fact{Code: FactSpared, Setting: c.block.String(), Pool: c.pool, Count: n,
			Text: fmt.Sprintf("%s in pool %q could have to leave for it, and %s let stay: %s", counted(n, "job"), c.pool, isOrAre(n), c.block)})
	}
	slices.SortFunc(facts, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Setting, b.Setting))
	})
	return facts
}

// explainHunger says how an operation fares, and from when on others leave for it.
func (e *Engine) explainHunger(x *Explanation, op *operation) {
	t := timeouts(op.effective.Starvation, true).Shortened(op.share.PendingJobs, e.settings.Preemption.CountCoefficient)
	x.Facts = append(x.Facts, hungerFact(op.hunger, t, "it"))
	if by := op.starver.pool; by != nil {
		x.Facts = append(x.Facts, hungerFact(by.hunger, timeouts(by.effective.Starvation, by.effective.CanStarve), "pool "+quote(by.name)))
	}
}

// hungerFact says how an element fares.
func hungerFact(c preemption.Clock, t preemption.Timeouts, who string) Fact {
	switch {
	case c.Status == preemption.Normal:
		return Fact{Code: FactHasFair, Text: who + " has its fair share, or nothing to start: nobody has to leave for it"}
	case c.Starvation != preemption.NonStarving:
		return Fact{Code: FactStarving, At: c.Since, Setting: c.Starvation.String(),
			Text: fmt.Sprintf("%s is below its fair share since %s and is %s: jobs beyond the fair share of others may have to leave for it", who, clock(c.Since), c.Starvation)}
	case !t.CanStarve:
		return Fact{Code: FactBelowFair, At: c.Since, Text: fmt.Sprintf("%s is below its fair share since %s, and may not starve (enable_pool_starvation)", who, clock(c.Since))}
	}
	starves := c.Since.Add(t.FairShare)
	return Fact{Code: FactBelowFair, At: c.Since, Until: starves, Setting: "fair_share_starvation_timeout",
		Text: fmt.Sprintf("%s is below its fair share since %s: if that lasts until %s it starves, and others may have to leave for it", who, clock(c.Since), clock(starves))}
}

// standing says whether a job is safe.
func (e *Engine) standing(h *holding) Fact {
	f := Fact{Job: h.Job, Operation: h.operation.ID, Node: h.node.id, At: h.Started}
	l := h.leaving
	switch {
	case l.is:
		f.Code, f.At, f.Until, f.Setting = FactLeaving, l.ordered, l.deadline, l.kind.String()
		f.Text = "it has been told to end at once"
		if l.deadline.After(l.ordered) {
			f.Text = fmt.Sprintf("it has been told to leave at %s, and may stay until %s", clock(l.ordered), clock(l.deadline))
		}
		if l.claim != nil {
			f.Operation = l.claim.operation.ID
			f.Text += fmt.Sprintf("; what it leaves is held for a job of operation %s", l.claim.operation.ID)
		}
	case h.Level() == preemption.NonPreemptible:
		f.Code = FactProtected
		f.Text = "it is within the fair share of its operation: it does not have to leave for others"
	default:
		f.Code, f.Setting = FactPreemptible, h.Level().String()
		f.Text = fmt.Sprintf("it is beyond the part of the fair share of its operation that is protected (%s): it leaves when one that starves needs its place", h.Level())
	}
	return f
}
