package engine_test

import (
	"slices"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

func TestConfig(t *testing.T) {
	cases := map[string]struct {
		change func(*engine.Config)
		want   string
	}{
		"default":           {func(*engine.Config) {}, ""},
		"negative duration": {func(c *engine.Config) { c.OvercommitDuration = -1 }, "new engine: overcommit duration: -1ns is negative"},
		"no starts":         {func(c *engine.Config) { c.MaxStartsPerPlan = 0 }, "new engine: max starts per plan: 0 is not positive"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := engine.Default()
			tc.change(&config)
			_, err := engine.New(config)
			if got := errorText(err); got != tc.want {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPlanIsLimited(t *testing.T) {
	config := engine.Default()
	config.MaxStartsPerPlan = 3
	e, err := engine.New(config)
	must(t, err)
	nodes := []scheduling.NodeID{"n1", "n2", "n3", "n4"}
	for _, id := range nodes {
		must(t, e.SetNode(id, resource.Amounts{UserSlots: 2}, true))
	}
	must(t, e.SetPool("a", scheduling.RootPool, 1))
	must(t, e.AddOperation(engine.Operation{ID: "o1", Pool: "a", Weight: 1, Started: begin, Enabled: true}))
	must(t, e.SetDemand("o1", "t", 0, 100, resource.Amounts{UserSlots: 1}))
	plan := e.Heartbeat(begin, nodes)
	if len(plan.Starts) != 3 || plan.Outcome.Starts != 3 {
		t.Errorf("%d starts, %d counted, want 3", len(plan.Starts), plan.Outcome.Starts)
	}
	if want := nodes[2:]; !slices.Equal(plan.Unserved, want) {
		t.Errorf("unserved %v, want %v", plan.Unserved, want)
	}
	if plan = e.Heartbeat(begin, []scheduling.NodeID{"n3"}); len(plan.Starts) != 2 || plan.Unserved != nil {
		t.Errorf("the next plan is %+v", plan)
	}
}

// TestDemandBeforeCommit breaks the order of the log: nothing starts twice.
func TestDemandBeforeCommit(t *testing.T) {
	e := newEngine(t)
	must(t, e.SetNode("n1", resource.Amounts{UserSlots: 9}, true))
	must(t, e.SetPool("a", scheduling.RootPool, 1))
	must(t, e.AddOperation(engine.Operation{ID: "o1", Pool: "a", Weight: 1, Started: begin, Enabled: true}))
	must(t, e.SetDemand("o1", "t", 0, 2, resource.Amounts{UserSlots: 1}))
	plan := e.Heartbeat(begin, []scheduling.NodeID{"n1"})
	// Both were committed, and the state has none left.
	must(t, e.SetDemand("o1", "t", 0, 0, resource.Amounts{UserSlots: 1}))
	for i, start := range plan.Starts {
		must(t, e.Commit(start.Ticket, scheduling.JobID(rune('a'+i)), begin))
	}
	if plan := e.Heartbeat(begin.Add(time.Second), []scheduling.NodeID{"n1"}); len(plan.Starts) != 0 {
		t.Errorf("started again: %v", plan.Starts)
	}
}

// TestSnapshotIsACopy changes the engine under a snapshot.
func TestSnapshotIsACopy(t *testing.T) {
	e := newEngine(t)
	must(t, e.SetPool("a", scheduling.RootPool, 1))
	must(t, e.AddOperation(engine.Operation{ID: "o1", Pool: "a", Weight: 1, Started: begin, Enabled: true}))
	must(t, e.SetDemand("o1", "t", 0, 2, resource.Amounts{UserSlots: 1}))
	s := e.Snapshot()
	must(t, e.SetDemand("o1", "t", 0, 5, resource.Amounts{UserSlots: 1}))
	must(t, e.SetPool("a", scheduling.RootPool, 7))
	if got := s.Operations[0].Tasks[0].Pending; got != 2 {
		t.Errorf("pending in the snapshot is %d, want 2", got)
	}
	if got := s.Pools[1].Shares.Weight; got != 1 {
		t.Errorf("weight in the snapshot is %v, want 1", got)
	}
}

// tester is a test, or a try of a property.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
