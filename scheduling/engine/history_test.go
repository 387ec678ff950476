package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
)

// ofKind adds an operation of a kind, with jobs of one slot.
func (c *clockwork) ofKind(id scheduling.OperationID, in scheduling.PoolName, kind string, n int64, length func(*rand.Rand) time.Duration) {
	c.t.Helper()
	c.comes(id, in, n, length)
	op := c.record(id, in, nil)
	op.Kind = kind
	must(c.t, c.SetOperation(op))
}

// leaves removes an operation whose jobs have all ended.
func (c *clockwork) leaves(id scheduling.OperationID) {
	c.t.Helper()
	must(c.t, c.RemoveOperation(id))
	delete(c.pending, id)
	delete(c.needs, id)
}

// behind has an operation of a kind take all slots, a job after the other, and returns what is told of one
// that waits for it.
func (c *clockwork) behind(kind string) explain.Explanation {
	c.t.Helper()
	c.ofKind("new", "p", kind, 4, uniform(100*time.Second, 110*time.Second))
	c.during(2 * time.Second)
	c.comes("op", "p", 1, uniform(time.Second, 2*time.Second))
	c.tick(beatEvery)
	return c.foretold()
}

// TestKindsAreRemembered (X11): of a new operation nothing has ended, but one of its kind has, long ago,
// here or under an earlier leader.
func TestKindsAreRemembered(t *testing.T) {
	fifo := map[scheduling.PoolName]pool{"p": {options: options{"mode": "fifo"}}}
	short := func(c *clockwork) {
		for i := range 6 {
			id := scheduling.OperationID(fmt.Sprint("short", i))
			c.ofKind(id, "p", "short", 8, uniform(5*time.Second, 10*time.Second))
			c.during(30 * time.Second)
			c.leaves(id)
		}
	}
	widths := map[string]time.Duration{}
	for name, test := range map[string]struct {
		before func(c *clockwork)
		kind   string
		known  bool
	}{
		"of another kind": {func(*clockwork) {}, "other", false},
		"seen here": {func(c *clockwork) {
			c.ofKind("old", "p", "long", 8, uniform(100*time.Second, 110*time.Second))
			c.during(5 * time.Minute)
			c.leaves("old")
		}, "long", true},
		"seen by an earlier leader": {func(c *clockwork) {
			c.Remember(engine.Past{ID: "old", Pool: "p", Kind: "long", Started: begin.Add(-time.Hour), Jobs: 3, Needs: slotsOf(1), Weight: 1, Lengths: []float64{100, 104, 108}, Ended: 3})
		}, "long", true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClockwork(t, 1, 1, 4, options{}, fifo)
			test.before(c)
			short(c)
			x := c.behind(test.kind)
			if x.Start.IsZero() {
				t.Fatal("nothing is told")
			}
			in := x.Start.Sub(c.now)
			widths[name] = x.Latest.Sub(x.Earliest)
			if known := in > 70*time.Second && in < 140*time.Second; known != test.known {
				t.Errorf("a job starts in %v, of a range of %v", in, widths[name])
			}
		})
	}
}

// TestRunningOperationsAreRemembered: a new leader knows how long jobs ran of operations that still run.
func TestRunningOperationsAreRemembered(t *testing.T) {
	c := newClockwork(t, 1, 1, 4, options{}, map[scheduling.PoolName]pool{"p": {options: options{"mode": "fifo"}}})
	c.comes("long", "p", 12, uniform(100*time.Second, 110*time.Second))
	c.Remember(engine.Past{ID: "long", Pool: "p", Started: begin, Jobs: 16, Needs: slotsOf(1), Weight: 1, Lengths: []float64{101, 103, 105, 107}, Ended: 4})
	c.during(2 * time.Second)
	c.comes("op", "p", 1, uniform(time.Second, 2*time.Second))
	c.tick(beatEvery)
	x := c.foretold()
	if in := x.Start.Sub(c.now); in < 250*time.Second || in > 350*time.Second {
		t.Errorf("a job starts in %v, want three times as long as a job takes", in)
	}
}

// TestStartsAmongOthersThatComeAreForetold (X11) has operations come to two pools all the time, more than
// there is room for: those of the pool of more weight overtake others.
func TestStartsAmongOthersThatComeAreForetold(t *testing.T) {
	var all []foretelling
	silent := 0
	for seed := range uint64(4) {
		c := newClockwork(t, seed, 2, 4, options{"fair_share_starvation_timeout": "5h", "fair_share_aggressive_starvation_timeout": "10h"}, map[scheduling.PoolName]pool{"light": {}, "heavy": {options: options{"weight": 3.0}}})
		told, n := c.busy(40 * time.Minute)
		all, silent = append(all, told...), silent+n
	}
	measure(t, all, silent, true)
}

