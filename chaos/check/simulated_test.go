package check

import (
	"slices"
	"testing"

	"weir/chaos/history"
)

// withSimulated adds two simulated nodes to a run, and operation o3, whose two cookies they completed; the first attempt
// of cookie 1 was lost with its node.
func withSimulated(r *history.Run) *history.Operation {
	r.Simulated = []history.SimulatedNode{{Name: "s1", Online: true}, {Name: "s2", Online: true}}
	r.Calls = append(r.Calls, history.Call{What: history.Submit, Mutation: "m9", Outcome: history.OK, Operation: "o3"})
	r.Operations = append(r.Operations, history.Operation{
		ID: "o3", Mutation: "m9", User: "dev", State: "completed", Events: r.Operations[0].Events,
		Tasks: []history.Task{{Name: history.SimulatedTask, Total: 2, Completed: 2, Aborted: 1}},
		Jobs: []history.Job{
			{ID: "k0", Task: history.SimulatedTask, Cookie: 0, Node: "s1", State: "completed", Token: token(3, 20)},
			{ID: "k1", Task: history.SimulatedTask, Cookie: 1, Node: "s2", State: "aborted", Reason: "node_offline", Token: token(3, 21)},
			{ID: "k2", Task: history.SimulatedTask, Cookie: 1, Attempt: 1, Node: "s1", State: "completed", Token: token(3, 22)},
		},
	})
	return &r.Operations[2]
}

// TestSimulatedNodes has runs with simulated nodes: no witness sees their jobs.
func TestSimulatedNodes(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"nothing is wrong": {change: func(r *history.Run) { withSimulated(r) }},
		"a node is lost at the end": {
			change: func(r *history.Run) { withSimulated(r); r.Simulated[1].Online = false }, want: "L5", says: "node s2 is not online",
		},
		"a job is lost, its node is not": {
			change: func(r *history.Run) { withSimulated(r).Jobs[1].Reason = "unconfirmed" }, want: "L5", says: "job k1 of node s2 is aborted (unconfirmed)",
		},
		"a cookie is completed twice": {
			change: func(r *history.Run) {
				o := withSimulated(r)
				o.Jobs[1].State, o.Tasks[0].Completed, o.Tasks[0].Aborted = "completed", 3, 0
			},
			want: "S5", says: "cookie o3/simulated/1 was completed by 2 attempts",
		},
		"an operation does not end": {
			change: func(r *history.Run) {
				o := withSimulated(r)
				o.State, o.Events = "running", slices.Clone(o.Events[:8])
			},
			want: "L3", says: "o3 (m9) is still running",
		},
		"a job of others runs there": {change: func(r *history.Run) { withSimulated(r).Jobs[0].Task = "t" }, want: "L5", says: "task t, was granted to node s1"},
		"its job runs on an agent":   {change: func(r *history.Run) { withSimulated(r).Jobs[0].Node = "n1" }, want: "L5", says: "was granted to node n1"},
	})
}

func TestFiguresOfSimulatedNodes(t *testing.T) {
	run := good()
	o := withSimulated(run)
	if f := Sum(run); f.Simulated != 2 || f.SimulatedJobs != 2 || f.SimulatedLost != 1 {
		t.Errorf("figures: %+v", f)
	}
	o.Jobs = nil
	if vacuous := Sum(run).Vacuous(); !slices.Contains(vacuous, "no job of a simulated node was completed") {
		t.Errorf("a run in which simulated nodes did nothing lacks %v", vacuous)
	}
}
