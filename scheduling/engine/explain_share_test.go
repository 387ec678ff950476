package engine_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
)

// TestExplainShare checks what bounds a share.
func TestExplainShare(t *testing.T) {
	tests := map[string]struct {
		pools map[scheduling.PoolName]pool
		want  string
		check func(t *testing.T, s explain.ShareExplanation)
	}{
		"by demand":  {map[scheduling.PoolName]pool{"a": {options: options{"weight": 100.0}}, "b": {}}, explain.FactBoundDemand, nil},
		"by a limit": {map[scheduling.PoolName]pool{"a": {options: options{"resource_limits": options{"cpu": 1.0}}}, "b": {}}, explain.FactBoundLimit, nil},
		"by weight": {map[scheduling.PoolName]pool{"a": {options: options{"weight": 1.0}}, "b": {options: options{"weight": 3.0}}}, explain.FactBoundWeight,
			func(t *testing.T, s explain.ShareExplanation) {
				if s.Weight != 1 || s.Weights != 4 || s.Fair != 0.25 || s.Proportional != 0.25 {
					t.Errorf("share %+v", s)
				}
			}},
		"by its guarantee": {map[scheduling.PoolName]pool{
			"a": {options: options{"strong_guarantee_resources": options{"cpu": 2.0, "user_slots": 2.0}}}, "b": {options: options{"strong_guarantee_resources": options{"cpu": 6.0, "user_slots": 6.0}}},
		}, explain.FactBoundGuarantee, func(t *testing.T, s explain.ShareExplanation) {
			if s.Strong != 0.25 {
				t.Errorf("share %+v", s)
			}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, nil, test.pools)
			d.node("n1", 8)
			d.wants("op", "a", 4, slotsOf(1), nil)
			d.wants("other", "b", 20, slotsOf(1), nil)
			d.pass(2*time.Second, time.Second, "n1")
			x, err := d.ExplainPool("a", d.now)
			must(t, err)
			if x.Share.Bound != test.want || x.Verdict != explain.FactShare {
				t.Fatalf("bound by %s, verdict %s; %+v", x.Share.Bound, x.Verdict, x.Facts)
			}
			if test.check != nil {
				test.check(t, x.Share)
			}
		})
	}
}

// TestExplainStart has jobs end at a steady rate: the estimate follows from it.
func TestExplainStart(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n1", 4)
	d.wants("first", "a", 100, slotsOf(1), nil)
	d.wants("op", "b", 100, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n1")
	if x, err := d.Explain("op", d.now); err != nil || !x.Start.IsZero() {
		t.Fatalf("an estimate without any job that ended: %v, %v", x.Start, err)
	}
	for range 60 {
		oldest := slices.MinFunc(slices.Collect(maps.Values(d.running)), func(a, b engine.Allocation) int {
			return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Job, b.Job))
		})
		d.end(oldest.Job)
		d.beat("n1")
		d.pass(2*time.Second, 2*time.Second, "n1")
	}
	x, err := d.Explain("op", d.now)
	must(t, err)
	if wait := x.Start.Sub(d.now); x.Position < 1 || wait > 4*time.Second || x.Earliest.After(x.Start) || x.Latest.Before(x.Start) {
		t.Errorf("a job of the operation at place %d starts in %v, from %v to %v; one of its own ends every 4 s", x.Position, wait, x.Earliest, x.Latest)
	}
}

// TestExplainJobThatIsKilled has jobs told to end that get no time to do so: their
// operation ends, or their order has none.
func TestExplainJobThatIsKilled(t *testing.T) {
	for name, order := range map[string]engine.LeaveOrder{
		"with its operation": {},
		"by an order":        {Ordered: begin, Deadline: begin},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}})
			d.node("n1", 4)
			d.wants("op", "a", 1, slotsOf(1), nil)
			must(t, d.AddAllocation(engine.Allocation{Job: "j", Operation: "op", Task: "t", Node: "n1", Resources: slotsOf(1), Started: begin}))
			must(t, d.Leave("j", order))
			x, err := d.ExplainJob("j")
			must(t, err)
			if f := fact(t, x, explain.FactLeaving); f.Text != "it has been told to end at once" {
				t.Errorf("got %q", f.Text)
			}
		})
	}
}

func TestExplainWhatIsUnknown(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}})
	if _, err := d.Explain("none", d.now); err == nil {
		t.Error("an operation that is not there was explained")
	}
	if _, err := d.ExplainPool("none", d.now); err == nil {
		t.Error("a pool that is not there was explained")
	}
	if _, err := d.ExplainJob("none"); err == nil {
		t.Error("a job that is not there was explained")
	}
}
