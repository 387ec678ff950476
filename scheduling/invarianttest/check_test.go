package invarianttest_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// view is what an engine says of itself, for a test to make a lie of it.
type view struct {
	snapshot engine.Snapshot
	holdings []engine.Holding
}

func (v *view) Snapshot() engine.Snapshot  { return v.snapshot }
func (v *view) Holdings() []engine.Holding { return v.holdings }

func slots(n int64) resource.Amounts { return resource.Amounts{UserSlots: n} }

// sound returns an engine with pools a and a/b, an operation in b, a job of it
// and a start in flight on a node, and a second node.
func sound(t *testing.T) *view {
	t.Helper()
	e, err := engine.New(engine.Default())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	must(e.SetNode("n1", slots(4), true))
	must(e.SetNode("n2", slots(4), true))
	must(e.SetPool("a", scheduling.RootPool, 1))
	must(e.SetPool("b", "a", 1))
	must(e.AddOperation(engine.Operation{ID: "o1", Pool: "b", Weight: 1, Started: at, Enabled: true}))
	must(e.SetDemand("o1", "t", 0, 2, slots(1)))
	_, err = e.Tick(at)
	must(err)
	plan := e.Heartbeat(at, []scheduling.NodeID{"n1"})
	must(e.Commit(plan.Starts[0].Ticket, "j1", at))
	return &view{e.Snapshot(), e.Holdings()}
}

// lieCase is a view that is wrong in one place, and what is said of it.
type lieCase struct {
	lie  func(*view)
	want string
}

// checkLies compares what is said of each view.
func checkLies(t *testing.T, cases map[string]lieCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := sound(t)
			tc.lie(v)
			err := invarianttest.Check(v)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := "invariant broken: " + tc.want; !errors.Is(err, invarianttest.ErrBreach) || err.Error() != want {
				t.Errorf("got %v\nwant %v", err, want)
			}
		})
	}
}

// TestCheck has usage and numbers that do not add up.
func TestCheck(t *testing.T) {
	checkLies(t, map[string]lieCase{
		"nothing is wrong": {func(*view) {}, ""},
		"a node's usage": {func(v *view) { v.snapshot.Nodes[0].Usage = slots(3) },
			"node n1: usage is user_slots=3, but its allocations hold user_slots=2"},
		"a node above its limits": {func(v *view) { v.snapshot.Nodes[0].Limits = slots(1) },
			"node n1: usage user_slots=2 is above limits user_slots=1"},
		"a node that is lost": {func(v *view) { v.snapshot.Nodes = v.snapshot.Nodes[1:] },
			"node n1: not in the snapshot, but its allocations hold user_slots=2"},
		"the total": {func(v *view) { v.snapshot.Total = slots(9) },
			"cluster: total is user_slots=9, but its nodes have user_slots=8"},
		"an operation's usage": {func(v *view) { v.snapshot.Operations[0].Shares.Usage = slots(1) },
			"operation o1: usage is user_slots=1, but its allocations hold user_slots=2"},
		"an operation that is lost": {func(v *view) { v.snapshot.Operations = nil },
			"operation o1: not in the snapshot, but its allocations hold user_slots=2"},
		"the number of allocations": {func(v *view) { v.snapshot.Operations[0].Allocations = 2 },
			"operation o1: the snapshot counts 2 allocations, but it has 1"},
		"the number in flight": {func(v *view) { v.snapshot.InFlight = 2 },
			"1 starts are in flight, but the snapshot counts 2"},
		"a task's number in flight": {func(v *view) { v.snapshot.Operations[0].Tasks[0].InFlight = 2 },
			`operation o1: task "t": the snapshot counts 2 starts in flight, but it has 1`},
		"a task's pending jobs": {func(v *view) { v.snapshot.Operations[0].Tasks[0].Effective = 3 },
			`operation o1: task "t": 1 pending less 1 in flight and 0 claimed is not 3`},
		"a job twice": {func(v *view) { v.holdings = append(v.holdings, v.holdings[0]) },
			"job j1 has two allocations"},
		"a pool's usage": {func(v *view) { v.snapshot.Pools[1].Shares.Usage = slots(1) },
			`pool "a": usage is user_slots=1, but that of its children is user_slots=2`},
		"the root's usage": {func(v *view) { v.snapshot.Pools[0].Shares.Usage = slots(1) },
			`pool "<Root>": usage is user_slots=1, but that of its children is user_slots=2`},
		"a group": {func(v *view) { v.holdings[0].Level = preemption.Preemptible },
			"job j1 of operation o1 is preemptible: at index 0 of 1 by start time, with the first 1 always and the first 1 normally protected, it should be non_preemptible"},
		"a start in flight in a group": {func(v *view) { v.holdings[1].Level = preemption.Preemptible },
			"job  of operation o1: it is preemptible, but it is leaving or has not begun"},
	})
}

