package engine_test

import (
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

// fifoStarving are the options of a FIFO pool that starves soon.
var fifoStarving = options{"mode": "fifo", "fair_share_starvation_timeout": "2s"}

// fillsUp has an operation of pool a take node n1, and then operations of pool b wait: those in
// more, and then op.
func fillsUp(d *drive, more ...string) {
	d.takes = time.Hour
	d.node("n1", 4)
	d.wants("greedy", "a", 9, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n1")
	for _, id := range more {
		d.wants(scheduling.OperationID(id), "b", 1200, slotsOf(1), nil)
	}
	d.wants("op", "b", 5, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n1")
}

// factSays checks that the first fact has this text in it, and no share that is rounded to nothing.
func factSays(text string) func(t *testing.T, d *drive, x explain.Explanation) {
	return func(t *testing.T, _ *drive, x explain.Explanation) {
		t.Helper()
		if !strings.Contains(x.Facts[0].Text, text) {
			t.Errorf("got %q, want %q in it", x.Facts[0].Text, text)
		}
		if strings.Contains(x.Facts[0].Text, "0.0%") {
			t.Errorf("got %q", x.Facts[0].Text)
		}
	}
}

// TestExplainWhoIsBehind has operations that come after others in a FIFO pool.
func TestExplainWhoIsBehind(t *testing.T) {
	explainAll(t, map[string]situation{
		"second in a FIFO pool that starves": {
			pools: map[scheduling.PoolName]pool{"a": {}, "b": {options: fifoStarving}},
			setup: func(d *drive) { fillsUp(d, "first") },
			want:  explain.FactFIFO,
			check: func(t *testing.T, d *drive, x explain.Explanation) {
				factSays("2nd in FIFO order of pool \"b\": 1,200 jobs of operation first are before it")(t, d, x)
				if f := x.Facts[0]; f.Count != 1200 || f.Of != 1 || f.Operation != "first" || f.Pool != "b" {
					t.Errorf("fact %+v", f)
				}
				// Jobs leave for the pool, and those before it take all that it lacks.
				if f := fact(t, x, explain.FactNoEstimate); !strings.Contains(f.Text, "operations before this one take all of it") || len(x.Victims) > 0 || !x.Start.IsZero() {
					t.Errorf("victims %v, start %v; %s", x.Victims, x.Start, textOf(x))
				}
				if x.Share.Bound != explain.FactBoundFIFO {
					t.Errorf("share %+v", x.Share)
				}
			},
		},
		"third in a FIFO pool": {
			pools: map[scheduling.PoolName]pool{"a": {}, "b": {options: fifoStarving}},
			setup: func(d *drive) { fillsUp(d, "first", "second") },
			want:  explain.FactFIFO,
			check: factSays("3rd in FIFO order of pool \"b\": 2,400 jobs of 2 operations are before it, first those of operation first"),
		},
		"second in a FIFO pool, and the first has no more to start": {
			pools: map[scheduling.PoolName]pool{"a": {}, "b": {options: fifoStarving}},
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("first", "b", 4, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("op", "b", 5, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
			},
			want:  explain.FactFIFO,
			check: factSays("2nd in FIFO order of pool \"b\": those before it have 4 running jobs and no more jobs to start"),
		},
		"second in a FIFO pool, and the first has little to start": {
			tree:  options{"allocation_preemption_timeout": "15s"},
			pools: map[scheduling.PoolName]pool{"a": {}, "b": {options: fifoStarving}},
			setup: func(d *drive) {
				d.takes = time.Hour
				d.node("n1", 8)
				d.wants("greedy", "a", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("first", "b", 1, slotsOf(1), nil)
				d.wants("op", "b", 5, slotsOf(1), nil)
				d.tick(time.Second)
			},
			// Both are owed something, one after the other.
			want: explain.FactLacking,
			check: func(t *testing.T, d *drive, x explain.Explanation) {
				if x.StartBy != explain.ByPreemption || len(x.Victims) != 1 {
					t.Fatalf("it starts %s; %s", x.StartBy, textOf(x))
				}
				// The pool starves after 2 s, and the one before it has the first turn on the node.
				if in := x.Start.Sub(d.now); in != 22*time.Second {
					t.Errorf("it starts in %v, want the timeout, one backoff, and the time to leave: 22 s; %s", in, textOf(x))
				}
				if late := d.started("n1").Sub(x.Start); late < -time.Second || late > 4*time.Second {
					t.Errorf("a job started %v after the time that was foretold", late)
				}
			},
		},
	})
}

// TestExplainWhichPoolIsBehind has pools within FIFO pools.
func TestExplainWhichPoolIsBehind(t *testing.T) {
	explainAll(t, map[string]situation{
		"behind a pool in a FIFO pool": {
			pools: map[scheduling.PoolName]pool{"a": {}, "b": {options: fifoStarving}, "c": {parent: "b"}},
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("first", "c", 24, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("op", "b", 5, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
			},
			want:  explain.FactFIFO,
			check: factSays("2nd in FIFO order of pool \"b\": 20 jobs of operation first are before it"),
		},
		"in the second pool of a FIFO pool": {
			pools: map[scheduling.PoolName]pool{"b": {options: fifoStarving}, "c": {parent: "b", options: options{"weight": 2.0}}, "d": {parent: "b"}},
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("first", "c", 24, slotsOf(1), nil)
				d.wants("op", "d", 5, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
			},
			want:  explain.FactFIFO,
			check: factSays("pool \"d\" is the 2nd in FIFO pool \"b\": those ahead of it first get all that they can use"),
		},
	})
}

// TestExplainNoShare has operations that get only what all others leave.
func TestExplainNoShare(t *testing.T) {
	explainAll(t, map[string]situation{
		"a pool of weight 0": {
			pools: map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"weight": 0.0}}},
			setup: func(d *drive) { fillsUp(d) },
			want:  explain.FactNoShare,
			check: factSays("pool \"b\" has weight 0, so it gets only what all others leave"),
		},
		"guarantees take all": {
			pools: map[scheduling.PoolName]pool{"a": {options: options{"strong_guarantee_resources": options{"cpu": 4.0, "user_slots": 4.0}}}, "b": {}},
			setup: func(d *drive) { fillsUp(d) },
			want:  explain.FactNoShare,
			check: factSays("guarantees of others take all that pool \"<Root>\" has"),
		},
	})
}

// TestExplainNoEndIsEnough has operations with jobs too large for what the end of any other frees.
func TestExplainNoEndIsEnough(t *testing.T) {
	explainAll(t, map[string]situation{
		"a job is larger than all that end": {
			tree:  options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"},
			pools: map[scheduling.PoolName]pool{"a": {}, "b": {}},
			setup: func(d *drive) {
				d.node("n1", 8)
				d.wants("small", "a", 100, slotsOf(1), nil)
				for range 20 {
					d.pass(time.Second, time.Second, "n1")
					d.kill("small", 1)
				}
				d.wants("op", "b", 2, slotsOf(4), nil)
				d.tick(time.Second)
			},
			want: explain.FactLacking,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if x.StartBy == explain.ByEnds || x.Position != 1 {
					t.Errorf("it starts %s, at place %d; %s", x.StartBy, x.Position, textOf(x))
				}
			},
		},
		"a job is larger than all that end, and slots lack too": {
			tree:  options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"},
			pools: map[scheduling.PoolName]pool{"a": {}, "b": {}},
			setup: func(d *drive) {
				d.node("n1", 8)
				d.wants("small", "a", 100, slotsOf(1), nil)
				for range 20 {
					d.pass(time.Second, time.Second, "n1")
					d.kill("small", 1)
				}
				d.wants("op", "b", 2, resource.Amounts{UserSlots: 1, CPU: 400}, nil)
				d.tick(time.Second)
			},
			want: explain.FactLacking,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if x.StartBy == explain.ByEnds || x.Position != 1 {
					t.Errorf("it starts %s, at place %d; %s", x.StartBy, x.Position, textOf(x))
				}
			},
		},
	})
}
