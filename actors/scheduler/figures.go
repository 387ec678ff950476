package scheduler

import (
	"sync"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// Figures is what the actors of trees let others see of their work, together. The
// zero value is ready. It outlives the actors, and counts over all terms of a
// replica.
type Figures struct {
	mu    sync.Mutex
	stats Stats
	// nodes is what came of the nodes of all plans.
	nodes allocation.Outcome
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
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.LeftOut = map[string]uint64{ByLimits: uint64(f.nodes.Left[allocation.Limited]), ByFilter: uint64(f.nodes.Left[allocation.Unmatched])}
	for i, n := range f.nodes.Refused {
		s.LeftOut[resource.Kind(i).String()] = uint64(n)
	}
	return s
}

func (f *Figures) change(change func(*Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.stats)
}

func (f *Figures) update(began, now time.Time) {
	f.change(func(s *Stats) {
		s.Updates++
		s.UpdateTook += max(now.Sub(began), 0)
		s.Updated = now
	})
}

// planned and settled are told by how much the starts in flight have changed, and planned
// what came of the nodes.
func (f *Figures) planned(began, now time.Time, inFlight int, o allocation.Outcome) {
	f.change(func(s *Stats) {
		s.Plans++
		s.PlanTook += max(now.Sub(began), 0)
		s.InFlight += inFlight
		f.nodes.Add(o)
	})
}

func (f *Figures) settled(jobs, started, inFlight int) {
	f.change(func(s *Stats) {
		s.InFlight += inFlight
		s.Started += uint64(started)
		s.Refused += uint64(jobs - started)
	})
}

// abandon forgets starts in flight: their answers will not be heard.
func (f *Figures) abandon(inFlight int) { f.change(func(s *Stats) { s.InFlight -= inFlight }) }
