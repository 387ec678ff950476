package scheduler

import (
	"sync/atomic"
	"time"
)

// Figures is what the actors of trees let others see of their work, together. The
// zero value is ready. It outlives the actors, and counts over all terms of a
// replica.
type Figures struct {
	updates, updateNanos, plans, planNanos, started, refused atomic.Uint64
	inFlight, updated                                        atomic.Int64
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
}

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

func (f *Figures) settled(jobs, started, inFlight int) {
	f.inFlight.Add(int64(inFlight))
	f.started.Add(uint64(started))
	f.refused.Add(uint64(jobs - started))
}

// abandon forgets starts in flight: their answers will not be heard.
func (f *Figures) abandon(inFlight int) { f.inFlight.Add(-int64(inFlight)) }
