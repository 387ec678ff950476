package allocation_test

import (
	"slices"
	"testing"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// pool attaches a pool with this fair share of slots.
func pool(above *allocation.Element, id string, fair float64) *allocation.Element {
	p := allocation.NewPool(id)
	p.Attach(above)
	share(p, fair)
	return p
}

var byOperations = allocation.Order{ByOperations: true}

// TestRounding: fair shares of 0.15 and 0.35 of ten slots are 1.5 and 3.5 jobs. The part of
// the next job that counts as used decides who has a half more, and who is due one.
func TestRounding(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b   float64
		want   []string
		aIsDue bool
	}{
		"none favours the small one":  {0, 0, []string{"a/t", "b/t", "b/t", "b/t", "a/t"}, true},
		"all favours the large one":   {1, 1, []string{"b/t", "b/t", "a/t", "b/t", "b/t"}, false},
		"the small one is rounded up": {0, .5, []string{"a/t", "b/t", "b/t", "a/t", "b/t"}, true},
		"the large one is rounded up": {1, 0, []string{"b/t", "b/t", "b/t", "a/t", "b/t"}, false},
		"less than a half is due":     {.4, .5, []string{"b/t", "a/t", "b/t", "b/t", "a/t"}, true},
		"more than a half is not":     {.6, .5, []string{"b/t", "a/t", "b/t", "b/t", "b/t"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := allocation.NewPool("root")
			a, b := operation(root, "a", 1, .15, 9), operation(root, "b", 2, .35, 9)
			a.SetDebt(allocation.Debt{Rounding: tc.a})
			b.SetDebt(allocation.Debt{Rounding: tc.b})
			if got, _ := fill(root, slots(5), 9); !slices.Equal(got, tc.want) {
				t.Errorf("starts %v, want %v", got, tc.want)
			}
			a.AddUsage(slots(1).Sub(a.Usage()))
			if got := a.Due(resource.Amounts{}, slots(1)); got != tc.aIsDue {
				t.Errorf("a second job is due: %v", got)
			}
			if a.Due(slots(1), slots(1)) {
				t.Error("a third job is due")
			}
		})
	}
}

// TestRoundingIsNoUsage: it moves the turn, and neither the satisfaction nor the usage.
func TestRoundingIsNoUsage(t *testing.T) {
	root := allocation.NewPool("root")
	a := operation(root, "a", 1, .2, 9)
	a.AddUsage(slots(1))
	before := a.Satisfaction()
	a.SetDebt(allocation.Debt{Rounding: 1})
	if got := a.Satisfaction(); got != before || a.Usage() != slots(1) {
		t.Errorf("satisfaction %v, was %v; usage %v", got, before, a.Usage())
	}
	none := operation(root, "b", 2, .2, 1)
	none.AddPending(allocation.TaskID{Name: "t"}, -1)
	if none.SetDebt(allocation.Debt{Rounding: 1}); none.Next() != resource.Infinite || none.Satisfaction() != 0 {
		t.Errorf("without jobs: satisfaction %v", none.Satisfaction())
	}
}

// TestReserve: who is passed over because too little is free may keep that from those that
// come after it, and not from those before; others are not asked.
func TestReserve(t *testing.T) {
	type asked = []string
	keep := func(ids ...string) func(string) bool { return func(id string) bool { return slices.Contains(ids, id) } }
	for name, tc := range map[string]struct {
		build     func(root *allocation.Element)
		free      int64
		keep      func(id string) bool
		want      []string
		wantAsked asked
	}{
		"nothing is kept": {nil, 2, keep(), []string{"small/t", "small/t"}, asked{"large"}},
		"all is kept":     {nil, 2, keep("large"), nil, asked{"large"}},
		"what comes before may start": {func(root *allocation.Element) {
			operation(root, "first", 0, .5, 1)
		}, 2, keep("large"), []string{"first/t"}, asked{"large"}},
		"it fits": {nil, 4, keep("large"), []string{"large/t", "small/t"}, nil},
		"limits are not what is kept for": {func(root *allocation.Element) {
			operation(root, "limited", 0, .5, 1).SetLimits(slots(0))
		}, 2, keep("limited"), []string{"small/t", "small/t"}, asked{"large"}},
		"nor is another node": {func(root *allocation.Element) {
			operation(root, "elsewhere", 0, .5, 1).SetFilter(0)
		}, 2, keep("elsewhere"), []string{"small/t", "small/t"}, asked{"large"}},
		"of a pool the first operation is asked": {func(root *allocation.Element) {
			p := pool(root, "p", .9)
			for i, id := range []string{"p1", "p2"} {
				op := operation(p, id, int64(i), .5, 0)
				op.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "t"}, Pending: 1, PerJob: slots(3)})
			}
		}, 2, keep("p1"), nil, asked{"p1"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := allocation.NewPool("root")
			large := operation(root, "large", 1, .5, 0)
			large.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "t"}, Pending: 1, PerJob: slots(3)})
			operation(root, "small", 2, .5, 9)
			if tc.build != nil {
				tc.build(root)
			}
			var got, gotAsked []string
			on := allocation.Node{Free: slots(tc.free), Takes: []bool{false}, Reserve: func(op *allocation.Element) bool {
				gotAsked = append(gotAsked, op.ID())
				return tc.keep(op.ID())
			}}
			var f allocation.Filler
			f.Fill(root, on, 2, func(op *allocation.Element, task allocation.Task) { got = append(got, op.ID()+"/"+string(task.Name)) })
			if !slices.Equal(got, tc.want) || !slices.Equal(gotAsked, tc.wantAsked) {
				t.Errorf("starts %v, asked %v; want %v, %v", got, gotAsked, tc.want, tc.wantAsked)
			}
		})
	}
}

