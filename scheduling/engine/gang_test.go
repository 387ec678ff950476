package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

// gang adds an operation of a gang of n jobs.
func (d *drive) gang(id scheduling.OperationID, in scheduling.PoolName, n int64, needs resource.Amounts) {
	d.t.Helper()
	d.wants(id, in, 0, needs, nil)
	must(d.t, d.SetTaskGang(id, "t", engine.Gang{Size: n}))
	d.pending[id] = n
	must(d.t, d.SetDemand(id, "t", 0, n, needs))
}

// kill has jobs of an operation end for good, as many as are given or all.
func (d *drive) kill(id scheduling.OperationID, most int) {
	d.t.Helper()
	for _, job := range slices.Sorted(maps.Keys(d.running)) {
		if d.running[job].Operation == id && most > 0 {
			most--
			delete(d.running, job)
			delete(d.going, job)
			must(d.t, d.RemoveAllocation(job))
		}
	}
}

// viewOf is the gang of an operation.
func (d *drive) viewOf(id scheduling.OperationID) explain.Gang {
	for _, op := range d.Snapshot().Operations {
		if op.ID == id {
			return op.Tasks[0].Gang
		}
	}
	return explain.Gang{}
}

// three is a cluster of 3 nodes of 4 slots, on each of which a job of small takes each
// slot; a gang of 6 jobs has come, in a pool of its own.
func three(t tester, tree options) *drive {
	t.Helper()
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	for _, n := range []scheduling.NodeID{"n1", "n2", "n3"} {
		d.node(n, 4)
	}
	d.wants("small", "a", 12, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n1", "n2", "n3")
	d.gang("gang", "b", 6, slotsOf(1))
	d.pending["small"] = 100
	must(t, d.SetDemand("small", "t", 0, 100, slotsOf(1)))
	return d
}

// TestGangStartsWhole: room that becomes free bit by bit is held until all jobs fit, and
// all of them start in one plan; jobs of others go on to start in what is left.
func TestGangStartsWhole(t *testing.T) {
	d := three(t, options{"fair_share_starvation_timeout": "1m"})
	for held := range int64(6) {
		d.kill("small", 1)
		d.tick(time.Second)
		plan := d.beat("n1", "n2", "n3")
		if held < 5 {
			if g := d.viewOf("gang"); len(plan.Starts) != 0 || g.Gathered != held+1 || g.Missing != 6 || g.Until.IsZero() {
				t.Fatalf("with %d slots free %+v starts, and the gang is %+v", held+1, plan.Starts, g)
			}
			continue
		}
		var all []string
		for _, s := range plan.Starts {
			all = append(all, fmt.Sprint(s.Operation, " ", s.AllOrNone))
		}
		if want := slices.Repeat([]string{"gang true"}, 6); !slices.Equal(all, want) {
			t.Fatalf("started %v, want %v", all, want)
		}
	}
	if g := d.viewOf("gang"); g.Held != 6 || g.Missing != 0 || len(d.claims()) != 0 || !g.Until.IsZero() {
		t.Errorf("the gang is %+v with claims %v", g, d.claims())
	}
	d.kill("gang", 6)
	d.pass(time.Second, time.Second, "n1", "n2", "n3")
	d.wantRuns(runs{"small": 12})
}

// TestGangInReserve: jobs beyond the size of the gang start when it has, each by itself.
func TestGangInReserve(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}})
	d.node("n", 3)
	d.gang("gang", "a", 2, slotsOf(1))
	d.pending["gang"] = 4
	must(t, d.SetDemand("gang", "t", 0, 4, slotsOf(1)))
	d.tick(time.Second)
	if plan := d.beat("n"); len(plan.Starts) != 2 || !plan.Starts[0].AllOrNone {
		t.Fatalf("started %+v, want the gang of 2", plan.Starts)
	}
	if plan := d.beat("n"); len(plan.Starts) != 1 || plan.Starts[0].AllOrNone {
		t.Fatalf("started %+v, want one in reserve", plan.Starts)
	}
	// One has completed, the rest of the gang goes on: what is in reserve is.
	must(t, d.SetTaskGang("gang", "t", engine.Gang{Size: 2, Completed: 1}))
	d.kill("gang", 1)
	if plan := d.beat("n"); len(plan.Starts) != 1 || plan.Starts[0].AllOrNone {
		t.Fatalf("started %+v, want one more in reserve", plan.Starts)
	}
}

