package engine_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
)

// foretold is what is said of the start of a job of the operation op.
func (d *drive) foretold() explain.Explanation {
	d.t.Helper()
	x, err := d.Explain("op", d.now)
	must(d.t, err)
	return x
}

// started lets time pass, in steps of a second, until a job of the operation op more runs,
// and returns when that was.
func (d *drive) started(nodes ...scheduling.NodeID) time.Time {
	d.t.Helper()
	before := d.runs()["op"]
	for range 1000 {
		if d.pass(time.Second, time.Second, nodes...); d.runs()["op"] > before {
			return d.now
		}
	}
	d.t.Fatalf("no job of the operation has started by %v", d.now)
	return time.Time{}
}

// twoNodes are n1 and n2, of four slots each.
func (d *drive) twoNodes() {
	d.node("n1", 4)
	d.node("n2", 4)
}

// greedy lets so many jobs of the operation greedy in pool a start.
func (d *drive) greedy(jobs int64) {
	d.wants("greedy", "a", jobs, slotsOf(1), nil)
	d.pass(5*time.Second, time.Second, "n1", "n2")
}

// wantsInB lets the operation op in pool b want n jobs of so many slots.
func (d *drive) wantsInB(needs, n int64) {
	d.wants("op", "b", n, slotsOf(needs), nil)
	d.tick(time.Second)
}

// foretoldCase is a start by preemption, in pools a and b where it names no others.
type foretoldCase struct {
	tree  options
	takes time.Duration
	pools map[scheduling.PoolName]pool
	setup func(d *drive)
	// wantIn is what is foretold, of a job that takes the time it has.
	wantIn time.Duration
}

// check compares what is said of the start with what happens then.
func (test foretoldCase) check(t *testing.T) {
	t.Helper()
	pools := test.pools
	if pools == nil {
		pools = map[scheduling.PoolName]pool{"a": {}, "b": {}}
	}
	d := newDrive(t, test.tree, pools)
	d.takes = test.takes
	test.setup(d)
	asked, already := d.now, len(d.victims)
	x := d.foretold()
	if x.StartBy != explain.ByPreemption {
		t.Fatalf("it starts %s, want %s; %s", x.StartBy, explain.ByPreemption, textOf(x))
	}
	if in := x.Start.Sub(asked); in < test.wantIn-time.Second || in > test.wantIn+time.Second {
		t.Errorf("a job is to start in %v, want %v; %s", in, test.wantIn, textOf(x))
	}
	began := d.started("n1", "n2")
	earliest := x.Start
	if test.takes == 0 {
		earliest = fact(t, x, explain.FactLikelyVictims).At
	}
	if late := began.Sub(x.Start); began.Before(earliest) || late > 4*time.Second {
		t.Errorf("a job started %v after it was foretold for %v; %s", late, x.Start.Sub(asked), textOf(x))
	}
	checkVictims(t, x, d.victims[already:])
}

// checkVictims compares the jobs that were named with those that had to leave.
func checkVictims(t *testing.T, x explain.Explanation, victims []engine.Preempt) {
	t.Helper()
	var named, went []string
	for _, v := range x.Victims {
		named = append(named, string(v.Job))
	}
	for _, v := range victims {
		if v.Node == x.Victims[0].Node && len(went) < len(named) {
			went = append(went, string(v.Job))
		}
	}
	if fmt.Sprint(named) != fmt.Sprint(went) {
		t.Errorf("named were %v, and %v had to leave", named, went)
	}
}

