package engine

import (
	"fmt"

	"weir/scheduling/preemption"
)

// explainHunger says how an operation fares, and from when on others leave for it.
func (iq *inquiries) explainHunger(op *operation, hopes [stageCount]hope) []Fact {
	by := hopes[preemption.NormalStage].by
	if by == (starver{}) {
		by = hopes[preemption.AggressiveStage].by
	}
	var facts []Fact
	if by.pool == nil || !op.clock.From().IsZero() {
		facts = append(facts, hungerFact(op.clock, iq.tree.timeoutsOf(op), "it"))
	}
	if by.pool != nil {
		facts = append(facts, hungerFact(by.pool.clock, by.pool.timeouts(), "pool "+quote(by.pool.name)))
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
		return Fact{Code: FactHasFair, Text: who + " has its fair share: nobody has to leave for it"}
	case c.Starvation != preemption.NonStarving:
		return Fact{Code: FactStarving, At: since, Setting: c.Starvation.String(),
			Text: fmt.Sprintf("%s has been below its %s since %s and is %s: jobs beyond the fair share of others may have to leave for it", who, share, clock(since), c.Starvation)}
	case !t.CanStarve:
		return Fact{Code: FactBelowFair, At: since, Text: fmt.Sprintf("%s has been below its %s since %s, and may not starve (enable_pool_starvation)", who, share, clock(since))}
	}
	return Fact{Code: FactBelowFair, At: since, Until: starves, Setting: setting,
		Text: fmt.Sprintf("%s has been below its %s since %s: if that lasts until %s it starves, and others may have to leave for it", who, share, clock(since), clock(starves))}
}

// standing says whether a job is safe.
func (iq *inquiries) standing(h *holding) Fact {
	f := Fact{Job: h.Job, Operation: h.operation.ID, Node: h.node.id, At: h.Started}
	l := h.leaving
	switch {
	case l != nil:
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