// TestGangTakesTurns: what has not been enough in time is given back, and another gang
// comes first; that of which nothing was to be had tries again later.
func TestGangTakesTurns(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}})
	d.node("n1", 4)
	d.node("n2", 4)
	d.wants("long", "a", 4, slotsOf(1), nil)
	d.tick(time.Second)
	d.beat("n1")
	d.gang("wide", "b", 7, slotsOf(1))
	d.pass(time.Second, time.Second, "n2", "n1")
	d.gang("narrow", "c", 3, slotsOf(1))
	d.pass(58*time.Second, time.Second, "n2", "n1")
	d.wantRuns(runs{"long": 4})
	if g := d.viewOf("wide"); g.Gathered != 4 {
		t.Fatalf("room is held for %+v, want all that is free", g)
	}
	d.pass(3*time.Second, time.Second, "n2", "n1")
	d.wantRuns(runs{"long": 4, "narrow": 3})
	x, err := d.Explain("wide", d.now)
	must(t, err)
	if f := fact(t, x, explain.FactGangPause); x.Verdict != f.Code || f.Count != 0 || f.Until.Sub(d.now) > time.Minute || !f.Until.After(d.now) {
		t.Errorf("%s: %+v", x.Verdict, f)
	}
	d.kill("long", 4)
	d.kill("narrow", 3)
	d.pass(time.Minute, time.Second, "n2", "n1")
	d.wantRuns(runs{"wide": 7})
}

// TestGangTimeoutOfTheTree: room is held for a gang that does not fit for as long as the
// tree says, and no longer; then others come first.
func TestGangTimeoutOfTheTree(t *testing.T) {
	for name, test := range map[string]struct {
		tree options
		want time.Duration
	}{
		"what is usual": {nil, time.Minute},
		"less":          {options{"gang_timeout": "5s"}, 5 * time.Second},
		"more":          {options{"gang_timeout": "3m"}, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, test.tree, map[scheduling.PoolName]pool{"a": {}})
			d.node("n", 4)
			d.node("full", 4)
			d.wants("long", "a", 4, slotsOf(1), nil)
			d.tick(time.Second)
			d.beat("full")
			d.gang("wide", "a", 7, slotsOf(1))
			d.pass(time.Second, time.Second, "n")
			begun := d.now
			for d.viewOf("wide").Gathered > 0 && d.now.Sub(begun) < 10*time.Minute {
				d.pass(time.Second, time.Second, "n")
			}
			if held := d.now.Sub(begun); held < test.want-time.Second || held > test.want+time.Second {
				t.Errorf("room was held for %v, want %v", held, test.want)
			}
			x, err := d.Explain("wide", d.now)
			must(t, err)
			if f := fact(t, x, explain.FactGangPause); f.Until.Sub(d.now) < test.want-time.Second || f.Until.Sub(d.now) > test.want+time.Second {
				t.Errorf("others come first until %v from now, want %v", f.Until.Sub(d.now), test.want)
			}
		})
	}
}

