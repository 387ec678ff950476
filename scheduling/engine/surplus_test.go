package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
)

// hungerOf is how a pool fares.
func (d *drive) hungerOf(name scheduling.PoolName) preemption.Clock {
	d.t.Helper()
	for _, p := range d.Snapshot().Pools {
		if p.Name == name {
			return p.Shares.Clock
		}
	}
	d.t.Fatalf("no pool %s", name)
	return preemption.Clock{}
}

// TestPoolsStarveForLessThanIsTolerated: of 40 slots, late has all but some of its 20, and
// nothing ends. The less is missing, the later others go for it, and with tolerance 0 nobody
// does; none goes for the last half of a job.
func TestPoolsStarveForLessThanIsTolerated(t *testing.T) {
	for name, tc := range map[string]struct {
		pool options
		has  int64
		// starves is when; 0: never.
		starves time.Duration
	}{
		"what is tolerated":       {nil, 16, 10 * time.Second},
		"half of it":              {nil, 18, 20 * time.Second},
		"a quarter of it":         {nil, 19, 40 * time.Second},
		"less than one job":       {options{"weight": .94}, 19, 0},
		"more than is tolerated":  {nil, 12, 10 * time.Second},
		"a tolerance of nothing":  {options{"fair_share_starvation_tolerance": 0.0}, 18, 0},
		"a tolerance of all":      {options{"fair_share_starvation_tolerance": 1.0}, 19, 10 * time.Second},
		"a timeout of its own":    {options{"fair_share_starvation_timeout": "30s"}, 18, time.Minute},
		"where pools never do so": {options{"enable_pool_starvation": false}, 18, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tree := options{"fair_share_starvation_timeout": "10s", "preemptive_scheduling_backoff": "1s"}
			of := options{"fair_share_starvation_tolerance": 0.0}
			if on, set := tc.pool["enable_pool_starvation"]; set {
				tree["enable_pool_starvation"] = on
				tc.pool = nil
			}
			d := newDrive(t, tree, map[scheduling.PoolName]pool{"early": {}, "late": {options: tc.pool}})
			d.node("n", 40)
			d.wants("late", "late", tc.has, slotsOf(1), of)
			d.pass(time.Second, time.Second, "n")
			d.wants("early", "early", 40, slotsOf(1), of)
			d.pass(time.Second, time.Second, "n")
			d.wantRuns(runs{"late": int(tc.has), "early": int(40 - tc.has)})
			must(t, d.SetDemand("late", "t", 0, 10, slotsOf(1)))
			d.pending["late"] = 10
			d.pass(time.Second, time.Second, "n")
			since := d.now
			if tc.starves == 0 {
				d.pass(time.Hour, 20*time.Second, "n")
				d.wantVictims()
				return
			}
			x, err := d.Explain("late", d.now)
			must(t, err)
			if x.StartBy != explain.ByPreemption || len(x.Victims) == 0 || x.Victims[0].Operation != "early" {
				t.Errorf("it is foretold to start by %q, victims %+v", x.StartBy, x.Victims)
			}
			for len(d.victims) == 0 && d.now.Sub(since) < time.Hour {
				d.pass(time.Second, time.Second, "n")
			}
			if after := d.now.Sub(since); after < tc.starves || after > tc.starves+2*time.Second {
				t.Errorf("it starves after %v, want %v", after, tc.starves)
			}
			d.pass(time.Minute, time.Second, "n")
			d.wantRuns(runs{"late": 20, "early": 20})
			if got := d.hungerOf("late"); got != (preemption.Clock{}) {
				t.Errorf("it has its share and is %+v", got)
			}
		})
	}
}

// TestTurns: two pools want one slot, and nothing ends. Who has it keeps it until the other
// one has lacked its fair share for so much longer that it is its turn, which comes once.
func TestTurns(t *testing.T) {
	for name, tc := range map[string]struct {
		weight float64
		// takes is when its turn comes; 0: never.
		takes time.Duration
	}{
		"an equal share":       {1, 0},
		"a slightly larger":    {1.2, 546 * time.Second},
		"a larger":             {1.5, 480 * time.Second},
		"one that is much so":  {4, 5 * time.Second},
		"a smaller one":        {.8, 0},
		"one much smaller yet": {.1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"weight": tc.weight}}})
			d.node("n", 1)
			d.wants("first", "a", 3, slotsOf(1), nil)
			d.pass(time.Second, time.Second, "n")
			d.wants("second", "b", 3, slotsOf(1), nil)
			since := d.now
			for len(d.victims) == 0 && d.now.Sub(since) < 2*time.Hour {
				d.pass(time.Second, time.Second, "n")
			}
			after := d.now.Sub(since)
			if tc.takes == 0 {
				d.wantVictims()
				return
			}
			if after < tc.takes || after > tc.takes+10*time.Second {
				t.Errorf("its turn comes after %v, want %v", after, tc.takes)
			}
			d.pass(3*time.Hour, 20*time.Second, "n")
			d.wantRuns(runs{"second": 1})
			d.wantVictims("first-001 preemption")
		})
	}
}

