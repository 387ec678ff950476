package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"weir/scheduling"
	"weir/scheduling/fairshare"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// judge tells the clocks of e, and of all below, what an update found (F.11).
func (w *world) judge(e *fairshare.Element) error {
	for _, c := range e.Children {
		if err := w.judge(c); err != nil {
			return err
		}
	}
	status, err := w.statusAt(e, e.Usage)
	if err != nil {
		return err
	}
	s, err := w.starvation(e.ID)
	if err != nil {
		return err
	}
	timeouts := preemption.Timeouts{
		CanStarve: true, FairShare: s.FairShareTimeout, MinShare: s.MinShareTimeout,
		CanStarveAggressively: s.EnableAggressive, Aggressive: s.AggressiveTimeout,
	}
	if e.Pool == nil {
		timeouts = timeouts.Shortened(e.PendingJobs, w.settings.Settings().Preemption.CountCoefficient)
	} else {
		timeouts.CanStarve = w.settings.Settings().EnablePoolStarvation
	}
	shares := preemption.Shares{Usage: e.UsageShare, Fair: e.FairShare, Min: e.MinShare, Demand: e.DemandShare}
	if w.clocks[e.ID] == nil {
		w.clocks[e.ID] = &preemption.Clock{}
	}
	w.clocks[e.ID].Judge(w.now, status, status == preemption.BelowFairShare, preemption.BelowMinShare(shares), timeouts)
	return nil
}

// statusAt is the status of an element that uses this.
func (w *world) statusAt(e *fairshare.Element, usage resource.Amounts) (preemption.Status, error) {
	if e == w.tree.Root {
		return preemption.Normal, nil
	}
	s, err := w.starvation(e.ID)
	if err != nil {
		return preemption.Normal, err
	}
	shares := preemption.Shares{Usage: resource.Share(usage, w.total), Fair: e.FairShare, Demand: e.DemandShare}
	if e.Pool != nil {
		return preemption.PoolStatus(shares, s.Tolerance), nil
	}
	var least *resource.Vector
	for _, op := range w.Operations {
		if op.ID == e.ID && w.Config[absolute] == true {
			needed, err := op.MinNeeded.exact()
			if err != nil {
				return preemption.Normal, err
			}
			share := resource.Share(needed, w.total)
			least = &share
		}
	}
	return preemption.OperationStatus(shares, s.Tolerance, e.Schedulable(), least), nil
}

// lowest is the lowest element on the way from one to the root, itself included, that starves so
// much at least; "": none does.
func (w *world) lowest(id string, least preemption.Starvation) string {
	for ; id != string(scheduling.RootPool); id = w.parent(id) {
		if clock := w.clocks[id]; clock != nil && clock.Starvation >= least {
			return id
		}
	}
	return ""
}

func (w *world) parent(id string) string {
	for _, p := range w.Pools {
		if p.ID == id {
			return p.Parent
		}
	}
	for _, op := range w.Operations {
		if op.ID == id {
			return op.Parent
		}
	}
	return string(scheduling.RootPool)
}

// checkStarvation compares what the updates have made of an element's clock.
func (k *checker) checkStarvation(id, field string, want json.RawMessage) error {
	clock := k.clocks[id]
	if clock == nil {
		return errors.New("there was no update")
	}
	var wanted any
	if err := strict(want, &wanted); err != nil {
		return err
	}
	var got any
	switch field {
	case "starvation_status":
		got = clock.Starvation.String()
	case "lowest_starving_ancestor":
		got = orNil(k.lowest(id, preemption.Starving))
	case "lowest_aggressively_starving_ancestor":
		got = orNil(k.lowest(id, preemption.AggressivelyStarving))
	case "below_fair_share_since":
		switch {
		case clock.Since.IsZero():
		case clock.Since.Equal(k.now):
			got = "now"
		default:
			got = clock.Since.Sub(epoch).Seconds()
		}
		if n, ok := wanted.(float64); ok && !clock.Since.IsZero() {
			k.number(id, field, clock.Since.Sub(epoch).Seconds(), n, k.Tolerance.Abs)
			return nil
		}
	default:
		return fmt.Errorf("unknown field %q", field)
	}
	k.equal(id, field, "", got, wanted)
	return nil
}

func orNil(id string) any {
	if id == "" {
		return nil
	}
	return id
}
