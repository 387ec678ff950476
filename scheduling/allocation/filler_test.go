package allocation_test

import (
	"fmt"
	"slices"
	"testing"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// total makes a slot a share of 0.1.
var total = resource.Amounts{UserSlots: 10, Memory: 100}

func slots(n int64) resource.Amounts { return resource.Amounts{UserSlots: n} }

// operation attaches an operation with one task of this many one-slot jobs and
// this fair share of slots.
func operation(pool *allocation.Element, id string, rank int64, fair float64, pending int64) *allocation.Element {
	op := allocation.NewOperation(id, rank)
	op.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "t"}, Pending: pending, PerJob: slots(1)})
	op.Attach(pool)
	share(op, fair)
	return op
}

func share(e *allocation.Element, fair float64) {
	e.SetShares(resource.Vector{fair}, resource.Vector{1}, total, allocation.Kinds{})
}

// fill returns the starts as "operation/task" in order.
func fill(root *allocation.Element, free resource.Amounts, limit int) ([]string, allocation.Outcome) {
	var f allocation.Filler
	var starts []string
	outcome := f.Fill(root, allocation.Node{Free: free}, limit, func(op *allocation.Element, task allocation.Task) {
		starts = append(starts, fmt.Sprintf("%s/%s", op.ID(), task.Name))
	})
	return starts, outcome
}

func TestFill(t *testing.T) {
	cases := map[string]struct {
		build       func(root *allocation.Element)
		free        resource.Amounts
		limit       int
		want        []string
		wantRefused [resource.Count]int
	}{
		"nothing to do": {func(*allocation.Element) {}, slots(4), 9, nil, [5]int{}},
		"the longest waiting first, then the least satisfied": {func(root *allocation.Element) {
			operation(root, "a", 2, .5, 9)
			operation(root, "b", 1, .5, 9)
		}, slots(3), 9, []string{"b/t", "a/t", "b/t"}, [5]int{1}},
		"equal in all go by id": {func(root *allocation.Element) {
			operation(root, "b", 1, .5, 9)
			operation(root, "a", 1, .5, 9)
		}, slots(1), 9, []string{"a/t"}, [5]int{1}},
		"in proportion to fair shares": {func(root *allocation.Element) {
			operation(root, "a", 1, .2, 9)
			operation(root, "b", 2, .4, 9)
		}, slots(6), 9, []string{"a/t", "b/t", "b/t", "a/t", "b/t", "b/t"}, [5]int{1}},
		"a pool with operations is put below another": {func(root *allocation.Element) {
			p := allocation.NewPool("p")
			operation(p, "a", 1, .5, 9)
			p.Attach(root)
			share(p, .5)
			operation(root, "b", 2, .5, 9).AddUsage(slots(1))
		}, slots(1), 9, []string{"a/t"}, [5]int{1}},
		"the limit of starts": {func(root *allocation.Element) { operation(root, "a", 1, .5, 9) },
			slots(4), 2, []string{"a/t", "a/t"}, [5]int{}},
		"no more than is pending": {func(root *allocation.Element) { operation(root, "a", 1, .5, 2) },
			slots(4), 9, []string{"a/t", "a/t"}, [5]int{}},
		"what does not fit is passed over": {func(root *allocation.Element) {
			big := operation(root, "a", 1, .5, 0)
			big.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "big"}, Pending: 1, PerJob: resource.Amounts{UserSlots: 1, Memory: 50}})
			operation(root, "b", 2, .5, 1)
		}, slots(4), 9, []string{"b/t"}, [5]int{3: 1}},
		"of the tasks the first by name that fits": {func(root *allocation.Element) {
			op := operation(root, "a", 1, .5, 1)
			op.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "s"}, Pending: 1, PerJob: slots(3)})
			op.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "r"}, Pending: 1, PerJob: slots(2)})
		}, slots(3), 9, []string{"a/r", "a/t"}, [5]int{1}},
		"each task lacks another thing": {func(root *allocation.Element) {
			op := operation(root, "a", 1, .5, 0)
			op.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "m"}, Pending: 1, PerJob: resource.Amounts{UserSlots: 1, Memory: 50}})
			op.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "s"}, Pending: 1, PerJob: slots(5)})
		}, slots(4), 9, nil, [5]int{3: 1}},
		"a disabled operation": {func(root *allocation.Element) { operation(root, "a", 1, .5, 9).SetEnabled(false) },
			slots(4), 9, nil, [5]int{}},
		"a detached operation": {func(root *allocation.Element) { operation(root, "a", 1, .5, 9).Detach() },
			slots(4), 9, nil, [5]int{}},
		"no fair share goes last": {func(root *allocation.Element) {
			operation(root, "a", 1, 0, 9)
			operation(root, "b", 2, .1, 2)
		}, slots(3), 9, []string{"b/t", "b/t", "a/t"}, [5]int{1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := allocation.NewPool("root")
			tc.build(root)
			got, outcome := fill(root, tc.free, tc.limit)
			if !slices.Equal(got, tc.want) {
				t.Errorf("starts %v, want %v", got, tc.want)
			}
			want := allocation.Outcome{Starts: len(tc.want), Refused: tc.wantRefused}
			for _, n := range tc.wantRefused {
				want.Left[allocation.Lacking] += n
			}
			if outcome != want {
				t.Errorf("outcome %+v, want %+v", outcome, want)
			}
		})
	}
}

