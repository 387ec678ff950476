package engine_test

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

func (s *simulation) setNode(t *rapid.T) {
	id, limits, schedulable := drawNode.Draw(t, "node"), s.drawAmounts(t, 16), rapid.IntRange(0, 4).Draw(t, "schedulable") > 0
	tags := drawTags.Draw(t, "tags")
	s.must(t, func(e *engine.Engine) error { return e.SetNode(id, limits, schedulable, tags...) })
	s.nodes[id] = true
}

func (s *simulation) removeNode(t *rapid.T) {
	id := drawNode.Draw(t, "node")
	if err := s.both(t, func(e *engine.Engine) error { return e.RemoveNode(id) }); (err == nil) != s.nodes[id] {
		t.Fatalf("node is there: %v, error %v", s.nodes[id], err)
	}
	delete(s.nodes, id)
}

func (s *simulation) setPool(t *rapid.T) {
	pool, parent, weight := drawPool.Draw(t, "pool"), drawParent.Draw(t, "parent"), drawWeight.Draw(t, "weight")
	_ = s.both(t, func(e *engine.Engine) error { return e.SetPool(pool, parent, weight) })
}

// setTree sets limits, filters and modes of pools, and moves them. It is refused, half
// done, when a pool that is not in it is in use.
func (s *simulation) setTree(t *rapid.T) {
	var pools []pooltree.Pool
	parents := []scheduling.PoolName{scheduling.RootPool}
	for _, name := range []scheduling.PoolName{"a", "b", "c", "d"} {
		if rapid.IntRange(0, 5).Draw(t, "left out") == 0 {
			continue
		}
		pool := pooltree.Pool{Name: name, Parent: rapid.SampledFrom(parents).Draw(t, "parent")}
		if !s.pressed || rapid.IntRange(0, 4).Draw(t, "bounded") == 0 {
			pool.Options.ResourceLimits, pool.Options.TagFilter = drawLimits(t), filterOf(t)
		}
		pool.Options.PoolPreemption = drawPreemption(t)
		if rapid.IntRange(0, 3).Draw(t, "fifo") == 0 {
			fifo := pooltree.FIFO
			pool.Options.Mode = &fifo
		}
		parents = append(parents, name)
		pools = append(pools, pool)
	}
	timeout := rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(t, "node reconnection timeout")
	set := pooltree.TreeOptions{NodeReconnectionTimeout: &timeout}
	drawStarvation(t, &set)
	tree, err := pooltree.FromPools(set, pools)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.both(t, func(e *engine.Engine) error { return e.SetTree(tree) })
}

func drawLimits(t *rapid.T) *pooltree.Resources {
	if rapid.IntRange(0, 2).Draw(t, "limited") > 0 {
		return nil
	}
	limits := pooltree.Resources{Amounts: resource.Amounts{
		UserSlots: rapid.Int64Range(0, 12).Draw(t, "limit of slots"), Memory: rapid.Int64Range(0, 64).Draw(t, "limit of memory"),
	}}
	limits.Named[resource.UserSlots], limits.Named[resource.Memory] = true, rapid.Bool().Draw(t, "memory limited")
	if !limits.Named[resource.Memory] {
		limits.Amounts.Memory = 0
	}
	return &limits
}

func filterOf(t *rapid.T) *pooltree.Filter {
	f, err := pooltree.ParseFilter(drawFilter.Draw(t, "filter"))
	if err != nil {
		t.Fatal(err)
	}
	return &f
}

func (s *simulation) removePool(t *rapid.T) {
	pool := drawPool.Draw(t, "pool")
	_ = s.both(t, func(e *engine.Engine) error { return e.RemovePool(pool) })
}

func (s *simulation) addOperation(t *rapid.T) {
	op := s.draw(t)
	err := s.both(t, func(e *engine.Engine) error { return e.AddOperation(op) })
	if err != nil {
		return
	}
	s.operations[op.ID] = true
	// The simulation is over for an operation of this name that was removed.
	maps.DeleteFunc(s.pending, func(key taskKey, _ int64) bool { return key.operation == op.ID })
	s.demandOf(t, op.ID)
}

