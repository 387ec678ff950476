package engine_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// reachCase is what puts a gang of ten jobs out of reach, and within it.
type reachCase struct {
	out    func(d *drive)
	within func(d *drive)
	want   string
	text   string
}

// checkReach has each gang out of reach, where it keeps nothing from others, and then within.
func checkReach(t *testing.T, cases map[string]reachCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1s", "allocation_preemption_timeout": "1s"},
				map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}})
			nodes := []scheduling.NodeID{"n1", "n2", "n3", "n4"}
			d.node("n1", 4)
			d.node("n2", 4)
			d.wants("greedy", "a", 100, slotsOf(1), options{"preemption_mode": "graceful"})
			d.gang("gang", "b", 10, slotsOf(1))
			tc.out(d)
			d.pass(20*time.Second, time.Second, nodes...)
			d.wantVictims()
			v := d.seen("gang")
			if v.Shares.DemandShare != (resource.Vector{}) || v.Shares.Clock.Status != preemption.Normal || len(d.claims()) != 0 {
				t.Errorf("out of reach it demands %v, is %+v and has claims %v", v.Shares.DemandShare, v.Shares.Clock, d.claims())
			}
			if greedy := d.seen("greedy"); greedy.Shares.UsageShare[resource.CPU] < 1 {
				t.Errorf("it keeps %v of the cluster from others", 1-greedy.Shares.UsageShare[resource.CPU])
			}
			if pressed, _ := d.Pressing(); pressed {
				t.Error("it has nodes looked at in vain")
			}
			x, err := d.Explain("gang", d.now)
			must(t, err)
			f := x.Facts[0]
			if x.Verdict != tc.want || !strings.Contains(f.Text, tc.text) || !x.Start.IsZero() {
				t.Errorf("verdict %s: %s\nwant %s: %s", x.Verdict, f.Text, tc.want, tc.text)
			}
			if f.Code == explain.FactGangTooBig && (f.Resource != "user_slots" || f.Count >= f.Of || f.Of != 10 || f.Value < 10 || f.Bound < 4) {
				t.Errorf("its numbers are %+v", f)
			}
			tc.within(d)
			d.pass(time.Second, time.Second, nodes...)
			if v := d.seen("gang"); v.Shares.DemandShare == (resource.Vector{}) {
				t.Fatal("within reach it asks for nothing")
			}
			must(t, d.SetDemand("greedy", "t", 0, 0, slotsOf(1)))
			d.kill("greedy", 100)
			d.pass(2*time.Second, time.Second, nodes...)
			if got := d.runs()["gang"]; got < 6 {
				t.Errorf("within reach, with room, %d of its jobs run", got)
			}
		})
	}
}

// TestGangOutOfReach: a gang that could not start if the tree was empty takes nothing from
// others, and says what lacks; once it could, it takes part as any other does, and starts.
func TestGangOutOfReach(t *testing.T) {
	checkReach(t, map[string]reachCase{
		"too few nodes": {func(*drive) {}, func(d *drive) { d.node("n3", 4) }, explain.FactGangTooBig,
			"at most 8 of the 10 jobs of the gang (task t) that have to start together fit on the 2 nodes that take its jobs, even when they are empty: together the jobs need 10 slots, but the nodes have 8 slots; until"},
		"nodes in pieces too small": {
			func(d *drive) { must(d.t, d.SetDemand("gang", "t", 0, 10, slotsOf(3))); d.node("n3", 22) },
			func(d *drive) { d.node("n4", 30) }, explain.FactGangTooBig, "at most 9 of the 10 jobs of the gang (task t) that have to start together fit on the 3 nodes that take its jobs, even when they are empty: the total is enough, but it is fragmented; most nodes run out of user_slots first, and each job needs 3 slots"},
		"one of its jobs fits nowhere": {
			func(d *drive) { must(d.t, d.SetDemand("gang", "t", 0, 10, slotsOf(5))) },
			func(d *drive) { must(d.t, d.SetDemand("gang", "t", 0, 10, slotsOf(1))); d.node("n3", 2) }, explain.FactTooSmall, "no node is big enough"},
		"a node is drained": {
			func(d *drive) { must(d.t, d.SetNode("n3", slotsOf(4), false)) },
			func(d *drive) { d.node("n3", 4) }, explain.FactGangTooBig, "on the 2 nodes that take its jobs"},
		"its filter leaves nodes out": {
			func(d *drive) {
				d.node("n3", 40)
				must(d.t, d.SetOperation(d.record("gang", "b", options{"scheduling_tag_filter": "old"})))
				must(d.t, d.SetNode("n1", slotsOf(4), true, "old"))
			},
			func(d *drive) { must(d.t, d.SetNode("n3", slotsOf(40), true, "old")) }, explain.FactGangTooBig,
			"at most 4 of the 10 jobs of the gang (task t) that have to start together fit on the 1 node that takes its jobs, even when it is empty: together the jobs need 10 slots, but the node has 4 slots"},
		"its limits are less": {
			func(d *drive) {
				d.node("n3", 12)
				must(d.t, d.SetOperation(d.record("gang", "b", options{"resource_limits": options{"user_slots": 5.0}})))
			},
			func(d *drive) { must(d.t, d.SetOperation(d.record("gang", "b", nil))) }, explain.FactLimit, "all 10 jobs of the gang (task t) need 10 slots"},
		"it needs less": {func(*drive) {}, func(d *drive) {
			must(d.t, d.SetTaskGang("gang", "t", engine.Gang{Size: 6}))
			must(d.t, d.SetDemand("gang", "t", 0, 6, slotsOf(1)))
			d.kill("greedy", 8)
		}, explain.FactGangTooBig, "at most 8 of the 10"},
	})
}