// TestWhatIsPassedOverIsNotForgotten fills a small node and then a large one.
func TestWhatIsPassedOverIsNotForgotten(t *testing.T) {
	root, p := allocation.NewPool("root"), allocation.NewPool("p")
	p.Attach(root)
	big := operation(p, "big", 1, .5, 0)
	big.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "t"}, Pending: 2, PerJob: slots(3)})
	operation(p, "last", 2, .5, 1)
	if got, _ := fill(root, slots(2), 9); !slices.Equal(got, []string{"last/t"}) {
		t.Fatalf("the small node starts %v", got)
	}
	if got, _ := fill(root, slots(8), 9); !slices.Equal(got, []string{"big/t", "big/t"}) {
		t.Fatalf("the large node starts %v", got)
	}
	if got := root.Usage(); got != slots(7) {
		t.Errorf("usage %v, want %v", got, slots(7))
	}
}

// TestRefresh counts how far a node is looked at in vain: while the small job is
// remembered, at both operations; after that at the root alone.
func TestRefresh(t *testing.T) {
	root, p, q := allocation.NewPool("root"), allocation.NewPool("p"), allocation.NewPool("q")
	p.Attach(root)
	q.Attach(p)
	for _, id := range []string{"a", "b"} {
		big := operation(q, id, 1, .5, 0)
		big.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "t"}, Pending: 2, PerJob: slots(3)})
	}
	operation(q, "small", 0, .5, 1)
	if got, _ := fill(root, slots(1), 9); !slices.Equal(got, []string{"small/t"}) {
		t.Fatalf("starts %v, want the small one", got)
	}
	if _, outcome := fill(root, slots(1), 9); outcome.Refused[resource.UserSlots] != 2 {
		t.Errorf("refused %v, want both operations", outcome.Refused)
	}
	root.Refresh()
	if _, outcome := fill(root, slots(1), 9); outcome.Refused[resource.UserSlots] != 1 {
		t.Errorf("refused %v, want the root", outcome.Refused)
	}
}

// TestLimits: what an operation and each pool above use stays within the limits, and
// a pool that has none left is looked at once.
func TestLimits(t *testing.T) {
	limit := func(n int64) resource.Amounts { return resource.Infinite.With(resource.UserSlots, n) }
	cases := map[string]struct {
		root, pool, a resource.Amounts
		want          []string
		wantLimited   int
	}{
		"no limits":        {resource.Infinite, resource.Infinite, resource.Infinite, []string{"a/t", "b/t", "a/t", "b/t"}, 0},
		"of the operation": {resource.Infinite, resource.Infinite, limit(1), []string{"a/t", "b/t", "b/t", "b/t"}, 1},
		"of its pool":      {resource.Infinite, limit(3), resource.Infinite, []string{"a/t", "b/t", "a/t"}, 1},
		"of the root":      {limit(2), resource.Infinite, resource.Infinite, []string{"a/t", "b/t"}, 1},
		"of nothing":       {resource.Infinite, resource.Infinite, limit(0), []string{"b/t", "b/t", "b/t", "b/t"}, 1},
		"below the usage":  {resource.Infinite, limit(-1), resource.Infinite, nil, 1},
		"of what no job needs, and it is exceeded": {resource.Infinite, resource.Infinite.With(resource.GPU, -1), resource.Infinite, nil, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root, p := allocation.NewPool("root"), allocation.NewPool("p")
			p.Attach(root)
			a := operation(p, "a", 1, .5, 4)
			operation(p, "b", 2, .5, 4)
			root.SetLimits(tc.root)
			p.SetLimits(tc.pool)
			a.SetLimits(tc.a)
			got, outcome := fill(root, slots(4), 4)
			if !slices.Equal(got, tc.want) || outcome.Left[allocation.Limited] != tc.wantLimited || outcome.Refused != [resource.Count]int{} {
				t.Errorf("starts %v, outcome %+v; want %v, %d limited", got, outcome, tc.want, tc.wantLimited)
			}
			got, _ = fill(root, slots(9), 9)
			if over := root.Usage(); !over.Fits(tc.root) && over.UserSlots > 0 {
				t.Errorf("the root uses %v after %v", over, got)
			}
		})
	}
}

// TestFilters: an operation uses nodes that have the tags for it and for all pools
// above.
func TestFilters(t *testing.T) {
	for name, tc := range map[string]struct {
		takes         []bool
		want          []string
		wantUnmatched int
	}{
		"both":                  {[]bool{true, true}, []string{"a/t", "b/t"}, 0},
		"not for the pool":      {[]bool{false, true}, []string{"b/t", "b/t"}, 1},
		"not for the operation": {[]bool{true, false}, []string{"b/t", "b/t"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			root, p := allocation.NewPool("root"), allocation.NewPool("p")
			p.Attach(root)
			share(p, .5)
			a := operation(p, "a", 1, .5, 9)
			operation(root, "b", 2, .5, 9)
			p.SetFilter(0)
			a.SetFilter(1)
			var f allocation.Filler
			var got []string
			outcome := f.Fill(root, allocation.Node{Free: slots(2), Takes: tc.takes}, 2, func(op *allocation.Element, task allocation.Task) {
				got = append(got, op.ID()+"/"+string(task.Name))
			})
			if !slices.Equal(got, tc.want) || outcome.Left[allocation.Unmatched] != tc.wantUnmatched {
				t.Errorf("starts %v, %d unmatched; want %v, %d", got, outcome.Left[allocation.Unmatched], tc.want, tc.wantUnmatched)
			}
		})
	}
}
