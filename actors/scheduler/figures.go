package scheduler

import (
	"sync"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// Figures holds the metrics of the actors of all trees together. The zero value is ready. It is
// kept when actors end, and counts over all terms of a replica.
type Figures struct {
	mu    sync.Mutex
	stats Stats
	// nodes is the outcome of all plans.
	nodes allocation.Outcome
}

// Stats is the scheduler's work so far.
type Stats struct {
	// Updates counts fair share updates. UpdateTook is their total duration. Updated is the time of
	// the last one; zero before the first.
	Updates    uint64
	UpdateTook time.Duration
	Updated    time.Time
	// Plans counts plans. PlanTook is their total duration.
	Plans    uint64
	PlanTook time.Duration
	// Started counts committed grants of jobs. Refused counts grants that were not committed.
	Started, Refused uint64
	// InFlight is the number of starts without an answer.
	InFlight int
	// LeftOut counts how often an operation or a whole pool with pending jobs got no job on a node
	// of a plan, by cause: ByLimits, ByFilter, or the name of the first resource of which the node
	// had too little.
	LeftOut map[string]uint64
}

// The causes for which operations and pools are left out, besides resources.
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

// planned counts a plan and its outcome. The parameter inFlight of planned and settled is the
// change in the number of starts in flight.
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

// abandon subtracts starts in flight whose answers will not arrive.
func (f *Figures) abandon(inFlight int) { f.change(func(s *Stats) { s.InFlight -= inFlight }) }
