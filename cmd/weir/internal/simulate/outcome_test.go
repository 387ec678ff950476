package simulate

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// near fails unless two numbers are the same but for rounding.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// step is what was so from one update to the next.
type step struct {
	minutes          float64
	fair, used, want float64
	promised         float64
	// full says that there is no room for one more job.
	full bool
}

// played is the outcome of such steps of a pool that has had demand since a minute.
func played(o outcome, steps ...step) Outcome {
	o.over, o.limits = -1, resource.Infinite
	now := time.Minute
	for _, s := range steps {
		o.wants(now, resource.Amounts{CPU: 100}, false)
		since := now
		now += time.Duration(s.minutes * float64(time.Minute))
		o.fair, o.demand = resource.Vector{resource.CPU: s.fair}, resource.Vector{resource.CPU: s.want}
		o.interval(since, now, resource.Vector{resource.CPU: s.used}, s.promised, func() bool { return !s.full })
	}
	return o.close(now, sums{}, resource.Amounts{})
}

// TestSharesAreOfTheSettledTime: the first 15 minutes with demand do not count, and a pool is
// hungry if it always wants more than its fair share from then on.
func TestSharesAreOfTheSettledTime(t *testing.T) {
	first := step{minutes: 15, fair: 0.5, used: 0.1, want: 0.2}
	for name, c := range map[string]struct {
		steps      []step
		wantFair   float64
		wantGot    float64
		wantHungry bool
	}{
		"always hungry":       {[]step{first, {minutes: 10, fair: 0.5, used: 0.25, want: 1}, {minutes: 30, fair: 0.3, used: 0.25, want: 0.4}}, 0.35, 0.25, true},
		"satisfied for once":  {[]step{first, {minutes: 10, fair: 0.5, used: 0.25, want: 1}, {minutes: 10, fair: 0.3, used: 0.3, want: 0.3}}, 0.4, 0.275, false},
		"over before settled": {[]step{{minutes: 14, fair: 0.5, used: 0.1, want: 1}}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := played(outcome{wanted: -1, less: -1}, c.steps...)
			near(t, "fair share", got.Fair, c.wantFair)
			near(t, "got", got.Got, c.wantGot)
			if got.Hungry != c.wantHungry {
				t.Errorf("hungry: %v, want %v", got.Hungry, c.wantHungry)
			}
		})
	}
}

// TestGuaranteesCountOnceTheyCanBeKept: what was promised and wanted throughout the patience of
// the pool is asked, in whole jobs.
func TestGuaranteesCountOnceTheyCanBeKept(t *testing.T) {
	patient := outcome{wanted: -1, less: -1, Outcome: Outcome{Patience: 2 * time.Minute, LargestJob: 0.1}}
	got := played(patient,
		// Asked for nothing yet, then for the 0.2 of the last two minutes.
		step{minutes: 1, promised: 0.2}, step{minutes: 1, promised: 0.2}, step{minutes: 1, promised: 0.2, used: 0.1},
		// For 0.2 still, and more than that does no good.
		step{minutes: 1, promised: 0.45, used: 0.3}, step{minutes: 1, promised: 0.45, used: 0.2},
		// For 4 whole jobs.
		step{minutes: 1, promised: 0.45, used: 0.3},
		// For no more than there is room for.
		step{minutes: 1, promised: 0.45, used: 0.3, full: true},
		// For nothing after a minute without a promise.
		step{minutes: 1, promised: 0}, step{minutes: 1, promised: 0.45}, step{minutes: 1, promised: 0.45},
	)
	near(t, "asked", got.Asked, 60*(0.2+0.2+0.2+0.4+0.3))
	near(t, "had", got.Had, 60*(0.1+0.2+0.2+0.3+0.3))
}

// TestABreakIsAskedAnew: who wants less than it was promised for a moment has to wait again for
// what it wants later; who does so in the midst of a moment has not.
func TestABreakIsAskedAnew(t *testing.T) {
	for name, c := range map[string]struct {
		back  time.Duration
		asked float64
	}{"at once": {0, 60 * .4}, "after a second": {time.Second, 0}, "not again": {time.Hour, 0}} {
		t.Run(name, func(t *testing.T) {
			o := outcome{less: -1, Outcome: Outcome{Patience: 2 * time.Minute}}
			room := func() bool { return true }
			o.interval(0, 10*time.Minute, resource.Vector{.4}, .4, room)
			o.Asked = 0
			o.wants(10*time.Minute, resource.Amounts{}, true)
			o.wants(10*time.Minute+c.back, resource.Amounts{}, false)
			o.interval(10*time.Minute, 11*time.Minute, resource.Vector{.4}, .4, room)
			near(t, "asked", o.Asked, c.asked)
		})
	}
}