// TestGangPreempts: a gang that starves has room made for it on several nodes, and starts
// when the last of those have gone that have to.
func TestGangPreempts(t *testing.T) {
	d := three(t, options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1s", "allocation_preemption_timeout": "9s"})
	d.takes = 8 * time.Second
	started := 0
	for range 60 {
		d.tick(time.Second)
		plan := d.beat("n1", "n2", "n3")
		for _, s := range plan.Starts {
			if s.Operation == "gang" {
				started++
			}
		}
		if started > 0 {
			break
		}
	}
	nodes := map[scheduling.NodeID]bool{}
	for _, v := range d.victims {
		nodes[v.Node] = true
		if v.For.Operation != "gang" {
			t.Errorf("%+v leaves for %v", v.Job, v.For)
		}
	}
	if started != 6 || len(d.victims) != 6 || len(nodes) < 2 {
		t.Errorf("%d jobs of the gang started in one plan, for which %d left %d nodes; want 6, 6, and several", started, len(d.victims), len(nodes))
	}
	d.wantRuns(runs{"small": 6, "gang": 6})
}

// TestGangWhoseTimeIsOverAsTheLastOnesLeave: those that have to leave for a gang take until
// after its time; when all have, it starts, and they have not left in vain.
func TestGangWhoseTimeIsOverAsTheLastOnesLeave(t *testing.T) {
	for name, together := range map[string]bool{"an update comes first": true, "a heartbeat does": false} {
		t.Run(name, func(t *testing.T) {
			d := three(t, options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1s", "allocation_preemption_timeout": "20s", "gang_timeout": "10s"})
			d.takes = time.Hour
			d.pass(15*time.Second, time.Second, "n1", "n2", "n3")
			if g := d.viewOf("gang"); g.Gathered != 6 || !g.Until.Before(d.now) {
				t.Fatalf("at %v the gang is %+v, want one that waits beyond its time", d.now, g)
			}
			for range 20 {
				if d.runs()["gang"] > 0 {
					break
				}
				d.now = d.now.Add(time.Second)
				if d.leave(); together {
					d.tick(0)
				}
				d.beat("n1", "n2", "n3")
			}
			d.wantRuns(runs{"small": 6, "gang": 6})
		})
	}
}

// TestExplainGang says what keeps a gang from starting.
func TestExplainGang(t *testing.T) {
	for name, tc := range map[string]struct {
		setup func(d *drive)
		want  string
		text  string
	}{
		"room is held": {func(d *drive) { d.kill("small", 4) }, explain.FactGang,
			"waits for room for all 6 jobs of the gang (task t): 4 held, on node n1 (4), until 2030-01-02T03:05:"},
		"all jobs have room, and some wait for others to leave": {func(d *drive) {
			d.kill("small", 5)
			must(d.t, d.RemoveNode("n3"))
		}, explain.FactGang, "5 held"},
		"another gang has its turn": {func(d *drive) {
			d.gang("aaa", "b", 5, slotsOf(1))
			d.kill("small", 4)
			d.pass(2*time.Second, time.Second, "n1", "n2", "n3")
			must(d.t, d.SetOperation(func() engine.Operation { op := d.record("gang", "b", nil); op.Suspended = true; return op }()))
			d.pass(time.Second, time.Second, "n1", "n2", "n3")
			must(d.t, d.SetOperation(d.record("gang", "b", nil)))
		}, explain.FactGangTurn, "room is held for another gang first: task t of operation aaa, 4 of 5 jobs"},
		"nothing can hold it": {func(d *drive) {
			must(d.t, d.RemoveNode("n2"))
			must(d.t, d.RemoveNode("n3"))
			// Jobs end, so that a start could be estimated.
			d.kill("small", 4)
		}, explain.FactGangTooBig, "at most 4 of the 6 jobs of the gang (task t) that have to start together fit on the 1 node that takes its jobs, even when it is empty: together the jobs need 6 slots, but the node has 4 slots; until that changes it does not count as demand"},
		"limits leave too little": {func(d *drive) {
			must(d.t, d.SetOperation(d.record("gang", "b", options{"resource_limits": options{"user_slots": 5.0}})))
		}, explain.FactLimit, "all 6 jobs of the gang (task t) need 6 slots"},
		"some of it has not ended": {func(d *drive) {
			must(d.t, d.SetDemand("gang", "t", 0, 2, slotsOf(1)))
		}, explain.FactGangIncomplete, "6 jobs of the gang (task t) have to start together, but only 2 can: the others have to end first"},
	} {
		t.Run(name, func(t *testing.T) {
			d := three(t, options{"fair_share_starvation_timeout": "1m"})
			tc.setup(d)
			d.tick(time.Second)
			d.beat("n1", "n2", "n3")
			x, err := d.Explain("gang", d.now)
			must(t, err)
			if f := x.Facts[0]; x.Verdict != tc.want || !strings.Contains(f.Text, tc.text) {
				t.Errorf("verdict %s: %s\nwant %s: %s", x.Verdict, f.Text, tc.want, tc.text)
			}
			if x.Verdict == explain.FactGangTooBig && !x.Start.IsZero() {
				t.Errorf("what can never start is said to start at %v", x.Start)
			}
		})
	}
}