// nested is a tree of operations at different depths: a and b in p/r, c in p, d in q, e
// below the root.
func nested() (root *allocation.Element, ops map[string]*allocation.Element) {
	root = allocation.NewPool("root")
	p, q := pool(root, "p", .4), pool(root, "q", .4)
	r := pool(p, "r", .2)
	ops = map[string]*allocation.Element{
		"a": operation(r, "a", 1, .1, 2), "b": operation(r, "b", 2, .1, 2), "c": operation(p, "c", 3, .2, 2),
		"d": operation(q, "d", 4, .4, 2), "e": operation(root, "e", 5, .2, 2),
	}
	return root, ops
}

// TestBefore compares operations at different depths by the siblings on their ways.
func TestBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		set  func(ops map[string]*allocation.Element)
		want []string
	}{
		// Equal pools and operations are in the order of rank and id; pools have none.
		"all are equal":              {nil, []string{"a", "b", "c", "d", "e"}},
		"a pool uses some":           {func(ops map[string]*allocation.Element) { ops["a"].AddUsage(slots(1)) }, []string{"d", "e", "c", "b", "a"}},
		"the deep one is far below":  {func(ops map[string]*allocation.Element) { ops["c"].AddUsage(slots(1)) }, []string{"d", "e", "a", "b", "c"}},
		"those outside the pool use": {func(ops map[string]*allocation.Element) { ops["d"].AddUsage(slots(1)); ops["e"].AddUsage(slots(1)) }, []string{"a", "b", "c", "d", "e"}},
		"what is promised is first": {func(ops map[string]*allocation.Element) {
			ops["b"].AddUsage(slots(1))
			ops["b"].SetPromised(resource.Vector{.2})
		}, []string{"b", "a", "c", "d", "e"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, ops := nested()
			if tc.set != nil {
				tc.set(ops)
			}
			for i, x := range tc.want {
				for j, y := range tc.want {
					if i != j && ops[x].Before(ops[y]) != (i < j) {
						t.Errorf("%s is before %s: %v, want %v", x, y, i >= j, i < j)
					}
				}
			}
		})
	}
}

// TestOrder: each operation comes once, as if those before had started a job each; nothing
// changes by it.
func TestOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		set  func(root *allocation.Element, ops map[string]*allocation.Element)
		want []string
	}{
		"pools take turns":                   {nil, []string{"a", "d", "e", "c", "b"}},
		"one that has nothing to start":      {func(_ *allocation.Element, ops map[string]*allocation.Element) { ops["d"].SetEnabled(false) }, []string{"a", "e", "c", "b"}},
		"the least satisfied first":          {func(_ *allocation.Element, ops map[string]*allocation.Element) { ops["a"].AddUsage(slots(2)) }, []string{"d", "e", "c", "b", "a"}},
		"the lowest rank of equals is first": {func(_ *allocation.Element, ops map[string]*allocation.Element) { ops["e"].SetRank(-1) }, []string{"e", "a", "d", "c", "b"}},
		"a pool that goes by its operations": {func(root *allocation.Element, ops map[string]*allocation.Element) {
			for _, id := range []string{"a", "b", "c"} {
				ops[id].Detach()
			}
			p := pool(root, "o", .4)
			p.SetOrder(byOperations)
			for _, id := range []string{"a", "b", "c"} {
				ops[id].Attach(p)
			}
			ops["d"].AddUsage(slots(1))
			ops["e"].AddUsage(slots(1))
		}, []string{"a", "b", "c", "d", "e"}},
	} {
		t.Run(name, func(t *testing.T) {
			root, ops := nested()
			if tc.set != nil {
				tc.set(root, ops)
			}
			used := root.Usage()
			var f allocation.Filler
			for range 2 {
				var got []string
				for op := range f.Order(root) {
					got = append(got, op.ID())
				}
				if !slices.Equal(got, tc.want) || root.Usage() != used {
					t.Errorf("order %v, want %v; usage %v, was %v", got, tc.want, root.Usage(), used)
				}
			}
			for op := range f.Order(root) {
				if op.ID() != tc.want[0] {
					t.Errorf("first is %s, want %s", op.ID(), tc.want[0])
				}
				break
			}
			if got := root.Waiting(); got != len(tc.want) || root.Usage() != used {
				t.Errorf("%d wait after a look at the first, want %d; usage %v", got, len(tc.want), root.Usage())
			}
		})
	}
}

// TestWhoIsFirstFarBelow: what is promised to a pool holds its small job and not its large one, and
// the small one may not use the node. It makes no difference whether there is a pool between.
func TestWhoIsFirstFarBelow(t *testing.T) {
	for name, between := range map[string]bool{"right below": false, "two levels below": true} {
		t.Run(name, func(t *testing.T) {
			root := allocation.NewPool("root")
			p, r := pool(root, "p", .5), pool(root, "r", .5)
			at := p
			if between {
				at = pool(p, "q", .5)
			}
			small := operation(at, "b", 1, .5, 9)
			small.SetFilter(0)
			large := operation(at, "a", 2, .5, 0)
			large.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "t"}, Pending: 9, PerJob: slots(2)})
			large.AddUsage(slots(4))
			operation(r, "c", 3, .5, 9)
			p.SetPromised(resource.Vector{.5})
			var filler allocation.Filler
			var first string
			filler.Fill(root, allocation.Node{Free: slots(4), Takes: []bool{false}}, 1, func(op *allocation.Element, _ allocation.Task) { first = op.ID() })
			if first != "c" {
				t.Errorf("a job of %q starts, want c", first)
			}
		})
	}
}