// TestStartsByPreemptionAreForetold compares what is said of who has to leave, and of when
// a job starts, with what happens then. Updates and heartbeats come each second, so a
// start is late by two of each at most; and it is early by as much as jobs leave sooner
// than they may stay.
func TestStartsByPreemptionAreForetold(t *testing.T) {
	for name, test := range map[string]foretoldCase{
		"it will starve": {
			tree: options{"fair_share_starvation_timeout": "30s"}, takes: time.Hour,
			setup:  func(d *drive) { d.twoNodes(); d.greedy(20); d.wantsInB(1, 4) },
			wantIn: 45 * time.Second,
		},
		"it will starve, and jobs leave at once": {
			tree:   options{"fair_share_starvation_timeout": "30s"},
			setup:  func(d *drive) { d.twoNodes(); d.greedy(20); d.wantsInB(1, 4) },
			wantIn: 45 * time.Second,
		},
		"it will starve soon, for it wants one job": {
			tree: options{"fair_share_starvation_timeout": "40s", "job_count_preemption_timeout_coefficient": 4.0, "allocation_preemption_timeout": "5s"}, takes: time.Hour,
			setup:  func(d *drive) { d.twoNodes(); d.greedy(20); d.wantsInB(3, 1) },
			wantIn: 15 * time.Second,
		},
		"it has begun to starve, and all nodes are in backoff": {
			tree: options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1m", "allocation_preemption_timeout": "0s"},
			setup: func(d *drive) {
				d.twoNodes()
				d.greedy(20)
				d.wantsInB(1, 4)
				// Each node has given one job.
				for range 6 {
					d.pass(time.Second, time.Second, "n1", "n2")
				}
			},
			wantIn: 57 * time.Second,
		},
		"its pool starves first": {
			tree: options{"fair_share_starvation_timeout": "10m", "fair_share_aggressive_starvation_timeout": "20m", "enable_pool_starvation": true}, takes: time.Hour,
			pools:  map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"fair_share_starvation_timeout": "20s"}}},
			setup:  func(d *drive) { d.twoNodes(); d.greedy(20); d.wantsInB(1, 4) },
			wantIn: 35 * time.Second,
		},
		"only in the aggressive stage": {
			tree: options{
				"fair_share_starvation_timeout": "10s", "enable_aggressive_starvation": true, "fair_share_aggressive_starvation_timeout": "40s",
				"aggressive_preemption_satisfaction_threshold": 0.2, "preemption_satisfaction_threshold": 1.0,
			}, takes: time.Hour,
			setup: func(d *drive) {
				d.twoNodes()
				d.greedy(0)
				// Those that started last are not on one node.
				for i := range 8 {
					d.pending["greedy"] = 1
					must(d.t, d.SetDemand("greedy", "t", 0, 1, slotsOf(1)))
					d.pass(time.Second, time.Second, scheduling.NodeID(fmt.Sprintf("n%d", 1+i%2)))
				}
				// In one pool what others have beyond their shares goes by operation alone.
				d.wants("op", "a", 1, slotsOf(4), nil)
				d.tick(time.Second)
			},
			wantIn: 55 * time.Second,
		},
	} {
		t.Run(name, test.check)
	}
}

func textOf(x explain.Explanation) string {
	var all []string
	for _, f := range x.Facts {
		all = append(all, f.Code+": "+f.Text)
	}
	return "facts\n" + strings.Join(all, "\n")
}

// TestStartsInHeldRoomAreForetold: others have been told to leave, and do when they have to.
func TestStartsInHeldRoomAreForetold(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "2s", "allocation_preemption_timeout": "20s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.takes = time.Hour
	d.node("n1", 4)
	d.wants("greedy", "a", 9, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n1")
	d.wants("op", "b", 2, slotsOf(1), nil)
	for len(d.victims) == 0 {
		d.pass(time.Second, time.Second, "n1")
	}
	x := d.foretold()
	if in := x.Start.Sub(d.now); x.StartBy != explain.ByHeldRoom || in != 20*time.Second {
		t.Fatalf("a job is to start in %v %s; %s", in, x.StartBy, textOf(x))
	}
	if late := d.started("n1").Sub(x.Start); late < 0 || late > 2*time.Second {
		t.Errorf("a job started %v after the time that was foretold", late)
	}
}

// TestJobsThatCannotBeAskedToLeaveGoAtOnce: nobody waits for them.
func TestJobsThatCannotBeAskedToLeaveGoAtOnce(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "30s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n1", 4)
	d.wants("greedy", "a", 9, slotsOf(1), nil)
	abrupt := d.record("greedy", "a", nil)
	abrupt.Abrupt = []scheduling.TaskName{"other", "t"}
	must(t, d.SetOperation(abrupt))
	d.pass(2*time.Second, time.Second, "n1")
	d.wants("op", "b", 4, slotsOf(1), nil)
	d.tick(time.Second)
	x := d.foretold()
	if in := x.Start.Sub(d.now); in != 30*time.Second {
		t.Fatalf("a job is to start in %v; %s", in, textOf(x))
	}
	if late := d.started("n1").Sub(x.Start); late < 0 || late > 4*time.Second {
		t.Errorf("a job started %v after the time that was foretold", late)
	}
}