// TestGangLosesItsReach: room that is held for a gang is given back as soon as it cannot
// start any more.
func TestGangLosesItsReach(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n1", 4)
	d.node("n2", 4)
	d.wants("long", "a", 4, slotsOf(1), nil)
	d.tick(time.Second)
	d.beat("n1")
	d.gang("gang", "b", 6, slotsOf(1))
	d.pass(2*time.Second, time.Second, "n2")
	if g := d.viewOf("gang"); g.Gathered != 4 {
		t.Fatalf("room is held for %+v, want 4", g)
	}
	must(t, d.RemoveNode("n1"))
	d.tick(time.Second)
	if got := d.claims(); len(got) != 0 {
		t.Errorf("claims %+v for a gang that cannot start", got)
	}
	if f, err := d.Facts("gang"); err != nil || f.Ended.End != engine.ClaimUnwanted {
		t.Errorf("its claims ended %v: %v", f.Ended, err)
	}
}

// TestGangOfNodesThatComeBack: to a new leader a gang that fits on nodes that are about to
// be heard again counts, until they have had the time to come; one that would not fit there
// either does not.
func TestGangOfNodesThatComeBack(t *testing.T) {
	for name, tc := range map[string]struct {
		size    int64
		awaited bool
		after   time.Duration
		want    bool
	}{
		"it fits on those":               {size: 8, awaited: true, want: true},
		"it does not":                    {size: 9, awaited: true},
		"they are not awaited":           {size: 8},
		"they have had the time to come": {size: 8, awaited: true, after: 21 * time.Second},
		"they have some time left":       {size: 8, awaited: true, after: 19 * time.Second, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, options{"node_reconnection_timeout": "20s"}, map[scheduling.PoolName]pool{"a": {}})
			d.node("n1", 4)
			must(t, d.SetNode("n2", slotsOf(4), false))
			must(t, d.Await("n2", tc.awaited))
			d.gang("gang", "a", tc.size, slotsOf(1))
			d.tick(time.Second)
			d.tick(tc.after)
			if got := d.seen("gang").Shares.DemandShare != (resource.Vector{}); got != tc.want {
				t.Errorf("it counts %t, want %t", got, tc.want)
			}
			x, err := d.Explain("gang", d.now)
			must(t, err)
			if tooBig := x.Verdict == explain.FactGangTooBig; tooBig == tc.want {
				t.Errorf("it is said: %s", x.Facts[0].Text)
			}
			d.wants("small", "a", 4, slotsOf(1), nil)
			d.tick(0)
			d.beat("n1")
			// Others have their turns, too.
			if held := d.viewOf("gang").Gathered == 2; held != tc.want {
				t.Errorf("its part of what is free on the node that is heard is held for it: %t, want %t; running %v", held, tc.want, d.runs())
			}
		})
	}
	d := newDrive(t, nil, nil)
	if err := d.Await("nowhere", true); err == nil {
		t.Error("a node that nobody knows is awaited")
	}
}

