package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// drive is a world with the part of the replicated state: what is planned is committed at
// once, preempted jobs go after a time, and are pending again.
type drive struct {
	*world
	pending map[scheduling.OperationID]int64
	needs   map[scheduling.OperationID]resource.Amounts
	running map[scheduling.JobID]engine.Allocation
	// going are the times at which preempted jobs go: at once by default.
	going map[scheduling.JobID]time.Time
	// takes is how long a preempted job takes to go, at most its timeout.
	takes time.Duration
	jobs  int
	// victims are all that were preempted, in order.
	victims []engine.Preempt
}

func newDrive(t tester, tree options, pools map[scheduling.PoolName]pool) *drive {
	t.Helper()
	return &drive{
		world: newWorld(t, tree, pools), pending: map[scheduling.OperationID]int64{}, needs: map[scheduling.OperationID]resource.Amounts{},
		running: map[scheduling.JobID]engine.Allocation{}, going: map[scheduling.JobID]time.Time{},
	}
}

// wants adds an operation that wants n jobs that need so much.
func (d *drive) wants(id scheduling.OperationID, in scheduling.PoolName, n int64, needs resource.Amounts, document options) {
	d.t.Helper()
	must(d.t, d.AddOperation(d.record(id, in, document)))
	d.now = d.now.Add(time.Millisecond)
	d.pending[id], d.needs[id] = n, needs
	must(d.t, d.SetDemand(id, "t", 0, n, needs))
}

func slotsOf(n int64) resource.Amounts {
	return resource.Amounts{UserSlots: n, CPU: resource.Hundredths(100 * n)}
}

// pass lets so much time pass, in steps with an update and a heartbeat of the nodes each.
func (d *drive) pass(how, step time.Duration, nodes ...scheduling.NodeID) {
	d.t.Helper()
	for end := d.now.Add(how); d.now.Before(end); {
		d.tick(step)
		d.beat(nodes...)
	}
}

// beat is a heartbeat of the nodes, of which all that is planned is committed.
func (d *drive) beat(nodes ...scheduling.NodeID) engine.Plan {
	d.t.Helper()
	d.leave()
	before := d.Snapshot()
	plan := d.Heartbeat(d.now, nodes)
	must(d.t, invarianttest.CheckPlan(before, plan, d.Snapshot()))
	for _, s := range plan.Starts {
		d.jobs++
		job := scheduling.JobID(fmt.Sprintf("%s-%03d", s.Operation, d.jobs))
		must(d.t, d.Commit(s.Ticket, job, d.now))
		d.pending[s.Operation]--
		d.running[job] = engine.Allocation{Job: job, Operation: s.Operation, Task: s.Task, Node: s.Node, Resources: s.Resources, Started: d.now}
	}
	for _, p := range plan.Preempts {
		must(d.t, d.Leave(p.Job, engine.LeaveOrder{Ordered: d.now, Deadline: d.now.Add(p.Timeout), Kind: p.Kind, For: p.For}))
		d.going[p.Job] = d.now.Add(min(d.takes, p.Timeout))
		d.victims = append(d.victims, p)
	}
	must(d.t, invarianttest.Check(d.Engine))
	return plan
}

// leave lets those preempted jobs go whose time has come.
func (d *drive) leave() {
	for _, job := range slices.Sorted(maps.Keys(d.going)) {
		if !d.going[job].After(d.now) {
			delete(d.going, job)
			d.end(job)
		}
	}
}

// end has a job end that is to run again.
func (d *drive) end(job scheduling.JobID) {
	d.t.Helper()
	a := d.running[job]
	delete(d.running, job)
	must(d.t, d.RemoveAllocation(job))
	d.pending[a.Operation]++
	must(d.t, d.SetDemand(a.Operation, a.Task, 0, d.pending[a.Operation], d.needs[a.Operation]))
}

// runs counts the running jobs of operations, those not counted that leave.
func (d *drive) runs() map[scheduling.OperationID]int {
	got := map[scheduling.OperationID]int{}
	for job, a := range d.running {
		if _, goes := d.going[job]; !goes {
			got[a.Operation]++
		}
	}
	return got
}

func (d *drive) wantRuns(want map[scheduling.OperationID]int) {
	d.t.Helper()
	if got := d.runs(); !maps.Equal(got, want) {
		d.t.Fatalf("running %v, want %v; preempted: %v", got, want, d.victims)
	}
}

// wantVictims compares all that were preempted until now, as "job kind", and forgets them.
func (d *drive) wantVictims(want ...string) {
	d.t.Helper()
	var got []string
	for _, v := range d.victims {
		got = append(got, fmt.Sprintf("%s %s", v.Job, v.Kind))
	}
	d.victims = nil
	if !slices.Equal(got, want) {
		d.t.Fatalf("preempted %q, want %q", got, want)
	}
}

// kinds counts those that were preempted by kind.
func (d *drive) kinds() map[lifecycle.PreemptionKind]int {
	got := map[lifecycle.PreemptionKind]int{}
	for _, v := range d.victims {
		got[v.Kind]++
	}
	return got
}
