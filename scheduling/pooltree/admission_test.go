package pooltree_test

import (
	"errors"
	"maps"
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

func TestLimitOfTheTree(t *testing.T) {
	tree, err := tree(t).SetOptions(pooltree.TreeOptions{MaxOperationCount: ptr[int64](2), MaxRunningOperationCount: ptr[int64](1)})
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
	want := pooltree.Counts{"c": {}, "b": {}, "a": {}, scheduling.RootPool: {}}
	if !maps.Equal(counts, want) {
		t.Errorf("counts %v, want %v", counts, want)
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