// TestOutOfReachChangesNothing: whatever happens, a tree with a gang that no nodes could
// hold, or with jobs that none could, plans for all others what it would without.
func TestOutOfReachChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := func() *drive {
			d := newDrive(t, options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
			d.takes = time.Second
			return d
		}
		with, without := begin(), begin()
		if in := rapid.SampledFrom([]scheduling.PoolName{"a", "b"}).Draw(t, "pool of those"); rapid.Bool().Draw(t, "a gang") {
			with.gang("out", in, 50, slotsOf(1))
		} else {
			with.wants("out", in, 5, slotsOf(7), nil)
		}
		var nodes []scheduling.NodeID
		each := func(do func(d *drive)) { do(with); do(without) }
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			nodes = append(nodes, scheduling.NodeID('a'+rune(i)))
			slots := rapid.Int64Range(1, 6).Draw(t, "slots")
			each(func(d *drive) { d.node(nodes[i], slots) })
		}
		without.now = with.now
		for i := range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch id := scheduling.OperationID('A' + rune(i)); rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				in, n, slots := rapid.SampledFrom([]scheduling.PoolName{"a", "b"}).Draw(t, "pool"), rapid.Int64Range(1, 9).Draw(t, "jobs"), rapid.Int64Range(1, 3).Draw(t, "slots")
				each(func(d *drive) { d.wants(id, in, n, slotsOf(slots), nil) })
			case 1:
				n := rapid.IntRange(1, 3).Draw(t, "ends")
				each(func(d *drive) { d.kill("A", n) })
			}
			each(func(d *drive) { d.pass(2*time.Second, time.Second, nodes...) })
			if got, want := with.runs(), without.runs(); !maps.Equal(got, want) || len(with.victims) != len(without.victims) {
				t.Fatalf("with what fits nowhere %v run and %d were preempted, without %v and %d", got, len(with.victims), want, len(without.victims))
			}
		}
	})
}

// seen is an operation as readers see it.
func (d *drive) seen(id scheduling.OperationID) engine.OperationView {
	for _, op := range d.Snapshot().Operations {
		if op.ID == id {
			return op
		}
	}
	d.t.Fatalf("no operation %s", id)
	return engine.OperationView{}
}

// TestJobsNoNodeHolds: demand for jobs that no node could hold if it was empty takes nobody's
// share, does not starve, and is told; once one could, it is demand as any other.
func TestJobsNoNodeHolds(t *testing.T) {
	big := func(d *drive, document options) { d.wants("big", "b", 10, slotsOf(8), document) }
	for name, tc := range map[string]struct {
		out, within func(d *drive)
		want, text  string
	}{
		"it is larger than all nodes": {
			func(d *drive) { big(d, nil) }, func(d *drive) { d.node("n3", 8) }, explain.FactTooSmall,
			"no node is big enough: a job of task t needs 8 slots, 8 cpu, but 2 nodes have less user_slots, cpu even when empty: the largest, n1, has 4 slots; until that changes such jobs do not count as demand, and no job is preempted for them"},
		"its filter leaves the large node out": {
			func(d *drive) {
				big(d, options{"scheduling_tag_filter": "!large"})
				must(d.t, d.SetNode("n3", slotsOf(8), true, "large"))
			},
			func(d *drive) { must(d.t, d.SetOperation(d.record("big", "b", nil))) }, explain.FactTooSmall, "no node is big enough"},
		"the filter of its pool does": {
			func(d *drive) {
				big(d, nil)
				must(d.t, d.SetNode("n3", slotsOf(8), true, "large"))
				d.tree(quick, map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"scheduling_tag_filter": "!large"}}})
			},
			func(d *drive) { d.tree(quick, map[scheduling.PoolName]pool{"a": {}, "b": {}}) }, explain.FactTooSmall, "no node is big enough"},
		"the large node is drained": {
			func(d *drive) { big(d, nil); must(d.t, d.SetNode("n3", slotsOf(8), false)) },
			func(d *drive) { d.node("n3", 8) }, explain.FactTooSmall, "no node is big enough"},
		"no node has its tags": {
			func(d *drive) { big(d, options{"scheduling_tag_filter": "gpu"}) },
			func(d *drive) { must(d.t, d.SetNode("n3", slotsOf(8), true, "gpu")) }, explain.FactNoMatch, "such jobs do not count as demand"},
		"its jobs need less": {
			func(d *drive) { big(d, nil) }, func(d *drive) { must(d.t, d.SetDemand("big", "t", 0, 10, slotsOf(4))) }, explain.FactTooSmall, "no node is big enough"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, quick, map[scheduling.PoolName]pool{"a": {}, "b": {}})
			nodes := []scheduling.NodeID{"n1", "n2", "n3"}
			d.node("n1", 4)
			d.node("n2", 4)
			d.wants("greedy", "a", 100, slotsOf(1), nil)
			tc.out(d)
			d.pass(20*time.Second, time.Second, nodes...)
			d.wantVictims()
			v, greedy := d.seen("big"), d.seen("greedy")
			if v.Shares.DemandShare != (resource.Vector{}) || v.Shares.Clock.Status != preemption.Normal {
				t.Errorf("it demands %v and is %+v", v.Shares.DemandShare, v.Shares.Clock)
			}
			if got := greedy.Shares.FairShare[resource.CPU]; got < 1-1e-9 {
				t.Errorf("it leaves %v of the cluster to others", got)
			}
			if pressed, _ := d.Pressing(); pressed {
				t.Error("it has nodes looked at in vain")
			}
			x, err := d.Explain("big", d.now)
			must(t, err)
			if x.Verdict != tc.want || !strings.Contains(x.Facts[0].Text, tc.text) || !x.Start.IsZero() {
				t.Errorf("verdict %s: %s\nwant %s: %s", x.Verdict, x.Facts[0].Text, tc.want, tc.text)
			}
			tc.within(d)
			d.pass(10*time.Second, time.Second, nodes...)
			if got := d.seen("big").Shares; got.DemandShare == (resource.Vector{}) || got.FairShare[resource.CPU] < 0.49 {
				t.Errorf("within reach it asks for %v and ought to have %v", got.DemandShare, got.FairShare)
			}
			if got := d.runs()["big"]; got == 0 {
				t.Errorf("within reach none of its jobs runs: %v", d.runs())
			}
		})
	}
}

