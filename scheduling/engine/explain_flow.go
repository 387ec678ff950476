package engine

import (
	"fmt"
	"math"
	"time"

	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// flowMemory is how long, about, ends of jobs count for the estimate of starts.
const flowMemory = time.Minute

// flow is how much jobs that end of themselves have given back of late, for estimates: what
// was given back some time ago counts less and less. What was told to leave says nothing of
// what will.
type flow struct {
	at time.Time
	// ended and freed are since at; weight is the time that passed, and jobs and given are
	// what came in it, all of them faded.
	ended        int
	freed        resource.Amounts
	weight, jobs float64
	given        [resource.Count]float64
	// silent is for how many seconds no job has ended.
	silent float64
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
	if f.silent += passed; f.ended > 0 {
		f.silent = 0
	}
	f.at, f.ended, f.freed = now, 0, resource.Amounts{}
}

// explainHunger says how an operation fares, and from when on others leave for it.
func (e *Engine) explainHunger(op *operation) []Fact {
	facts := []Fact{hungerFact(op.hunger, e.timeoutsOf(op), "it")}
	if by := op.starver.pool; by != nil {
		facts = append(facts, hungerFact(by.hunger, timeouts(by.effective.Starvation, by.effective.CanStarve), "pool "+quote(by.name)))
	}
	return facts
}

// hungerFact says how an element fares.
func hungerFact(c preemption.Clock, t preemption.Timeouts, who string) Fact {
	starves, _ := c.Starves(t)
	share, since, setting := "fair share", c.From(), "fair_share_starvation_timeout"
	if c.Since.IsZero() || !c.MinSince.IsZero() && starves.Equal(c.MinSince.Add(t.MinShare)) {
		share, since, setting = "min share", c.MinSince, "min_share_preemption_timeout"
	}
	switch {
	case since.IsZero():
		return Fact{Code: FactHasFair, Text: who + " has its fair share, or nothing to start: nobody has to leave for it"}
	case c.Starvation != preemption.NonStarving:
		return Fact{Code: FactStarving, At: since, Setting: c.Starvation.String(),
			Text: fmt.Sprintf("%s is below its %s since %s and is %s: jobs beyond the fair share of others may have to leave for it", who, share, clock(since), c.Starvation)}
	case !t.CanStarve:
		return Fact{Code: FactBelowFair, At: since, Text: fmt.Sprintf("%s is below its %s since %s, and may not starve (enable_pool_starvation)", who, share, clock(since))}
	}
	return Fact{Code: FactBelowFair, At: since, Until: starves, Setting: setting,
		Text: fmt.Sprintf("%s is below its %s since %s: if that lasts until %s it starves, and others may have to leave for it", who, share, clock(since), clock(starves))}
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