// TestLittleGainWaitsForItsTurn: of 7 slots, a lacks 0.6 of a job and b has as much too many.
// Nobody loses a job for a fifth of one, until a has lacked its share for long.
func TestLittleGainWaitsForItsTurn(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {options: options{"weight": 3.6}}, "b": {options: options{"weight": 3.4}}})
	d.node("n", 7)
	d.wants("b", "b", 4, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wants("a", "a", 7, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"a": 3, "b": 4})
	must(t, d.SetDemand("b", "t", 0, 7, slotsOf(1)))
	d.pending["b"] = 7
	d.pass(50*time.Minute, time.Second, "n")
	d.wantVictims()
	d.pass(20*time.Minute, time.Second, "n")
	d.wantVictims("b-004 preemption")
	d.wantRuns(runs{"a": 4, "b": 3})
}

// TestWhoTookItsTurnKeepsIt: b has all of ten slots for an hour, when a, with 0.7 of a job of its
// own, takes one. The lost hour keeps it from taking another one soon, and not from going on with
// the next jobs of ten seconds in the same place, until it has had its share.
func TestWhoTookItsTurnKeepsIt(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {options: options{"weight": .7}}, "b": {options: options{"weight": 9.3}}})
	d.node("n", 10)
	d.wants("b", "b", 20, slotsOf(1), nil)
	d.pass(time.Hour, 20*time.Second, "n")
	d.wants("a", "a", 5, slotsOf(1), nil)
	had := 0
	for range 2 * 60 {
		for job, a := range d.running {
			if a.Operation == "a" && d.now.Sub(a.Started) >= 10*time.Second {
				d.end(job)
			}
		}
		d.pass(time.Second, time.Second, "n")
		had += d.runs()["a"]
	}
	if d.wantVictims("b-010 preemption"); had < 60 {
		t.Errorf("a has had %d s of two minutes, one job in ten seconds", had)
	}
}

// TestTurnsOfPoolsBelow: all that a pool has is one job that is much more than its fair share,
// so one beside its parent, that has nothing and is due several, takes it.
func TestTurnsOfPoolsBelow(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"x": {}, "x1": {parent: "x"}, "x2": {parent: "x"}, "y": {}})
	d.node("n", 6)
	d.wants("x1", "x1", 1, slotsOf(4), nil)
	d.wants("x2", "x2", 2, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"x1": 1, "x2": 2})
	d.wants("y", "y", 6, slotsOf(1), nil)
	d.pass(time.Minute, time.Second, "n")
	d.wantRuns(runs{"x2": 2, "y": 4})
	d.pass(2*time.Hour, 20*time.Second, "n")
	d.wantVictims("x1-002 preemption")
}

// TestGuaranteesAreKeptInWholeJobs: a pool whose guarantee is no multiple of its jobs keeps
// as many as fit in it, and no part of a job more.
func TestGuaranteesAreKeptInWholeJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		guarantee float64
		want      int
	}{
		"two and a half jobs": {5, 2},
		"three jobs":          {6, 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{
				"sure": {options: options{"weight": .001, "strong_guarantee_resources": options{"user_slots": tc.guarantee, "cpu": tc.guarantee}}}, "other": {},
			})
			d.node("n", 16)
			d.wants("sure", "sure", 8, slotsOf(2), nil)
			d.pass(time.Second, time.Second, "n")
			d.wantRuns(runs{"sure": 8})
			d.wants("other", "other", 16, slotsOf(1), nil)
			d.pass(2*time.Hour, 20*time.Second, "n")
			if got := d.runs()["sure"]; got != tc.want {
				t.Errorf("%d jobs run, want %d", got, tc.want)
			}
		})
	}
}

// TestGuaranteesAreKeptInEveryStage: a pool with just what it is guaranteed, of which one
// operation has more than its part and another one waits with larger jobs, loses nothing to a
// pool that starves, while one that has more than its fair share started earlier.
func TestGuaranteesAreKeptInEveryStage(t *testing.T) {
	for slots := int64(1); slots <= 6; slots++ {
		d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{
			"a": {options: options{"strong_guarantee_resources": options{"cpu": 8.0, "user_slots": 8.0}}}, "b": {}, "c": {}})
		d.node("n", 16)
		d.wants("old", "c", 8, slotsOf(1), nil)
		d.pass(2*time.Second, time.Second, "n")
		d.wants("whole", "a", 8, slotsOf(1), nil)
		d.pass(2*time.Second, time.Second, "n")
		d.wants("none", "a", 4, slotsOf(slots), options{"min_share_preemption_timeout": "2h", "fair_share_starvation_timeout": "2h"})
		d.wants("late", "b", 20, slotsOf(1), nil)
		for range 40 {
			d.pass(time.Second, time.Second, "n")
			if got := d.runs()["whole"]; got < 8 {
				t.Fatalf("beside jobs of %d slots: %d jobs of the guarantee of 8 run", slots, got)
			}
		}
		if got := d.runs()["late"]; got < 3 {
			t.Errorf("beside jobs of %d slots: the one that starves has %d jobs", slots, got)
		}
	}
}

