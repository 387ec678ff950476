package pooltree_test

import (
	"errors"
	"testing"

	"weir/scheduling"
	"weir/scheduling/pooltree"
)

func TestAdmission(t *testing.T) {
	cases := map[string]struct {
		pool      scheduling.PoolName
		immediate map[scheduling.PoolName]pooltree.Count
		wantStart string
		wantRun   string
	}{
		"an idle tree": {pool: "c"},
		"the pool runs as many as it may": {
			pool: "c", immediate: map[scheduling.PoolName]pooltree.Count{"c": {Operations: 8, Running: 8}},
			wantRun: `pool "c": limit of 8 operations reached (option max_running_operation_count), 8 now`,
		},
		"the pool holds as many as it may": {
			pool: "c", immediate: map[scheduling.PoolName]pooltree.Count{"c": {Operations: 50, Running: 7}},
			wantStart: `pool "c": limit of 50 operations reached (option max_operation_count), 50 now`,
		},
		"an ancestor is full of operations of its own and of others below": {
			pool: "c", immediate: map[scheduling.PoolName]pooltree.Count{"a": {Operations: 25, Running: 4}, "b": {Operations: 25, Running: 4}},
			wantStart: `pool "a": limit of 50 operations reached (option max_operation_count), 50 now`,
			wantRun:   `pool "a": limit of 8 operations reached (option max_running_operation_count), 8 now`,
		},
		"a neighbour is full": {pool: "c", immediate: map[scheduling.PoolName]pooltree.Count{"d": {Operations: 50, Running: 8}}},
		"operations below do not count twice at one side": {
			pool: "d", immediate: map[scheduling.PoolName]pooltree.Count{"c": {Operations: 49, Running: 7}, "b": {Operations: 1, Running: 1}},
		},
		"the root": {pool: scheduling.RootPool},
		"a limit that was lowered": {
			pool: "c", immediate: map[scheduling.PoolName]pooltree.Count{"c": {Operations: 50, Running: 9}},
			wantStart: `pool "c": limit of 50 operations reached (option max_operation_count), 50 now`,
			wantRun:   `pool "c": limit of 8 operations reached (option max_running_operation_count), 9 now`,
		},
		"an unknown pool": {pool: "x", wantStart: `pool "x": no such pool`, wantRun: `pool "x": no such pool`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tree := tree(t)
			counts, err := tree.Total(tc.immediate)
			if err != nil {
				t.Fatal(err)
			}
			if got := errorText(tree.AdmitStart(tc.pool, "", counts)); got != tc.wantStart {
				t.Errorf("start: %q, want %q", got, tc.wantStart)
			}
			if got := errorText(tree.AdmitRun(tc.pool, "", counts)); got != tc.wantRun {
				t.Errorf("run: %q, want %q", got, tc.wantRun)
			}
		})
	}
}