func (s *simulation) setOperation(t *rapid.T) {
	op := s.draw(t)
	_ = s.both(t, func(e *engine.Engine) error { return e.SetOperation(op) })
}

func (s *simulation) draw(t *rapid.T) engine.Operation {
	if s.pressed && rapid.IntRange(0, 4).Draw(t, "plain") > 0 {
		return engine.Operation{ID: drawOperation.Draw(t, "operation"), Pool: drawParent.Draw(t, "pool"), Weight: drawWeight.Draw(t, "weight"), Started: s.now, Enabled: true}
	}
	bounds := rapid.Bool().Draw(t, "limits bound demand")
	mode := rapid.SampledFrom([]string{pooltree.PreemptNormally, pooltree.PreemptNormally, pooltree.PreemptGracefully}).Draw(t, "preemption mode")
	return engine.Operation{
		Options: pooltree.OperationOptions{ResourceLimits: drawLimits(t), TagFilter: filterOf(t), LimitsBoundDemand: &bounds, PreemptionMode: &mode},
		ID:      drawOperation.Draw(t, "operation"), Pool: drawParent.Draw(t, "pool"), Weight: drawWeight.Draw(t, "weight"),
		Started: s.now, Enabled: rapid.IntRange(0, 3).Draw(t, "enabled") > 0, Suspended: rapid.IntRange(0, 3).Draw(t, "suspended") == 0,
	}
}

func (s *simulation) removeOperation(t *rapid.T) {
	id := drawOperation.Draw(t, "operation")
	if err := s.both(t, func(e *engine.Engine) error { return e.RemoveOperation(id) }); (err == nil) != s.operations[id] {
		t.Fatalf("operation is there: %v, error %v", s.operations[id], err)
	}
	delete(s.operations, id)
}

func (s *simulation) demand(t *rapid.T) { s.demandOf(t, drawOperation.Draw(t, "operation")) }

func (s *simulation) demandOf(t *rapid.T, id scheduling.OperationID) {
	key := taskKey{id, drawTask.Draw(t, "task"), drawGroup.Draw(t, "group")}
	pending, perJob := rapid.Int64Range(0, 20).Draw(t, "pending"), s.drawAmounts(t, 8)
	if key.group > 0 {
		perJob.Memory = key.group
	}
	// The state never has fewer pending jobs than are about to start.
	for _, start := range s.inFlight {
		if keyOf(start) == key {
			pending++
		}
	}
	err := s.both(t, func(e *engine.Engine) error { return e.SetDemand(id, key.task, key.group, pending, perJob) })
	if (err == nil) != s.operations[id] {
		t.Fatalf("operation is there: %v, error %v", s.operations[id], err)
	}
	if err == nil {
		s.pending[key] = pending
	}
}

// setGang makes a task one whose jobs start only together, or one of others.
func (s *simulation) setGang(t *rapid.T) {
	id, task := drawOperation.Draw(t, "operation"), drawTask.Draw(t, "task")
	of := engine.Gang{Size: rapid.Int64Range(0, 5).Draw(t, "size of the gang"), Completed: rapid.Int64Range(0, 2).Draw(t, "completed of the gang")}
	if err := s.both(t, func(e *engine.Engine) error { return e.SetTaskGang(id, task, of) }); (err == nil) != s.operations[id] {
		t.Fatalf("operation is there: %v, error %v", s.operations[id], err)
	}
}

func (s *simulation) foundAllocation(t *rapid.T) {
	a := engine.Allocation{
		Job: s.nextJob(), Operation: drawOperation.Draw(t, "operation"), Task: drawTask.Draw(t, "task"), Group: drawGroup.Draw(t, "group"),
		Node: drawNode.Draw(t, "node"), Resources: s.drawAmounts(t, 8), Started: s.now,
	}
	if s.both(t, func(e *engine.Engine) error { return e.AddAllocation(a) }) == nil {
		s.running[a.Job] = true
	}
}