// TestLimitsAreExceeded measures the longest time, also when it is not over.
func TestLimitsAreExceeded(t *testing.T) {
	o := outcome{wanted: -1, less: -1, over: -1, limits: resource.Infinite.With(resource.CPU, 200)}
	for _, use := range []struct {
		at  time.Duration
		cpu resource.Hundredths
	}{{0, 200}, {10, 300}, {20, 400}, {25, 200}, {30, 300}, {31, 100}} {
		o.uses(use.at*time.Second, resource.Amounts{CPU: use.cpu})
	}
	over := o
	over.uses(40*time.Second, resource.Amounts{CPU: 201})
	if got := o.close(100*time.Second, sums{}, resource.Amounts{}).OverLimits; got != 15*time.Second {
		t.Errorf("limits were exceeded for %v, want 15s", got)
	}
	if got := over.close(100*time.Second, sums{}, resource.Amounts{}).OverLimits; got != time.Minute {
		t.Errorf("limits were exceeded for %v up to the end, want 1m", got)
	}
}

// TestOrderOfFIFOPools: a job passes over those of earlier operations of its pool that need no
// more than it has got.
func TestOrderOfFIFOPools(t *testing.T) {
	sort := []string{pooltree.SortByWeight, pooltree.SortByStartTime}
	fifo, other := &account{fifo: sort}, &account{fifo: sort}
	op := func(id string, accepted time.Duration, cpu resource.Hundredths, pending int64, options map[string]any) *operation {
		read, err := pooltree.ReadOperationOptions(options)
		if err != nil {
			t.Fatal(err)
		}
		return &operation{
			Submission: Submission{ID: id, Shape: Shape{Options: &read}}, accepted: accepted, pool: fifo,
			perJob: resource.Amounts{CPU: cpu}, demand: []demand{{pending: pending}},
		}
	}
	elsewhere := op("a", 0, 100, 1, nil)
	elsewhere.pool = other
	for name, c := range map[string]struct {
		also    *operation
		want    int64
		sort    []string
		claimed int64
	}{
		"earlier and pending":                       {op("a", 1, 100, 1, nil), 1, sort, 0},
		"earlier, with room claimed for all":        {op("a", 1, 100, 2, nil), 0, sort, 2},
		"earlier, with room claimed for one":        {op("a", 1, 100, 2, nil), 1, sort, 1},
		"as early, with a lesser id":                {op("a", 5, 100, 1, nil), 1, sort, 0},
		"as early, with a greater id":               {op("c", 5, 100, 1, nil), 0, sort, 0},
		"of greater weight":                         {op("c", 9, 100, 1, map[string]any{"weight": 2.0}), 1, sort, 0},
		"of greater weight, come since":             {op("c", 10, 100, 1, map[string]any{"weight": 2.0}), 0, sort, 0},
		"earlier, of less weight":                   {op("a", 1, 100, 1, map[string]any{"weight": 0.5}), 0, sort, 0},
		"with nothing pending":                      {op("a", 1, 100, 0, nil), 0, sort, 0},
		"whose jobs need more":                      {op("a", 1, 101, 1, nil), 0, sort, 0},
		"graceful, with what it may run":            {op("a", 1, 100, 1, map[string]any{"preemption_mode": "graceful"}), 0, sort, 0},
		"of another pool":                           {elsewhere, 0, sort, 0},
		"of greater weight where start comes first": {op("c", 9, 100, 1, map[string]any{"weight": 2.0}), 0, []string{pooltree.SortByStartTime, pooltree.SortByWeight}, 0},
		"as early where weight comes next":          {op("c", 5, 100, 1, map[string]any{"weight": 2.0}), 1, []string{pooltree.SortByStartTime, pooltree.SortByWeight}, 0},
		"earlier, by start alone":                   {op("a", 1, 100, 1, map[string]any{"weight": 0.5}), 1, []string{pooltree.SortByStartTime}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			fifo.outcome.OutOfOrder, fifo.fifo = 0, c.sort
			started := op("b", 5, 100, 1, nil)
			w := &world{updated: 9, operations: map[string]*operation{"b": started, c.also.ID: c.also}, fifoStarts: []fifoStart{{started, "", started.perJob}}}
			w.inOrder(map[string]int64{"a": c.claimed})
			if fifo.outcome.OutOfOrder != c.want || len(w.fifoStarts) != 0 {
				t.Errorf("%d jobs out of order, want %d", fifo.outcome.OutOfOrder, c.want)
			}
		})
	}
}

