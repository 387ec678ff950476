package allocation_test

import (
	"slices"
	"testing"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// TestHighFirst: an operation below its promise comes before others, and its pool with it,
// until it has that.
func TestHighFirst(t *testing.T) {
	root := allocation.NewPool("root")
	p, q := allocation.NewPool("p"), allocation.NewPool("q")
	p.Attach(root)
	q.Attach(root)
	share(p, .3)
	share(q, .3)
	a := operation(p, "a", 1, .3, 9)
	b := operation(q, "b", 2, .3, 9)
	a.AddUsage(slots(2))
	a.SetPromised(resource.Vector{.4})
	if !a.High() || b.High() {
		t.Errorf("a is high: %v, b is: %v", a.High(), b.High())
	}
	got, _ := fill(root, slots(4), 9)
	if want := []string{"a/t", "a/t", "b/t", "b/t"}; !slices.Equal(got, want) {
		t.Errorf("started %v, want %v", got, want)
	}
}

// TestLeavingCountsInLimits: what is leaving is no usage, and leaves no room in limits.
func TestLeavingCountsInLimits(t *testing.T) {
	root := allocation.NewPool("root")
	pool := allocation.NewPool("p")
	op := operation(pool, "a", 1, .5, 9)
	op.AddLeaving(slots(2))
	pool.Attach(root)
	pool.SetLimits(slots(3).Max(resource.Infinite.With(resource.UserSlots, 3)))
	if got, _ := fill(root, slots(9), 9); len(got) != 1 || root.Leaving() != slots(2) || root.Usage() != slots(1) {
		t.Errorf("started %v; %v leaving, %v used", got, root.Leaving(), root.Usage())
	}
	op.SubLeaving(slots(2))
	pool.Detach()
	if !root.Leaving().IsZero() || !root.Usage().IsZero() {
		t.Errorf("%v leaving, %v used", root.Leaving(), root.Usage())
	}
}

// TestFitting is what may start where others are preempted.
func TestFitting(t *testing.T) {
	limits := resource.Infinite.With(resource.UserSlots, 3)
	for name, tc := range map[string]struct {
		set  func(pool, op *allocation.Element)
		free int64
		want bool
	}{
		"it fits":             {func(_, _ *allocation.Element) {}, 1, true},
		"nothing is free":     {func(_, _ *allocation.Element) {}, 0, false},
		"the pool is full":    {func(pool, _ *allocation.Element) { pool.SetLimits(limits) }, 1, false},
		"within a tolerance":  {func(pool, _ *allocation.Element) { pool.SetLimits(limits); pool.SetTolerance(slots(1)) }, 1, true},
		"the tags are others": {func(pool, _ *allocation.Element) { pool.SetFilter(0) }, 1, false},
		"the tags are right":  {func(_, op *allocation.Element) { op.SetFilter(1) }, 1, true},
		"it may not start":    {func(_, op *allocation.Element) { op.SetEnabled(false) }, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			pool := allocation.NewPool("p")
			op := operation(pool, "a", 1, .5, 2)
			op.AddUsage(slots(3))
			tc.set(pool, op)
			task, got := op.Fitting(allocation.Node{Free: slots(tc.free), Takes: []bool{false, true}})
			if got != tc.want || got && task.Name != "t" {
				t.Errorf("task %+v fits: %v, want %v", task, got, tc.want)
			}
			room, by := op.Room(slots(tc.free), slots(1))
			if pooled := room != slots(tc.free); pooled != (by == pool) || by != nil && by != pool {
				t.Errorf("room for %v of %d, for the limits of %v", room, tc.free, by)
			}
		})
	}
}

// TestAdmit: guarded operations are asked, and others are not; who is not admitted is out
// for this node alone.
func TestAdmit(t *testing.T) {
	root := allocation.NewPool("root")
	pool := allocation.NewPool("p")
	pool.Attach(root)
	a := operation(pool, "a", 1, .1, 9)
	operation(pool, "b", 2, .1, 9)
	a.SetGuarded(true)
	asked := 0
	on := allocation.Node{ID: "n", Free: slots(2), At: time.Unix(7, 0), Admit: func(op *allocation.Element, task *allocation.Task, free resource.Amounts) (bool, allocation.Cause) {
		asked++
		if op != a || task.PerJob != slots(1) || free != slots(2) {
			t.Errorf("asked for %s, which needs %v of %v", op.ID(), task.PerJob, free)
		}
		return false, allocation.Unpacked
	}}
	var f allocation.Filler
	outcome := f.Fill(root, on, 9, func(op *allocation.Element, _ allocation.Task) {
		if op == a {
			t.Error("a job starts that was not admitted")
		}
	})
	if asked != 1 || outcome.Starts != 2 || outcome.Left[allocation.Unpacked] != 1 {
		t.Errorf("asked %d times: %+v", asked, outcome)
	}
	noted := a.Facts[allocation.Unpacked]
	if noted.Count != 1 || noted.Last.Node != "n" || !noted.Last.At.Equal(on.At) {
		t.Errorf("noted %+v", noted)
	}
}

// TestMinSpare ends the look when too little is left, and notes it at the root.
func TestMinSpare(t *testing.T) {
	root := allocation.NewPool("root")
	pool := allocation.NewPool("p")
	pool.Attach(root)
	operation(pool, "a", 1, .5, 9)
	var f allocation.Filler
	outcome := f.Fill(root, allocation.Node{Free: slots(5), MinSpare: slots(3)}, 9, func(*allocation.Element, allocation.Task) {})
	if outcome.Starts != 3 || outcome.Refused[resource.UserSlots] != 1 || root.Facts[allocation.Scarce].Count != 1 {
		t.Errorf("%+v, noted %+v", outcome, root.Facts[allocation.Scarce])
	}
}

func TestCausesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for cause := range allocation.CauseCount {
		if name := cause.String(); name == "" || seen[name] {
			t.Errorf("cause %d is called %q", cause, name)
		}
		seen[cause.String()] = true
	}
}