// TestWhoHasItsShareTakesNothingFromOutside: within a pool that has its fair share, those
// below settle it among themselves.
func TestWhoHasItsShareTakesNothingFromOutside(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "in": {parent: "a"}, "out": {parent: "a"}, "b": {}})
	d.node("n", 8)
	d.wants("b", "b", 8, slotsOf(1), nil)
	d.wants("in", "in", 8, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"b": 4, "in": 4})
	d.wants("out", "out", 8, slotsOf(1), nil)
	d.pass(10*time.Minute, time.Second, "n")
	d.wantRuns(runs{"b": 4, "in": 2, "out": 2})
	d.wantVictims("in-007 preemption", "in-005 preemption")
}

// TestReservationsInVainBecomeRare: nothing of the small jobs ends, so that the room that is
// kept is idle in vain: it is so for a smaller and smaller part of the time.
func TestReservationsInVainBecomeRare(t *testing.T) {
	d := kept(t, nil, nil)
	d.pending["small"] = 10000
	must(t, d.SetDemand("small", "t", 0, 10000, slotsOf(1)))
	idle := func(how time.Duration) (seconds int) {
		for range int(how.Seconds()) {
			d.pass(time.Second, time.Second, "n")
			if d.runs()["small"] < 8 {
				seconds++
			} else {
				d.kill("small", 1)
			}
		}
		return seconds
	}
	first := idle(10 * time.Minute)
	idle(20 * time.Minute)
	if last := idle(10 * time.Minute); first < 60 || last > first/2 {
		t.Errorf("idle for %d s of the first ten minutes, for %d s of the last", first, last)
	}
}

// TestStarvingBelowTheAggressive: a pool that starves, below one that starves aggressively
// without hope, takes what is its own from those beside it, and does not wait until it starves
// as badly.
func TestStarvingBelowTheAggressive(t *testing.T) {
	tree := options{"fair_share_starvation_timeout": "5s", "fair_share_aggressive_starvation_timeout": "10s", "enable_aggressive_starvation": true, "preemptive_scheduling_backoff": "1s"}
	late := options{"fair_share_aggressive_starvation_timeout": "1h"}
	d := newDrive(t, tree, map[scheduling.PoolName]pool{
		"safe": {options: options{"allow_normal_preemption": false, "allow_aggressive_preemption": false, "min_run_time": "24h"}},
		"top":  {}, "in": {parent: "top", options: late}, "beside": {parent: "top", options: late},
	})
	d.node("n", 16)
	d.wants("safe", "safe", 10, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wants("beside", "beside", 16, slotsOf(1), nil)
	d.pass(time.Minute, time.Second, "n")
	d.wantRuns(runs{"safe": 10, "beside": 6})
	if got := d.hungerOf("top").Starvation; got != preemption.AggressivelyStarving {
		t.Fatalf("the pool above is %v", got)
	}
	d.wants("in", "in", 16, slotsOf(1), nil)
	d.pass(time.Minute, time.Second, "n")
	d.wantRuns(runs{"safe": 10, "beside": 4, "in": 2})
}

// TestLargeJobsFindRoomBesideTheirOwn: small jobs of a pool beside it have all that is theirs
// together, spread over the nodes; a job as large as a node finds room on one all the same, as
// these give back what is not their own.
func TestLargeJobsFindRoomBesideTheirOwn(t *testing.T) {
	tree := soon(options{"enable_aggressive_starvation": true, "fair_share_aggressive_starvation_timeout": "10s"})
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {}, "top": {}, "small": {parent: "top"}, "large": {parent: "top", options: options{"weight": 4.0}}})
	nodes := []scheduling.NodeID{"n1", "n2", "n3", "n4"}
	for _, n := range nodes {
		d.node(n, 8)
	}
	d.wants("small", "small", 100, slotsOf(1), nil)
	d.wants("a", "a", 100, slotsOf(1), nil)
	d.pass(time.Second, time.Second, nodes...)
	d.wantRuns(runs{"small": 16, "a": 16})
	d.wants("large", "large", 4, slotsOf(8), nil)
	d.pass(5*time.Minute, time.Second, nodes...)
	if got := d.runs()["large"]; got == 0 {
		t.Errorf("no large job runs; %v", d.runs())
	}
}