// TestWhatIsLost: the work of a job that is aborted for others, and of no other one.
func TestWhatIsLost(t *testing.T) {
	job := func(preemption, aborted string) state.Ended {
		a := &statepb.Allocation{Resources: statepb.NewResources(resource.Amounts{CPU: 200}), Stop: &statepb.StopOrder{Preemption: preemption}}
		w := world{now: time.Minute}
		a.StartTime = w.timestamp()
		return state.Ended{Allocation: a, Finished: &statepb.FinishedJob{AbortReason: aborted}}
	}
	for name, c := range map[string]struct {
		ended state.Ended
		want  float64
	}{
		"aborted for another":         {job("preemption", "preemption"), 2 * 240},
		"left by itself":              {job("preemption", ""), 0},
		"aborted for another cause":   {job("", "user_request"), 0},
		"aborted after its deadline":  {job("graceful_preemption", "interruption_timeout"), 2 * 240},
		"completed, never told to go": {job("", ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var o outcome
			if new(operation).loses(c.ended) {
				o.lose(5*time.Minute, c.ended.Allocation)
			}
			near(t, "lost", o.lost.of(resource.CPU), c.want)
		})
	}
	of := func(incarnation int64, preemption, aborted string) state.Ended {
		e := job(preemption, aborted)
		e.Allocation.GangIncarnation = incarnation
		return e
	}
	for name, c := range map[string]struct {
		before []state.Ended
		of     int64
		want   bool
	}{
		"with its gang, of which one had to go":          {[]state.Ended{of(2, "preemption", "preemption")}, 2, true},
		"with its gang, of which one left by itself":     {[]state.Ended{of(2, "preemption", "")}, 2, true},
		"with its gang, of which one was lost otherwise": {[]state.Ended{of(2, "", "node_offline")}, 2, false},
		"after another one has completed":                {[]state.Ended{of(2, "preemption", "preemption"), of(2, "", "")}, 2, true},
		"where the gang before had to go":                {[]state.Ended{of(1, "preemption", "preemption")}, 2, false},
		"with the first gang, of which none had to go":   {nil, 0, false},
	} {
		op := new(operation)
		for _, e := range c.before {
			op.loses(e)
		}
		for range 2 {
			if op.loses(of(c.of, "", "operation_incarnation_changed")) != c.want {
				t.Errorf("%s: lost to others: %v, want %v", name, !c.want, c.want)
			}
		}
	}
}

// late has a pool that comes when the other has all: jobs make room for it, which leave late.
const late = `duration: 1h
nodes: [{name: n, count: 2, cpu: 2, memory: 8GiB}]
pools: {early: {}, late: {}}
options: {fair_share_starvation_timeout: 1m}
workloads:
  early: {jobs: 100, job: {cpu: 1, length: 2h}}
  late: {arrivals: {at: [10m]}, jobs: 100, job: {cpu: 1, length: 2h}}
`

// TestOutcomeOfALatePool: it waits for its timeout, gets its part, and what others lose is theirs.
func TestOutcomeOfALatePool(t *testing.T) {
	r := mustRun(t, mustRead(t, late, Changes{}))
	early, late := r.pool(t, "early").Outcome, r.pool(t, "late").Outcome
	if !late.Hungry || !late.Leaf || late.Window != 35*time.Minute {
		t.Errorf("late is hungry: %v, a leaf: %v, measured for %v; want that it is, for 35 minutes", late.Hungry, late.Leaf, late.Window)
	}
	near(t, "fair share", late.Fair, 0.5)
	near(t, "got", late.Got, 0.5)
	near(t, "largest job", late.LargestJob, 0.25)
	near(t, "fair share while it waited", late.FairMeanwhile, 0.5)
	if late.FirstWait < time.Minute || late.FirstWait > late.Patience {
		t.Errorf("late waited %v for its first job, want 1m to %v", late.FirstWait, late.Patience)
	}
	// Two jobs of a quarter each, after eleven minutes and some.
	if early.Preempted != 2 || early.LostSeconds < 2*0.25*11*60 || early.LostSeconds > 2*0.25*13*60 || late.LostSeconds != 0 || late.Preempted != 0 {
		t.Errorf("early lost %v s of the cluster with %d jobs, late %v with %d", early.LostSeconds, early.Preempted, late.LostSeconds, late.Preempted)
	}
	near(t, "part that was lost", early.Lost, early.LostSeconds/early.UsedSeconds)
}