// TestHowALimitIsRaised: the command fits a shell, and sets more than there is.
func TestHowALimitIsRaised(t *testing.T) {
	const who = " (operators, and those with the right administer on a pool above)"
	for want, limit := range map[string]pooltree.LimitError{
		"weir pool set ads max_operation_count=100 --tree gpu" + who:             {Pool: "ads", Limit: 50, Now: 50, Option: "max_operation_count"},
		"weir pool set 'hub$ann' max_running_operation_count=9 --tree gpu" + who: {Pool: "hub$ann", Limit: 1, Now: 8, Option: "max_running_operation_count"},
		"weir tree set gpu max_operation_count=1 (operators)":                    {Pool: scheduling.RootPool, Option: "max_operation_count"},
	} {
		if got := limit.Raise("gpu"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestLimitOfTheTree(t *testing.T) {
	tree, err := tree(t).Edit(nil, pooltree.Edit{Options: ptr(pooltree.TreeOptions{MaxOperationCount: ptr[int64](2), MaxRunningOperationCount: ptr[int64](1)})})
	if err != nil {
		t.Fatal(err)
	}
	counts, err := tree.Total(map[scheduling.PoolName]pooltree.Count{"c": {Operations: 1, Running: 1}, "d": {Operations: 1}})
	if err != nil {
		t.Fatal(err)
	}
	err = tree.AdmitStart("c", "", counts)
	var limit *pooltree.LimitError
	if !errors.As(err, &limit) || *limit != (pooltree.LimitError{Pool: scheduling.RootPool, Limit: 2, Now: 2, Option: "max_operation_count"}) {
		t.Errorf("start: %v", err)
	}
	if !errors.Is(err, pooltree.ErrTooManyOperations) {
		t.Errorf("%v is not %v", err, pooltree.ErrTooManyOperations)
	}
	if want := "pool tree: limit of 1 operations reached (option max_running_operation_count of the tree), 1 now"; errorText(tree.AdmitRun("c", "", counts)) != want {
		t.Errorf("run: %v, want %q", tree.AdmitRun("c", "", counts), want)
	}
}

func TestCountsAreTakenBack(t *testing.T) {
	tree := tree(t)
	counts := pooltree.Counts{}
	for _, one := range []pooltree.Count{{Operations: 1, Running: 1}, {Operations: -1, Running: -1}} {
		if err := counts.Add(tree, "c", one); err != nil {
			t.Fatal(err)
		}
	}
	if len(counts) > 0 {
		t.Errorf("counts %v, want none", counts)
	}
	if err := counts.Add(tree, "x", pooltree.Count{Operations: 1}); !errors.Is(err, pooltree.ErrUnknownPool) {
		t.Errorf("an unknown pool: %v", err)
	}
	if _, err := tree.Total(map[scheduling.PoolName]pooltree.Count{"x": {Operations: 1}}); !errors.Is(err, pooltree.ErrUnknownPool) {
		t.Errorf("an unknown pool: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestDefaultsOfOperationCounts: where one of the two limits is set, the default of the
// other is bounded by it. The limits that hold are those that are shown.
func TestDefaultsOfOperationCounts(t *testing.T) {
	cases := map[string]struct {
		tree, pool                    object
		wantOperations, wantRunning   int64
		wantInTree, wantRunningInTree int64
	}{
		"nothing set":                       {nil, nil, 50, 8, 50000, 2000},
		"few operations":                    {nil, object{"max_operation_count": 2.0}, 2, 2, 50000, 2000},
		"no operations":                     {nil, object{"max_operation_count": 0.0}, 0, 0, 50000, 2000},
		"more operations than run":          {nil, object{"max_operation_count": 9.0}, 9, 8, 50000, 2000},
		"many running operations":           {nil, object{"max_running_operation_count": 60.0}, 60, 60, 50000, 2000},
		"few running operations":            {nil, object{"max_running_operation_count": 3.0}, 50, 3, 50000, 2000},
		"both":                              {nil, object{"max_operation_count": 5.0, "max_running_operation_count": 4.0}, 5, 4, 50000, 2000},
		"few operations in pools":           {object{"max_operation_count_per_pool": 2.0}, nil, 2, 2, 50000, 2000},
		"many running operations in pools":  {object{"max_running_operation_count_per_pool": 70.0}, nil, 70, 70, 50000, 2000},
		"a pool with more than others have": {object{"max_operation_count_per_pool": 2.0}, object{"max_running_operation_count": 4.0}, 4, 4, 50000, 2000},
		"a pool with less than others have": {object{"max_running_operation_count_per_pool": 20.0}, object{"max_operation_count": 4.0}, 4, 4, 50000, 2000},
		"few operations in the tree":        {object{"max_operation_count": 2.0}, nil, 50, 8, 2, 2},
		"many running ones in the tree":     {object{"max_running_operation_count": 60000.0}, nil, 50, 8, 60000, 60000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tree, err := tryBuild(t, tc.tree, node{"a", scheduling.RootPool, tc.pool})
			if err != nil {
				t.Fatal(err)
			}
			holdsTo(t, tree, "a", tc.wantOperations, tc.wantRunning)
			holdsTo(t, tree, scheduling.RootPool, tc.wantInTree, tc.wantRunningInTree)
		})
	}
}

// TestSubpoolsTakeTheirLimits makes subpools of users where one limit is set for them.
func TestSubpoolsTakeTheirLimits(t *testing.T) {
	cases := map[string]struct {
		config                      object
		wantOperations, wantRunning int64
	}{
		"few operations":          {object{"max_operation_count": 2.0}, 2, 2},
		"many running operations": {object{"max_running_operation_count": 60.0}, 60, 60},
		"a FIFO pool of few":      {object{"max_operation_count": 2.0, "mode": "fifo"}, 2, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			placed, err := build(t, nil, node{"hub", scheduling.RootPool, object{"create_ephemeral_subpools": true, "ephemeral_subpool_config": tc.config}}).Place("hub", "bob", false)
			if err != nil {
				t.Fatal(err)
			}
			holdsTo(t, placed.Tree, "hub$bob", tc.wantOperations, tc.wantRunning)
		})
	}
}

// holdsTo checks that a pool starts and runs so many operations and no more, and says so.
func holdsTo(t *testing.T, tree pooltree.Tree, pool scheduling.PoolName, operations, running int64) {
	t.Helper()
	e, err := tree.Effective(pool)
	if err != nil || e.MaxOperationCount != operations || e.MaxRunningOperationCount != running {
		t.Errorf("pool %q: %d operations, %d run, %v, want %d, %d", pool, e.MaxOperationCount, e.MaxRunningOperationCount, err, operations, running)
	}
	for now, free := range map[int64]bool{operations: false, operations - 1: true} {
		if err := tree.AdmitStart(pool, "", pooltree.Counts{pool: {Operations: now}}); (err == nil) != free {
			t.Errorf("pool %q starts one more than %d: %v", pool, now, err)
		}
	}
	for now, free := range map[int64]bool{running: false, running - 1: true} {
		if err := tree.AdmitRun(pool, "", pooltree.Counts{pool: {Running: now}}); (err == nil) != free {
			t.Errorf("pool %q runs one more than %d: %v", pool, now, err)
		}
	}
}
