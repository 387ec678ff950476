package scheduler

import (
	"sync/atomic"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// Figures is what the actors of trees let others see of their work, together. The
// zero value is ready. It outlives the actors, and counts over all terms of a
// replica.
type Figures struct {
	updates, updateNanos, plans, planNanos, started, refused atomic.Uint64
	inFlight, updated                                        atomic.Int64
	limited, unmatched                                       atomic.Uint64
	lacking                                                  [resource.Count]atomic.Uint64
}

// Stats is the scheduler's work so far.
type Stats struct {
	// Updates is how many times fair shares were found, UpdateTook the time that
	// took in all, Updated when it was done last: zero before the first.
	Updates    uint64
	UpdateTook time.Duration
	Updated    time.Time
	// Plans is how many times nodes were looked at, PlanTook the time that took.
	Plans    uint64
	PlanTook time.Duration
	// Started counts jobs that were granted, Refused those whose grant was not
	// committed.
	Started, Refused uint64
	// InFlight is how many starts have no answer yet.
	InFlight int
	// LeftOut counts operations and whole pools with pending jobs that got none on a
	// node that was looked at, by why: ByLimits, ByFilter, or the name of the first
	// resource of which the node has not enough.
	LeftOut map[string]uint64
}

// Why operations and pools are left out, besides for a resource.
const (
	ByLimits = "limits"
	ByFilter = "filter"
)

// Stats returns a snapshot.
func (f *Figures) Stats() Stats {
	s := Stats{
		Updates: f.updates.Load(), UpdateTook: time.Duration(f.updateNanos.Load()),
		Plans: f.plans.Load(), PlanTook: time.Duration(f.planNanos.Load()),
		Started: f.started.Load(), Refused: f.refused.Load(), InFlight: int(f.inFlight.Load()),
	}
	if nanos := f.updated.Load(); nanos != 0 {
		s.Updated = time.Unix(0, nanos)
	}
	s.LeftOut = map[string]uint64{ByLimits: f.limited.Load(), ByFilter: f.unmatched.Load()}
	for i := range f.lacking {
		s.LeftOut[resource.Kind(i).String()] = f.lacking[i].Load()
	}
	return s
}

func (f *Figures) update(began, now time.Time) {
	f.updates.Add(1)
	f.updateNanos.Add(uint64(max(now.Sub(began), 0)))
	f.updated.Store(now.UnixNano())
}

// planned and settled are told by how much the starts in flight have changed.
func (f *Figures) planned(began, now time.Time, inFlight int) {
	f.plans.Add(1)
	f.planNanos.Add(uint64(max(now.Sub(began), 0)))
	f.inFlight.Add(int64(inFlight))
}

// leftOut is told what came of the nodes of a plan.
func (f *Figures) leftOut(o allocation.Outcome) {
	f.limited.Add(uint64(o.Left[allocation.Limited]))
	f.unmatched.Add(uint64(o.Left[allocation.Unmatched]))
	for i, n := range o.Refused {
		f.lacking[i].Add(uint64(n))
	}
}

func (f *Figures) settled(jobs, started, inFlight int) {
	f.inFlight.Add(int64(inFlight))
	f.started.Add(uint64(started))
	f.refused.Add(uint64(jobs - started))
}

// abandon forgets starts in flight: their answers will not be heard.
func (f *Figures) abandon(inFlight int) { f.inFlight.Add(-int64(inFlight)) }
