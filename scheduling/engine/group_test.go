package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
	"weir/scheduling/invarianttest"
	"weir/scheduling/resource"
)

// learned is a job that gets so much memory.
func learned(memory int64) resource.Amounts {
	return resource.Amounts{UserSlots: 1, CPU: 100, Memory: memory}
}

// TestGroups: jobs of a task that get memory of their own come first, each with it; where
// they do not fit, others of the task start.
func TestGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		memory int64
		want   []string
	}{
		"all fit":             {200, []string{"80", "50", "50", "0", "0"}},
		"the largest do not":  {75, []string{"50", "0", "0"}},
		"none of a group fit": {25, []string{"0", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			must(t, w.SetNode("n", resource.Amounts{UserSlots: 5, CPU: 500, Memory: tc.memory}, true))
			must(t, w.AddOperation(w.record("o", "<Root>", nil)))
			must(t, w.SetDemand("o", "t", 0, 9, learned(10)))
			must(t, w.SetDemand("o", "t", 50, 2, learned(50)))
			must(t, w.SetDemand("o", "t", 80, 1, learned(80)))
			w.tick(time.Second)
			var got []string
			for _, s := range w.Heartbeat(w.now, ids("n")).Starts {
				got = append(got, fmt.Sprint(s.Group))
				if want := max(s.Group, 10); s.Resources.Memory != want || s.Task != "t" {
					t.Errorf("a start of task %s gets %d of memory, want %d", s.Task, s.Resources.Memory, want)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("started of groups %v, want %v", got, tc.want)
			}
			must(t, invarianttest.Check(w.Engine))
		})
	}
}

// TestGroupEnds: nothing is kept of a group of which all jobs have started, and one that
// is refused waits again.
func TestGroupEnds(t *testing.T) {
	w := newWorld(t, nil, nil)
	must(t, w.SetNode("n", resource.Amounts{UserSlots: 5, CPU: 500, Memory: 200}, true))
	must(t, w.AddOperation(w.record("o", "<Root>", nil)))
	must(t, w.SetDemand("o", "t", 0, 0, learned(10)))
	must(t, w.SetDemand("o", "t", 50, 2, learned(50)))
	w.tick(time.Second)
	starts := slices.Clone(w.Heartbeat(w.now, ids("n")).Starts)
	must(t, w.Commit(starts[0].Ticket, "j", w.now))
	must(t, w.Reject(starts[1].Ticket))
	tasks := func() []engine.TaskView { return w.Snapshot().Operations[0].Tasks }
	if got := tasks(); len(got) != 2 || got[0].Group != 50 || got[0].Effective != 1 {
		t.Fatalf("tasks %+v, want that of group 50 with a job that waits", got)
	}
	starts = w.Heartbeat(w.now, ids("n")).Starts
	must(t, w.Commit(starts[0].Ticket, "k", w.now))
	if got := tasks(); len(got) != 1 || got[0].Group != 0 {
		t.Fatalf("tasks %+v, want none but group 0", got)
	}
	if h, ok := w.Holding("k"); !ok || h.Group != 50 {
		t.Errorf("the job is %+v, want group 50", h)
	}
	must(t, invarianttest.Check(w.Engine))
	if err := w.SetDemand("o", "t", 50, 1, learned(40)); err == nil || !strings.Contains(err.Error(), "50 bytes") {
		t.Errorf("a group of 50 bytes whose jobs need 40 is taken: %v", err)
	}
}

