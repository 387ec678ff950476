package pool

import (
	"cmp"
	"slices"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// admitCase is a pool, what runs in it, and which of the pending operations may.
type admitCase struct {
	pool    scheduling.PoolName
	running map[scheduling.PoolName]int64
	pending []*statepb.Operation
	want    []string
}

// checkAdmit compares what is proposed for the pending operations.
func checkAdmit(t *testing.T, cases map[string]admitCase) {
	t.Helper()
	tree := buildTree(t)
	for name, test := range cases {
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
			propose, err := Admit(cmp.Or(test.pool, "ads"), View{Tree: "default", Pools: tree, Counts: counts, Pending: test.pending, Term: 3})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			trees := []string{"default"}
			for _, msg := range propose {
				switch m := msg.(type) {
				case *commandpb.AdvanceOperation:
					got = append(got, "run "+m.GetOperationId())
					trees = m.GetTrees()
				case *commandpb.AdmitOperation:
					got = append(got, "run too "+m.GetOperationId())
					trees = m.GetTrees()
				case *commandpb.SetPendingReason:
					got = append(got, "wait "+m.GetOperationId()+": "+m.GetReasons()["default"])
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !slices.Equal(trees, []string{"default"}) {
				t.Errorf("let run in %q", trees)
			}
			if counts["ads"] != before {
				t.Error("the caller's counts were changed")
			}
		})
	}
}

// TestAdmit has operations that wait to run in a pool, the limits of which are in buildTree.
func TestAdmit(t *testing.T) {
	checkAdmit(t, map[string]admitCase{
		"free places go to the oldest": {
			running: map[scheduling.PoolName]int64{"ads": 1},
			pending: []*statepb.Operation{pending("a"), pending("b")},
			want:    []string{"run a", `wait b: pool "ads": limit of 2 operations reached (option max_running_operation_count), 2 now`},
		},
		"a full ancestor holds its children back": {
			running: map[scheduling.PoolName]int64{"other": 3},
			pending: []*statepb.Operation{pending("a")},
			want:    []string{`wait a: pool "team": limit of 3 operations reached (option max_running_operation_count), 3 now`},
		},
		"a reason that is recorded is not recorded again": {
			running: map[scheduling.PoolName]int64{"ads": 2},
			pending: []*statepb.Operation{{Id: "a", State: "pending", Trees: []*statepb.OperationTree{
				{Tree: "default", PendingReason: `pool "ads": limit of 2 operations reached (option max_running_operation_count), 2 now`},
			}}},
		},
		"one that runs in another tree runs in this one too": {
			pending: []*statepb.Operation{{Id: "a", State: "running", Trees: []*statepb.OperationTree{{Tree: "default"}, {Tree: "gpu", Admitted: true}}}},
			want:    []string{"run too a"},
		},
		"lightweight operations never wait": {
			pool:    "light",
			running: map[scheduling.PoolName]int64{"light": 1},
			pending: []*statepb.Operation{{Id: "a", State: "pending", Spec: &statepb.OperationSpec{Type: "vanilla"}}, pending("b")},
			want:    []string{"run a", `wait b: pool "light": limit of 1 operations reached (option max_running_operation_count), 1 now`},
		},
		"a suspended operation takes no place": {
			running: map[scheduling.PoolName]int64{"ads": 1},
			pending: []*statepb.Operation{{Id: "a", State: "pending", Suspended: true}, pending("b")},
			want:    []string{"run b"},
		},
	})
}

// pending returns an operation that waits in the tree default.
func pending(id string) *statepb.Operation {
	return &statepb.Operation{Id: id, State: "pending", Trees: []*statepb.OperationTree{{Tree: "default"}}}
}

// buildTree returns team (runs 3) with the pools ads (runs 2) and other below, and
// the FIFO pool light (runs 1), whose vanilla operations do not count.
func buildTree(t testing.TB) pooltree.Tree {
	t.Helper()
	one, two, three, fifo, yes := int64(1), int64(2), int64(3), pooltree.FIFO, true
	tree, err := pooltree.FromPools(pooltree.Default(), []pooltree.Pool{
		{Name: "team", Parent: scheduling.RootPool, Options: pooltree.PoolOptions{MaxRunningOperationCount: &three}},
		{Name: "ads", Parent: "team", Options: pooltree.PoolOptions{MaxRunningOperationCount: &two}},
		{Name: "other", Parent: "team"},
		{Name: "light", Parent: scheduling.RootPool, Options: pooltree.PoolOptions{
			Mode: &fifo, MaxRunningOperationCount: &one, LightweightOperations: &yes,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