var quick = options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1s", "allocation_preemption_timeout": "1s"}

// TestJobsOfOneTaskNoNodeHolds: the other tasks of the operation have its share.
func TestJobsOfOneTaskNoNodeHolds(t *testing.T) {
	d := newDrive(t, quick, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n1", 4)
	d.wants("greedy", "a", 100, slotsOf(1), nil)
	d.wants("mixed", "b", 1, slotsOf(1), nil)
	must(t, d.SetDemand("mixed", "wide", 0, 10, slotsOf(8)))
	d.pass(10*time.Second, time.Second, "n1")
	if got := d.seen("mixed").Shares; got.FairShare[resource.CPU] != 0.25 || got.DemandShare[resource.CPU] != 0.25 {
		t.Errorf("it ought to have %v and asks for %v, want the share of the job that fits", got.FairShare, got.DemandShare)
	}
	d.wantRuns(map[scheduling.OperationID]int{"greedy": 3, "mixed": 1})
}

// TestJobsOfNodesThatComeBack: to a new leader nothing never fits that fits a node which is
// about to be heard again.
func TestJobsOfNodesThatComeBack(t *testing.T) {
	for name, tc := range map[string]struct {
		slots   int64
		awaited bool
		after   time.Duration
		want    bool
	}{
		"it fits on one of those":        {slots: 8, awaited: true, want: true},
		"it does not":                    {slots: 9, awaited: true},
		"they are not awaited":           {slots: 8},
		"they have had the time to come": {slots: 8, awaited: true, after: 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, options{"node_reconnection_timeout": "20s"}, map[scheduling.PoolName]pool{"a": {}})
			d.node("n1", 4)
			must(t, d.SetNode("n2", slotsOf(8), false))
			must(t, d.Await("n2", tc.awaited))
			d.wants("big", "a", 3, slotsOf(tc.slots), nil)
			d.tick(0)
			d.tick(tc.after)
			if got := d.seen("big").Shares.DemandShare != (resource.Vector{}); got != tc.want {
				t.Errorf("it counts %t, want %t", got, tc.want)
			}
			x, err := d.Explain("big", d.now)
			must(t, err)
			text := x.Facts[0].Text
			if never := x.Verdict == explain.FactTooSmall; never == tc.want || tc.want && !strings.Contains(text, "these nodes are expected to reconnect") {
				t.Errorf("verdict %s: %s", x.Verdict, text)
			}
		})
	}
}

// TestJobsBeyondLimitsTakeNoShare: a job that is more than a limit above it can never start, so it
// is no demand, and starves nobody's fair share; once the limit is raised, it is.
func TestJobsBeyondLimitsTakeNoShare(t *testing.T) {
	limit := func(n float64) options {
		return options{"resource_limits": options{"cpu": n, "user_slots": n}}
	}
	pools := map[scheduling.PoolName]pool{"a": {options: limit(3)}, "b": {}}
	d := newDrive(t, soon(nil), pools)
	d.node("n", 8)
	d.wants("large", "a", 5, slotsOf(4), nil)
	d.wants("others", "b", 20, slotsOf(1), nil)
	d.pass(2*time.Minute, time.Second, "n")
	d.wantRuns(runs{"others": 8})
	if got := d.seen("large").Shares; got.DemandShare != (resource.Vector{}) || got.FairShare != (resource.Vector{}) {
		t.Errorf("a job beyond its limit asks for %v and ought to have %v, want nothing", got.DemandShare, got.FairShare)
	}
	x, err := d.Explain("large", d.now)
	must(t, err)
	if f := fact(t, x, explain.FactLimit); !strings.Contains(f.Text, "a single job needs 4 slots") || !strings.Contains(f.Text, "do not count as demand") {
		t.Errorf("it is said: %s", f.Text)
	}
	pools["a"] = pool{options: limit(4)}
	d.tree(soon(nil), pools)
	d.pass(2*time.Minute, time.Second, "n")
	d.wantRuns(runs{"large": 1, "others": 4})
}