// busy has operations come at random and asks about those that wait for their first job. It returns what
// was told of those that started, and how often nothing was.
func (c *clockwork) busy(lasts time.Duration) (all []foretelling, silent int) {
	c.t.Helper()
	open := map[scheduling.OperationID][]foretelling{}
	var there []scheduling.OperationID
	for i, end := 0, c.now.Add(lasts); c.now.Before(end); i++ {
		if c.chance.Float64() < beatEvery.Seconds()/16 {
			id, in := scheduling.OperationID(fmt.Sprint("op", i)), scheduling.PoolName("light")
			if c.chance.IntN(2) == 0 {
				in = "heavy"
			}
			own := 5*time.Second + time.Duration(c.chance.Int64N(int64(40*time.Second)))
			c.comes(id, in, 1+c.chance.Int64N(10), uniform(own*2/3, own*4/3))
			there = append(there, id)
		}
		c.step()
		runs, left := c.runs(), there[:0]
		for _, id := range there {
			switch began := c.began[id]; {
			case began.IsZero() && i%40 == 0:
				x, err := c.Explain(id, c.now)
				must(c.t, err)
				if x.Start.IsZero() {
					silent++
					break
				}
				open[id] = append(open[id], foretelling{asked: c.now, at: x.Start, earliest: x.Earliest, latest: x.Latest})
			case !began.IsZero() && open[id] != nil:
				for _, o := range open[id] {
					o.began = began
					all = append(all, o)
				}
				delete(open, id)
			case !began.IsZero() && c.pending[id] == 0 && runs[id] == 0:
				c.leaves(id)
				continue
			}
			left = append(left, id)
		}
		there = left
	}
	return all, silent
}

// TestProbe: operations that wait are asked about in turn, and not more often than what was told is kept.
func TestProbe(t *testing.T) {
	c := newClockwork(t, 1, 1, 4, options{}, map[scheduling.PoolName]pool{"p": {}})
	if id, ok := c.Probe(); ok {
		t.Errorf("%s is to be asked about, and there is none", id)
	}
	c.comes("runs", "p", 4, uniform(100*time.Second, 110*time.Second))
	c.during(2 * time.Second)
	c.comes("a", "p", 1, uniform(time.Second, 2*time.Second))
	c.comes("b", "p", 1, uniform(time.Second, 2*time.Second))
	c.tick(beatEvery)
	for _, want := range []scheduling.OperationID{"a", "b", "a"} {
		if id, ok := c.Probe(); !ok || id != want {
			t.Errorf("%q is to be asked about, want %q", id, want)
		}
	}
}

// TestToldIsDropped: what was told of an operation is compared with its start only as long as that tells something.
func TestToldIsDropped(t *testing.T) {
	for name, test := range map[string]struct {
		then func(c *clockwork)
		want bool
	}{
		"nothing happens": {func(*clockwork) {}, false},
		"it gets another weight": {func(c *clockwork) {
			op := c.record("op", "p", nil)
			op.Weight = 2
			must(c.t, c.SetOperation(op))
		}, true},
		"it is suspended for some time": {func(c *clockwork) {
			op := c.record("op", "p", nil)
			op.Suspended = true
			must(c.t, c.SetOperation(op))
			must(c.t, c.SetOperation(c.record("op", "p", nil)))
		}, true},
		"it does not start for a day": {func(c *clockwork) {
			c.tick(24 * time.Hour)
			_, err := c.Explain("op", c.now)
			must(c.t, err)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClockwork(t, 1, 1, 4, options{}, map[scheduling.PoolName]pool{"p": {}})
			c.comes("short", "p", 8, uniform(5*time.Second, 10*time.Second))
			c.during(30 * time.Second)
			c.leaves("short")
			c.comes("runs", "p", 4, uniform(1000*time.Hour, 1001*time.Hour))
			c.during(2 * time.Second)
			c.comes("op", "p", 1, uniform(time.Second, 2*time.Second))
			c.tick(beatEvery)
			for range 4 {
				x, err := c.Explain("op", c.now)
				must(t, err)
				if x.StartBy != explain.ByEnds {
					t.Fatalf("a start is told by %q", x.StartBy)
				}
			}
			test.then(c)
			if id, ok := c.Probe(); ok != test.want {
				t.Errorf("%q is to be asked about: %v, want %v", id, ok, test.want)
			}
		})
	}
}
