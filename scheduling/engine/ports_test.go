package engine_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
)

// beatWithoutPorts is a heartbeat of nodes that have no ports for the jobs of an operation, and one more of those that
// refused some. It returns how many they refused.
func (d *drive) beatWithoutPorts(wants scheduling.OperationID, nodes ...scheduling.NodeID) (refused int) {
	d.t.Helper()
	for ids := nodes; len(ids) > 0; {
		d.leave()
		plan := d.Heartbeat(d.now, ids)
		again := map[scheduling.NodeID]bool{}
		for _, s := range slices.Clone(plan.Starts) {
			if s.Operation == wants {
				node, err := d.LacksPorts(s.Ticket)
				must(d.t, err)
				again[node] = true
				refused++
				continue
			}
			d.jobs++
			job := scheduling.JobID(string(s.Operation) + string(rune('a'+d.jobs%26)) + d.now.Format("150405") + string(s.Node) + string(rune('a'+d.jobs/26)))
			must(d.t, d.Commit(s.Ticket, job, d.now))
			d.pending[s.Operation]--
			d.running[job] = engine.Allocation{Job: job, Operation: s.Operation, Task: s.Task, Node: s.Node, Resources: s.Resources, Started: d.now}
		}
		for _, p := range slices.Clone(plan.Preempts) {
			d.victims = append(d.victims, p)
			must(d.t, d.Leave(p.Job, engine.LeaveOrder{Ordered: d.now, Deadline: d.now.Add(p.Timeout), Kind: p.Kind, For: p.For}))
			d.going[p.Job] = d.now
		}
		ids = slices.Sorted(maps.Keys(again))
	}
	return refused
}

// TestPortsThatAreLacking: jobs that no node has ports for leave the nodes to others, and nobody is preempted for them
// more than once in a while.
func TestPortsThatAreLacking(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n1", 16)
	d.node("n2", 16)
	d.wants("ports", "a", 100, slotsOf(1), nil)
	d.wants("many", "b", 1000, slotsOf(1), nil)
	refused, used, whole := 0, 0, 0
	const minutes = 5
	for range minutes * 60 {
		d.tick(time.Second)
		refused += d.beatWithoutPorts("ports", "n1", "n2")
		used, whole = used+len(d.running), whole+32
		for _, job := range slices.Sorted(maps.Keys(d.running)) {
			if d.now.Sub(d.running[job].Started) >= 30*time.Second {
				d.end(job)
			}
		}
	}
	if part := float64(used) / float64(whole); part < 0.95 {
		t.Errorf("%.3f of the slots are used", part)
	}
	// A node is tried for what is free there, every ten seconds.
	if most := 2 * 16 * minutes * 6; refused == 0 || refused > most {
		t.Errorf("%d starts were refused, want some, and %d at most", refused, most)
	}
	d.wantVictims()
	facts, err := d.Facts("ports")
	must(t, err)
	if !slices.ContainsFunc(facts.Refusals, func(r explain.Refusal) bool { return r.Cause == allocation.Portless }) {
		t.Errorf("why it waits is not told: %+v", facts.Refusals)
	}
	if _, err := d.LacksPorts(99_999); err == nil {
		t.Error("an unknown start was refused")
	}
	// With ports they start.
	d.pass(11*time.Second, time.Second, "n1", "n2")
	for range 60 {
		d.kill("many", 1)
		d.pass(time.Second, time.Second, "n1", "n2")
	}
	if d.runs()["ports"] == 0 {
		t.Error("with ports they do not start")
	}
}

// TestPortsThatAreLackingForAClaim: a job was preempted for one that the node has no ports for. What it left is for others.
func TestPortsThatAreLackingForAClaim(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n", 16)
	d.wants("many", "b", 1000, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n")
	d.wants("ports", "a", 100, slotsOf(1), nil)
	refused := 0
	for range 60 {
		d.tick(time.Second)
		refused += d.beatWithoutPorts("ports", "n")
	}
	// The next victim is chosen before it is known that there are no ports.
	if refused < 1 || refused > 2 || len(d.victims) > 2 {
		t.Errorf("%d starts were refused, and %d jobs preempted, want one or two", refused, len(d.victims))
	}
	d.wantRuns(runs{"many": 16})
}