func (s *simulation) tick(t *rapid.T) {
	s.now = s.now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "seconds")) * time.Second)
	// The twin computes all shares: they are the same.
	s.twin.Whole()
	s.must(t, func(e *engine.Engine) error {
		_, err := e.Tick(s.now)
		return err
	})
	s.checkLimitsShares(t)
}

// hastened reports whether a job that leaves gracefully has to leave sooner.
func (s *simulation) hastened(p engine.Preempt) bool {
	h, _ := s.engine.Holding(p.Job)
	return (p.Kind == lifecycle.ResourceLimitsViolated || p.Kind == lifecycle.ResourceOvercommit) &&
		h.Leaving && h.Kind == lifecycle.GracefulPreemption && h.Deadline.After(s.now.Add(p.Timeout))
}

func (s *simulation) heartbeat(t *rapid.T) {
	ids := rapid.SliceOfNDistinct(drawNode, 1, 5, func(id scheduling.NodeID) scheduling.NodeID { return id }).Draw(t, "nodes")
	before := s.engine.Snapshot()
	plan, twin := s.engine.Heartbeat(s.now, ids), s.twin.Heartbeat(s.now, ids)
	if err := invarianttest.CheckPlan(before, plan, s.engine.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plan, twin) {
		t.Fatalf("equal events give the plans\n%+v and\n%+v", plan, twin)
	}
	s.inFlight = append(s.inFlight, plan.Starts...)
	s.checkNothingIsLeft(t, ids, plan)
	for _, p := range plan.Preempts {
		if !s.running[p.Job] || s.leaving[p.Job] && !s.hastened(p) {
			t.Fatalf("job %s is preempted, and runs: %v, leaves already: %v", p.Job, s.running[p.Job], s.leaving[p.Job])
		}
		s.leaving[p.Job] = true
	}
	s.ordered = append(s.ordered, plan.Preempts...)
	started := map[taskKey]int64{}
	for _, start := range s.inFlight {
		key := keyOf(start)
		if started[key]++; s.operations[start.Operation] && started[key] > s.pending[key] {
			t.Fatalf("task %v: %d jobs start of %d", key, started[key], s.pending[key])
		}
	}
}

func (s *simulation) commit(t *rapid.T) {
	start, ok := s.takeInFlight(t)
	if !ok {
		return
	}
	job := s.nextJob()
	s.must(t, func(e *engine.Engine) error { return e.Commit(start.Ticket, job, s.now) })
	s.running[job] = true
	if key := keyOf(start); s.pending[key] > 0 {
		s.pending[key]--
	}
}

func (s *simulation) reject(t *rapid.T) {
	if start, ok := s.takeInFlight(t); ok {
		s.must(t, func(e *engine.Engine) error { return e.Reject(start.Ticket) })
	}
}

func (s *simulation) takeInFlight(t *rapid.T) (engine.Start, bool) {
	if len(s.inFlight) == 0 {
		return engine.Start{}, false
	}
	i := rapid.IntRange(0, len(s.inFlight)-1).Draw(t, "which")
	start := s.inFlight[i]
	s.inFlight = append(s.inFlight[:i], s.inFlight[i+1:]...)
	return start, true
}

func (s *simulation) finish(t *rapid.T) {
	job := scheduling.JobID(fmt.Sprintf("j%d", rapid.IntRange(0, s.jobs).Draw(t, "job")))
	if err := s.both(t, func(e *engine.Engine) error { return e.RemoveAllocation(job) }); (err == nil) != s.running[job] {
		t.Fatalf("job runs: %v, error %v", s.running[job], err)
	}
	delete(s.running, job)
	delete(s.leaving, job)
}

func (s *simulation) nextJob() scheduling.JobID {
	s.jobs++
	return scheduling.JobID(fmt.Sprintf("j%d", s.jobs))
}
