package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// TestSimulationOfPreemption begins with a full cluster, and most of what happens makes
// someone give way.
func TestSimulationOfPreemption(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		s.pressed = true
		s.setTree(t)
		for range 4 {
			s.setNode(t)
		}
		for range 4 {
			s.addOperation(t)
			s.round(t)
			s.round(t)
		}
		s.repeat(t, map[string]func(*rapid.T){
			"round": s.round, "another round": s.round, "a third round": s.round, "set tree": s.rarely(s.setTree),
			"set node": s.rarely(s.setNode), "set operation": s.rarely(s.setOperation), "remove operation": s.rarely(s.removeOperation),
			"remove node": s.rarely(s.removeNode), "demand": s.rarely(s.demand), "reject": s.rarely(s.reject),
			"gang": s.rarely(s.setGang),
		})
	})
}

func (s *simulation) rarely(event func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		if rapid.IntRange(0, 4).Draw(t, "now") == 0 {
			event(t)
		}
	}
}

// round is an update and a heartbeat, of which most is committed; some of those go that
// have been told to.
func (s *simulation) round(t *rapid.T) {
	s.tick(t)
	s.heartbeat(t)
	for len(s.inFlight) > 0 {
		s.commit(t)
	}
	for len(s.ordered) > 0 && rapid.IntRange(0, 3).Draw(t, "committed") > 0 {
		s.leave(t)
	}
	for _, job := range slices.Sorted(maps.Keys(s.leaving)) {
		if s.leaving[job] && rapid.Bool().Draw(t, "gone") {
			s.must(t, func(e *engine.Engine) error { return e.RemoveAllocation(job) })
			delete(s.running, job)
			delete(s.leaving, job)
		}
	}
}

// drawStarvation sets options by which there is much preemption.
func drawStarvation(t *rapid.T, set *pooltree.TreeOptions) {
	starve := time.Duration(rapid.IntRange(0, 5).Draw(t, "starvation timeout")) * time.Second
	aggressive := starve + time.Duration(rapid.IntRange(0, 5).Draw(t, "aggressive timeout"))*time.Second
	backoff := time.Duration(rapid.IntRange(0, 1).Draw(t, "backoff")) * 3 * time.Second
	runTime := time.Duration(rapid.IntRange(0, 2).Draw(t, "run time")) * time.Second
	enable, onBound := rapid.Bool().Draw(t, "aggressive"), rapid.Bool().Draw(t, "on bound")
	set.FairShareTimeout, set.AggressiveTimeout, set.Backoff, set.MinRunTime, set.EnableAggressive = &starve, &aggressive, &backoff, &runTime, &enable
	set.OnBoundPreemptible = &onBound
}

func drawPreemption(t *rapid.T) pooltree.PoolPreemption {
	var set pooltree.PoolPreemption
	if rapid.IntRange(0, 3).Draw(t, "rate limited") == 0 {
		rate := rapid.Int64Range(0, 2).Draw(t, "rate limit")
		set.RateLimit = &rate
	}
	if rapid.IntRange(0, 3).Draw(t, "preemption allowed") == 0 {
		no := false
		set.AllowNormal = &no
	}
	if rapid.IntRange(0, 2).Draw(t, "tolerant") == 0 {
		set.LimitTolerance = &pooltree.Resources{Amounts: resource.Amounts{UserSlots: 4, Memory: 8}}
	}
	return set
}

// leave has the order of a preemption be committed, in time or not.
func (s *simulation) leave(t *rapid.T) {
	p, ok := s.takeOrdered(t)
	if !ok {
		return
	}
	order := engine.LeaveOrder{Ordered: s.now, Deadline: s.now.Add(p.Timeout), Kind: p.Kind, For: p.For}
	if err := s.both(t, func(e *engine.Engine) error { return e.Leave(p.Job, order) }); (err == nil) != s.running[p.Job] {
		t.Fatalf("job runs: %v, error %v", s.running[p.Job], err)
	}
	if s.running[p.Job] {
		s.leaving[p.Job] = true
	}
}

func (s *simulation) leaveForAUser(t *rapid.T) {
	job := scheduling.JobID(fmt.Sprintf("j%d", rapid.IntRange(0, s.jobs).Draw(t, "job")))
	order := engine.LeaveOrder{Ordered: s.now, Deadline: s.now.Add(time.Minute)}
	_ = s.both(t, func(e *engine.Engine) error { return e.Leave(job, order) })
	if s.running[job] {
		s.leaving[job] = true
	}
}

// stay has the order be refused.
func (s *simulation) stay(t *rapid.T) {
	p, ok := s.takeOrdered(t)
	if !ok {
		return
	}
	s.engine.Stay(p.Job)
	s.twin.Stay(p.Job)
	h, _ := s.engine.Holding(p.Job)
	s.leaving[p.Job] = h.Leaving
}

func (s *simulation) takeOrdered(t *rapid.T) (engine.Preempt, bool) {
	if len(s.ordered) == 0 {
		return engine.Preempt{}, false
	}
	i := rapid.IntRange(0, len(s.ordered)-1).Draw(t, "which order")
	p := s.ordered[i]
	s.ordered = append(s.ordered[:i], s.ordered[i+1:]...)
	return p, true
}