// TestJobsThatWereToldToLeaveTellNothing of those that end of themselves.
func TestJobsThatWereToldToLeaveTellNothing(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "5m", "fair_share_aggressive_starvation_timeout": "1h"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n1", 8)
	d.wants("greedy", "a", 100, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n1")
	d.wants("op", "b", 4, slotsOf(4), nil)
	for job := range maps.Clone(d.running) {
		must(t, d.Leave(job, engine.LeaveOrder{Ordered: d.now, Deadline: d.now}))
		d.end(job)
	}
	d.tick(time.Second)
	d.beat("n1")
	for _, f := range d.foretold().Facts {
		if f.Setting == explain.ByEnds {
			t.Errorf("got %q", f.Text)
		}
	}
}

// TestTheSoonerWayIsForetold: jobs end faster than it starves, or slower.
func TestTheSoonerWayIsForetold(t *testing.T) {
	for timeout, want := range map[string]string{"5m": explain.ByEnds, "1s": explain.ByPreemption} {
		d := newDrive(t, options{"fair_share_starvation_timeout": timeout, "fair_share_aggressive_starvation_timeout": "1h", "allocation_preemption_timeout": "1s", "preemptive_scheduling_backoff": "1s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
		d.node("n1", 8)
		d.wants("greedy", "a", 100, slotsOf(1), nil)
		for range 10 {
			d.pass(5*time.Second, 5*time.Second, "n1")
			for job := range d.running {
				d.end(job)
				break
			}
		}
		d.pass(5*time.Second, 5*time.Second, "n1")
		d.wants("op", "b", 4, slotsOf(1), nil)
		d.tick(time.Second)
		x := d.foretold()
		if x.StartBy != want || fact(t, x, explain.FactEstimate).Setting != want {
			t.Errorf("with %s it starts %s, want %s; %s", timeout, x.StartBy, want, textOf(x))
		}
	}
}

// TestNoStartIsForetoldSoonWhenNoJobEnds: as long as none has ended, none is taken to end.
func TestNoStartIsForetoldSoonWhenNoJobEnds(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n1", 8)
	d.wants("greedy", "a", 200, slotsOf(1), nil)
	for range 60 {
		d.pass(time.Second, time.Second, "n1")
		d.kill("greedy", 1)
	}
	d.pass(40*time.Second, time.Second, "n1")
	d.wants("op", "b", 1, slotsOf(1), nil)
	d.tick(time.Second)
	x := d.foretold()
	if in := x.Start.Sub(d.now); x.StartBy != explain.ByEnds || in < 30*time.Second || in > 50*time.Second || x.Latest.Sub(x.Start) < in {
		t.Errorf("it starts %s in %v, until %v, want %s in about 40s, or much later; %s", x.StartBy, in, x.Latest.Sub(d.now), explain.ByEnds, textOf(x))
	}
}

// TestRivalsHaveTheirTurnFirst: of several that starve one is served on a node in each
// backoff.
func TestRivalsHaveTheirTurnFirst(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "10s", "preemptive_scheduling_backoff": "20s", "allocation_preemption_timeout": "0s"},
		map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n1", 12)
	d.wants("greedy", "a", 20, slotsOf(1), nil)
	d.pass(5*time.Second, time.Second, "n1")
	d.wants("first", "b", 1, slotsOf(1), nil)
	d.wants("second", "b", 1, slotsOf(1), nil)
	d.wants("op", "b", 1, slotsOf(1), nil)
	for range 30 {
		if d.tick(time.Second); d.foretold().Verdict == explain.FactNoVictims {
			break
		}
	}
	x := d.foretold()
	if late := d.started("n1").Sub(x.Start); x.StartBy != explain.ByPreemption || late < 0 || late > 4*time.Second {
		t.Errorf("a job started %v after the time that was foretold; %s", late, textOf(x))
	}
}

// TestWhyNoStartIsForetold has situations in which nobody can tell.
func TestWhyNoStartIsForetold(t *testing.T) {
	two := map[scheduling.PoolName]pool{"a": {}, "b": {}}
	for name, test := range map[string]struct {
		pools map[scheduling.PoolName]pool
		setup func(d *drive)
		want  []string
	}{
		"its fair share is used up": {two, func(d *drive) {
			d.wants("other", "a", 9, slotsOf(1), nil)
			d.wants("op", "b", 9, slotsOf(1), nil)
		}, []string{"too few jobs have ended", "it does not starve"}},
		"nobody can be told to leave": {map[scheduling.PoolName]pool{"a": {options: options{"preemption_rate_limit": 0.0}}, "b": {}}, func(d *drive) {
			d.wants("other", "a", 9, slotsOf(1), nil)
			d.pass(2*time.Second, time.Second, "n1")
			d.wants("op", "b", 2, slotsOf(1), nil)
		}, []string{"too few jobs have ended", "there is no node on which enough jobs may be preempted"}},
		"a limit": {map[scheduling.PoolName]pool{"b": {options: options{"resource_limits": options{"cpu": 1.0}}}}, func(d *drive) {
			d.wants("op", "b", 2, slotsOf(1), nil)
		}, []string{"jobs that count against the limit have to end"}},
		"no node is big enough": {two, func(d *drive) { d.wants("op", "b", 2, slotsOf(9), nil) }, []string{"a larger node has to connect"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, options{"fair_share_starvation_timeout": "1m"}, test.pools)
			d.node("n1", 4)
			test.setup(d)
			d.pass(2*time.Second, time.Second, "n1")
			x := d.foretold()
			if !x.Start.IsZero() || x.StartBy != "" {
				t.Errorf("it is to start at %v %s", x.Start, x.StartBy)
			}
			f := fact(t, x, explain.FactNoEstimate)
			for _, want := range test.want {
				if !strings.Contains(f.Text, want) {
					t.Errorf("got %q, want %q in it", f.Text, want)
				}
			}
		})
	}
}
