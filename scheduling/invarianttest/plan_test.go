package invarianttest_test

import (
	"errors"
	"testing"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

func TestCheckPlan(t *testing.T) {
	gpu, err := pooltree.ParseFilter("gpu")
	if err != nil {
		t.Fatal(err)
	}
	limit := func(n int64) resource.Amounts { return resource.Infinite.With(resource.UserSlots, n) }
	cases := map[string]struct {
		lie  func(*engine.Snapshot)
		want string
	}{
		"nothing is wrong":       {func(*engine.Snapshot) {}, ""},
		"limits are just met":    {func(s *engine.Snapshot) { s.Operations[0].Shares.Limits = limit(2) }, ""},
		"of a pool":              {func(s *engine.Snapshot) { s.Pools[1].Shares.Limits = limit(1) }, `pool "a": usage grew from user_slots=1 to user_slots=2, but its limits are `},
		"of an operation":        {func(s *engine.Snapshot) { s.Operations[0].Shares.Limits = limit(1) }, "operation o1: usage grew from user_slots=1 to user_slots=2, but its limits are "},
		"the tags are there":     {func(s *engine.Snapshot) { s.Pools[1].Effective.TagFilter = gpu; s.Nodes[0].Tags = []string{"gpu"} }, ""},
		"tags for the operation": {func(s *engine.Snapshot) { s.Operations[0].Effective.TagFilter = gpu }, `operation o1: a job starts on node n1 with tags [], but its filter is "gpu"`},
		"tags for a pool above":  {func(s *engine.Snapshot) { s.Pools[1].Effective.TagFilter = gpu }, `operation o1: a job starts on node n1 with tags [], but the filter of pool "a" is "gpu"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := sound(t).snapshot, sound(t).snapshot
			before.Operations[0].Shares.Usage, before.Pools[0].Shares.Usage = slots(1), slots(1)
			before.Pools[1].Shares.Usage, before.Pools[2].Shares.Usage = slots(1), slots(1)
			tc.lie(&after)
			err := invarianttest.CheckPlan(before, engine.Plan{Starts: []engine.Start{{Operation: "o1", Node: scheduling.NodeID("n1")}}}, after)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			want := "invariant broken: " + tc.want
			if !errors.Is(err, invarianttest.ErrBreach) || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
				t.Errorf("got %v\nwant %v", err, want)
			}
		})
	}
}
