package pool

import (
	"slices"
	"testing"
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

func TestAdmit(t *testing.T) {
	tests := map[string]struct {
		running map[scheduling.PoolName]int64
		pending []*statepb.Operation
		want    []string
	}{
		"free places go to the oldest": {
			running: map[scheduling.PoolName]int64{"ads": 1},
			pending: []*statepb.Operation{{Id: "a"}, {Id: "b"}},
			want:    []string{"run a", `wait b: pool "ads": limit of 2 operations reached (option max_running_operation_count)`},
		},
		"a full ancestor holds its children back": {
			running: map[scheduling.PoolName]int64{"other": 3},
			pending: []*statepb.Operation{{Id: "a"}},
			want:    []string{`wait a: pool "team": limit of 3 operations reached (option max_running_operation_count)`},
		},
		"a reason that is recorded is not recorded again": {
			running: map[scheduling.PoolName]int64{"ads": 2},
			pending: []*statepb.Operation{{Id: "a", PendingReason: `pool "ads": limit of 2 operations reached (option max_running_operation_count)`}},
		},
		"a suspended operation takes no place": {
			running: map[scheduling.PoolName]int64{"ads": 1},
			pending: []*statepb.Operation{{Id: "a", Suspended: true}, {Id: "b"}},
			want:    []string{"run b"},
		},
	}
	tree := buildTree(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			immediate := map[scheduling.PoolName]pooltree.Count{}
			for pool, n := range test.running {
				immediate[pool] = pooltree.Count{Operations: n, Running: n}
			}
			counts, err := tree.Total(immediate)
			if err != nil {
				t.Fatal(err)
			}
			before := counts["ads"]
			propose, err := Admit(time.Unix(0, 0), "ads", View{Tree: tree, Counts: counts, Pending: test.pending, Term: 3})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, msg := range propose {
				switch m := msg.(type) {
				case *commandpb.AdvanceOperation:
					got = append(got, "run "+m.GetOperationId())
				case *commandpb.SetPendingReason:
					got = append(got, "wait "+m.GetOperationId()+": "+m.GetReason())
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if counts["ads"] != before {
				t.Error("the caller's counts were changed")
			}
		})
	}
}

// buildTree returns team (runs 3) with the pools ads (runs 2) and other below.
func buildTree(t testing.TB) pooltree.Tree {
	t.Helper()
	two, three := int64(2), int64(3)
	tree, err := pooltree.FromPools(pooltree.Default(), []pooltree.Pool{
		{Name: "team", Parent: scheduling.RootPool, MaxRunningOperationCount: &three},
		{Name: "ads", Parent: "team", MaxRunningOperationCount: &two},
		{Name: "other", Parent: "team"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