// TestFailuresAreNoFault: the wait for a first job is counted from the next leader on, and shares are
// of the nodes that are left.
func TestFailuresAreNoFault(t *testing.T) {
	calm := mustRun(t, mustRead(t, late, Changes{})).pool(t, "late").Outcome.FirstWait
	f := mustRead(t, late+"failures: [{at: 10m50s, leader: true, gap: 5s}]\n", Changes{})
	if got := mustRun(t, f).pool(t, "late").Outcome.FirstWait; got > calm+30*time.Second {
		t.Errorf("with a change of leader late waited %v, without one %v", got, calm)
	}
	r := mustRun(t, mustRead(t, late+"failures: [{at: 20m, nodes: 1}]\n", Changes{}))
	near(t, "got of the node that is left", r.pool(t, "late").Outcome.Got, 0.5)
	near(t, "largest job, of the node that is left", r.pool(t, "late").Outcome.LargestJob, 0.5)

	m := newMeter(mustRead(t, late, Changes{}))
	o := &m.accounts["late"].outcome
	o.Patience = time.Minute
	if got := o.asked.since(0, 2*time.Minute, 0.5, time.Minute) + o.asked.since(2*time.Minute, 3*time.Minute, 0.5, time.Minute); got != 0.5 {
		t.Errorf("a guarantee of two minutes is asked for %v, want 0.5 from the second on", got)
	}
	m.calmed(3 * time.Minute)
	if got := o.asked.since(3*time.Minute, 4*time.Minute, 0.5, time.Minute); got != 0 {
		t.Errorf("right after a failure a guarantee is asked for %v, want nothing", got)
	}
}

// TestPoolsWithAnOrder: what others sort by, and orders that change, are not judged.
func TestPoolsWithAnOrder(t *testing.T) {
	f := mustRead(t, `nodes: [{cpu: 4}]
pools:
  fair: {}
  plain: {mode: fifo}
  start: {mode: fifo, fifo_sort_parameters: [start_time]}
  pending: {mode: fifo, fifo_sort_parameters: [weight, pending_job_count]}
  reordering: {mode: fifo, enable_fifo_children_reordering_for_guarantee_utilization: true}
workloads:
  fair: {job: {length: 1m}}
`, Changes{})
	m := newMeter(f)
	for pool, want := range map[scheduling.PoolName][]string{
		"fair": nil, "plain": {pooltree.SortByWeight, pooltree.SortByStartTime}, "start": {pooltree.SortByStartTime}, "pending": nil, "reordering": nil,
	} {
		if got := m.accounts[pool].fifo; !slices.Equal(got, want) {
			t.Errorf("pool %s sorts by %v, want %v", pool, got, want)
		}
	}
}

func TestPatience(t *testing.T) {
	const base = `duration: 1h
nodes: [{cpu: 4}]
options: {fair_share_starvation_timeout: 20s, preemptive_scheduling_backoff: 3s, allocation_preemption_timeout: 7s, allocation_graceful_preemption_timeout: 2m}
pools: {a: {}, b: {fair_share_starvation_timeout: 1m}}
heartbeat: 1s
workloads:
  a: {job: {length: 1m}}
`
	const looks = 12*time.Second + time.Second
	for name, c := range map[string]struct {
		more  string
		wantA time.Duration
	}{
		"jobs that are aborted at once":  {"", 23*time.Second + looks},
		"jobs that are interrupted":      {"  b: {job: {length: 1m}, interruption: {}}\n", 30*time.Second + looks},
		"graceful ones":                  {"  b: {job: {length: 1m}, interruption: {}, options: {preemption_mode: graceful}}\n", 143*time.Second + looks},
		"jobs that run for some time":    {"  b: {job: {length: 1m}, options: {min_run_time: 30s}}\n", 53*time.Second + looks},
		"both, and a notice of its own":  {"  b: {job: {length: 1m}, interruption: {}, options: {min_run_time: 30s, allocation_preemption_timeout: 20s}}\n", 73*time.Second + looks},
		"graceful ones that never leave": {"  b: {job: {length: 1m}, options: {preemption_mode: graceful}}\n", 23*time.Second + looks},
	} {
		t.Run(name, func(t *testing.T) {
			f := mustRead(t, base+c.more, Changes{})
			if got := f.patienceOf("a", resource.Amounts{}); got != c.wantA {
				t.Errorf("a waits %v, want %v", got, c.wantA)
			}
			if got := f.patienceOf("b", resource.Amounts{}); got != c.wantA+40*time.Second {
				t.Errorf("b waits %v, want %v", got, c.wantA+40*time.Second)
			}
		})
	}
}