// TestReserveMoves: jobs that need less than before start in what was too little.
func TestReserveMoves(t *testing.T) {
	w := newWorld(t, nil, nil)
	must(t, w.SetNode("n", resource.Amounts{UserSlots: 9, CPU: 900, Memory: 100}, true))
	must(t, w.AddOperation(w.record("o", "<Root>", nil)))
	must(t, w.SetDemand("o", "t", 0, 9, learned(50)))
	w.tick(time.Second)
	if got := len(w.Heartbeat(w.now, ids("n")).Starts); got != 2 {
		t.Fatalf("%d jobs of 50 start in 100, want 2", got)
	}
	must(t, w.SetNode("n", resource.Amounts{UserSlots: 9, CPU: 900, Memory: 140}, true))
	if got := len(w.Heartbeat(w.now, ids("n")).Starts); got != 0 {
		t.Fatalf("%d jobs of 50 start in 40, want none", got)
	}
	must(t, w.SetDemand("o", "t", 0, 9, learned(20)))
	if got := w.Heartbeat(w.now, ids("n")).Starts; len(got) != 2 || got[0].Resources != learned(20) {
		t.Fatalf("%+v start in 40, want 2 of 20", got)
	}
}

// TestClaimOfAGroup: others leave for a job with memory of its own, which is started with
// it; a new engine that is told of the orders holds the same for it.
func TestClaimOfAGroup(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "0s"}, nil)
	d.takes = time.Hour
	must(t, d.SetNode("n", resource.Amounts{UserSlots: 9, CPU: 900, Memory: 100}, true))
	d.wants("greedy", "<Root>", 5, learned(20), nil)
	d.pass(time.Second, time.Second, "n")
	must(t, d.AddOperation(d.record("late", "<Root>", nil)))
	must(t, d.SetDemand("late", "t", 40, 1, learned(40)))
	for range 9 {
		if d.pass(time.Second, time.Second, "n"); len(d.victims) > 0 {
			break
		}
	}
	claims := d.claims()
	want := engine.Beneficiary{Operation: "late", Task: "t", Group: 40, Resources: learned(40)}
	if len(claims) != 1 || claims[0].Beneficiary != want || len(d.victims) != 2 {
		t.Fatalf("claims %+v for %d victims, want one for %+v", claims, len(d.victims), want)
	}
	again := newWorld(t, nil, nil)
	must(t, again.SetNode("n", resource.Amounts{UserSlots: 9, CPU: 900, Memory: 100}, true))
	for _, id := range d.Snapshot().Operations {
		must(t, again.AddOperation(id.Operation))
	}
	must(t, again.SetDemand("late", "t", 40, 1, learned(40)))
	for _, h := range d.Holdings() {
		must(t, again.AddAllocation(h.Allocation))
	}
	for _, h := range d.Holdings() {
		if h.Leaving {
			must(t, again.Leave(h.Job, engine.LeaveOrder{Ordered: claims[0].Ordered, Deadline: h.Deadline, Kind: h.Kind, For: h.For}))
		}
	}
	if got := again.Snapshot().Claims; len(got) != 1 || got[0] != claims[0] {
		t.Errorf("the claims of a new engine are %+v, want %+v", got, claims)
	}
	for _, v := range d.victims {
		d.end(v.Job)
	}
	plan := d.Heartbeat(d.now, ids("n"))
	if len(plan.Starts) != 1 || plan.Starts[0].Group != 40 || plan.Starts[0].Resources != learned(40) {
		t.Errorf("started %+v, want the job of the group", plan.Starts)
	}
}

// TestExplainGroup names the jobs that get memory of their own.
func TestExplainGroup(t *testing.T) {
	d := newDrive(t, nil, nil)
	must(t, d.SetNode("n", resource.Amounts{UserSlots: 9, CPU: 900, Memory: 100}, true))
	d.wants("o", "<Root>", 0, learned(20), nil)
	must(t, d.SetDemand("o", "t", 200, 1, learned(200)))
	d.tick(time.Second)
	x, err := d.Explain("o", d.now)
	must(t, err)
	f := fact(t, x, explain.FactTooSmall)
	if len(x.Tasks) != 1 || x.Tasks[0].Group != 200 || !strings.Contains(f.Text, "task t (ran out of memory before, now gets 200B)") {
		t.Errorf("%s: %+v", f.Text, x.Tasks)
	}
}

func ids(nodes ...scheduling.NodeID) []scheduling.NodeID { return nodes }