// TestCheckShares has shares that cannot be.
func TestCheckShares(t *testing.T) {
	checkLies(t, map[string]lieCase{
		"children with more than their pool": {func(v *view) { v.snapshot.Pools[2].Shares.FairShare[0] = .5 },
			`pool "a": fair share is [0.25 0 0 0 0], but that of its children is [0.5 0 0 0 0]`},
		"a fair share above 1": {func(v *view) { v.snapshot.Operations[0].Shares.FairShare[1] = 1.1 },
			"operation o1: fair share of cpu is not from 0 to 1: 1.1"},
		"a fair share that is no number": {func(v *view) { v.snapshot.Pools[2].Shares.FairShare[3] = math.NaN() },
			`pool "b": fair share of memory is not from 0 to 1: NaN`},
		"a demand share that is no number": {func(v *view) { v.snapshot.Pools[2].Shares.DemandShare[0] = math.Inf(1) },
			`pool "b": demand share +Inf, usage share 0.25 or satisfaction 1 is negative or not finite`},
	})
}

// TestCheckClaims has claims and leaving jobs that are not counted as they should be.
func TestCheckClaims(t *testing.T) {
	checkLies(t, map[string]lieCase{
		"what is leaving a node": {func(v *view) { v.snapshot.Nodes[0].Leaving = slots(1) },
			"node n1: user_slots=1 is leaving and nothing is claimed, but by its allocations and claims these are nothing and nothing"},
		"a claim that nobody has": {func(v *view) { v.snapshot.Nodes[0].Claimed = slots(1) },
			"node n1: nothing is leaving and user_slots=1 is claimed, but by its allocations and claims these are nothing and nothing"},
		"claims beyond the node": {func(v *view) {
			v.snapshot.Claims = []engine.ClaimView{{Node: "n1", Beneficiary: engine.Beneficiary{Operation: "o1", Task: "t", Resources: slots(3)}}}
			v.snapshot.Nodes[0].Claimed = slots(3)
		}, "node n1: claims of user_slots=3 do not fit: it will hold user_slots=2 of user_slots=4"},
		"a claim that is no usage": {func(v *view) {
			v.snapshot.Claims = []engine.ClaimView{{Node: "n1", Beneficiary: engine.Beneficiary{Operation: "o1", Task: "t", Resources: slots(1)}}}
			v.snapshot.Nodes[0].Claimed = slots(1)
		}, "operation o1: usage is user_slots=2, but its allocations hold user_slots=3"},
		"what leaves is counted twice": {func(v *view) {
			v.holdings[0].Leaving = true
			v.snapshot.Nodes[0].Leaving = slots(1)
		}, "operation o1: usage is user_slots=2, but its allocations hold user_slots=1"},
		"what an operation has leaving": {func(v *view) { v.snapshot.Operations[0].Shares.Leaving = slots(1) },
			"operation o1: user_slots=1 is leaving, but its leaving allocations hold nothing"},
		"what a pool has leaving": {func(v *view) { v.snapshot.Pools[1].Shares.Leaving = slots(1) },
			`pool "a": user_slots=1 is leaving, but in its children it is nothing`},
		"a task's number of claims": {func(v *view) { v.snapshot.Operations[0].Tasks[0].Claimed = 1 },
			`operation o1: task "t": the snapshot counts 1 claims, but it has 0`},
	})
}

// TestWhatIsNoBreach: overcommit is marked, and shares are old when the tree has
// changed.
func TestWhatIsNoBreach(t *testing.T) {
	v := sound(t)
	v.snapshot.Nodes[0].Limits, v.snapshot.Nodes[0].Overcommitted, v.snapshot.Total = slots(1), true, slots(5)
	v.snapshot.Pools[2].Shares.FairShare[0], v.snapshot.Stale = .5, true
	if err := invarianttest.Check(v); err != nil {
		t.Error(err)
	}
}