// TestPatienceForLargeJobs: there is room for a job larger than half of each node once its pool
// starves aggressively, where it does.
func TestPatienceForLargeJobs(t *testing.T) {
	const base = "duration: 1h\nnodes: [{name: a, cpu: 4}, {name: b, cpu: 2}]\npools: {a: {}}\nworkloads: {a: {job: {length: 1m}}}\n"
	for name, c := range map[string]struct {
		options string
		cpu     resource.Hundredths
		longer  time.Duration
	}{
		"half a node":           {"{enable_aggressive_starvation: true}", 200, 0},
		"more than half":        {"{enable_aggressive_starvation: true}", 201, 90 * time.Second},
		"nothing starves so":    {"{}", 400, 0},
		"it starves so at once": {"{enable_aggressive_starvation: true, fair_share_aggressive_starvation_timeout: 30s}", 400, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := mustRead(t, base+"options: "+c.options, Changes{})
			if got := f.patienceOf("a", resource.Amounts{CPU: c.cpu}) - f.patienceOf("a", resource.Amounts{}); got != c.longer {
				t.Errorf("it waits %v longer, want %v", got, c.longer)
			}
		})
	}
}

// TestRoomBesideGuarantees: of a guarantee no more is asked than has room beside what others have
// by theirs: here a job of 2 cpu beside one of 3 on each of two nodes of 4, of which the pool
// held is guaranteed both, or one. What nobody is guaranteed makes room.
func TestRoomBesideGuarantees(t *testing.T) {
	for name, c := range map[string]struct {
		held  string
		asked bool
	}{"others hold all by guarantees": {"6", false}, "another has more than its own": {"3", true}} {
		t.Run(name, func(t *testing.T) {
			r := mustRun(t, mustRead(t, fmt.Sprintf(`duration: 1h
nodes: [{count: 2, cpu: 4, memory: 4GiB}]
pools: {held: {strong_guarantee_resources: {cpu: %s}}, late: {strong_guarantee_resources: {cpu: 2}}, other: {weight: 100}}
workloads:
  other: {arrivals: {at: [1s]}, jobs: 8, job: {cpu: 1, memory: 1MiB, length: 10h}}
  held: {arrivals: {at: [0s]}, jobs: 2, job: {cpu: 3, memory: 1MiB, length: 10h}}
  late: {arrivals: {at: [1m]}, jobs: 1, job: {cpu: 2, memory: 1MiB, length: 10h}}
`, c.held), Changes{}))
			if got := r.pool(t, "late").Outcome; (got.Asked > 0) != c.asked || got.Had < 0.97*got.Asked {
				t.Errorf("of %v asked for it had %v, want anything asked: %v", got.Asked, got.Had, c.asked)
			}
			if got := r.pool(t, "held").Outcome; got.Asked == 0 || got.Had < got.Asked-1e-6 {
				t.Errorf("the other had %v of %v", got.Had, got.Asked)
			}
		})
	}
}

// TestClaimsAreMetOutOfOrder: a job that starts in what was held for it had its turn before.
func TestClaimsAreMetOutOfOrder(t *testing.T) {
	starts := []fifoStart{{job: "held"}, {job: "chosen"}, {job: "of another command"}}
	command := &commandpb.StartAllocations{Grants: []*commandpb.Grant{{JobId: "held", ClaimTime: timestamppb.Now()}, {JobId: "chosen"}}}
	got := unclaimed(starts, command)
	if len(got) != 2 || got[0].job != "chosen" || got[1].job != "of another command" {
		t.Errorf("left are %+v", got)
	}
	if got = unclaimed(got, &commandpb.PreemptAllocations{}); len(got) != 2 {
		t.Errorf("after another command %+v", got)
	}
}
