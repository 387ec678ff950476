package engine_test

import (
	"errors"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
)

// restored is a world in which an engine was made while the cluster runs: its nodes n1
// and n2 of 4 slots have not been heard yet, and room is held on each for a job of the gang.
func restored(t *testing.T) *drive {
	t.Helper()
	d := newDrive(t, options{"node_reconnection_timeout": "20s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.gang("gang", "a", 2, slotsOf(4))
	d.wants("thief", "b", 8, slotsOf(1), nil)
	for _, n := range []scheduling.NodeID{"n1", "n2"} {
		must(t, d.AddClaim(n, engine.Beneficiary{Operation: "gang", Task: "t", Resources: slotsOf(4)}, d.now, d.now.Add(time.Minute)))
		must(t, d.SetNode(n, slotsOf(4), false))
		must(t, d.Await(n, true))
	}
	return d
}

// TestRestoredGang: what is held for a gang is held until its nodes are heard again, and
// the gang starts as a whole.
func TestRestoredGang(t *testing.T) {
	d := restored(t)
	d.tick(time.Second)
	d.node("n1", 4)
	if plan := d.beat("n1"); len(plan.Starts) != 0 || len(d.claims()) != 2 {
		t.Fatalf("started %v, with claims %+v, before the other node is heard", plan.Starts, d.claims())
	}
	d.node("n2", 4)
	plan := d.beat("n2")
	if len(plan.Starts) != 2 || plan.Starts[0].Operation != "gang" || plan.Starts[1].Claimed.IsZero() || len(d.claims()) != 0 {
		t.Fatalf("started %+v, with claims %+v, want both jobs of the gang", plan.Starts, d.claims())
	}
}

// TestRestoredGangOfNodesThatStayAway: room on nodes that do not come back in time is not
// held for a gang, and none at all for one that those that are back could never hold.
func TestRestoredGangOfNodesThatStayAway(t *testing.T) {
	d := restored(t)
	d.node("n1", 4)
	d.tick(time.Second)
	d.tick(19 * time.Second)
	if got := d.claims(); len(got) != 2 {
		t.Fatalf("claims %+v, want both while nodes may come back", got)
	}
	d.tick(time.Second)
	if got := d.claims(); len(got) != 0 {
		t.Fatalf("claims %+v for a gang that does not fit", got)
	}
	must(t, invarianttest.Check(d.Engine))

	d = restored(t)
	d.node("n1", 4)
	d.node("n3", 4)
	d.tick(time.Second)
	d.tick(20 * time.Second)
	if got := d.claims(); len(got) != 1 || got[0].Node != "n1" {
		t.Fatalf("claims %+v, want that on the node that is back", got)
	}
}

// TestAddClaim: a claim is there once, for who wants it, and does not outlast its node.
func TestAddClaim(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}})
	d.wants("late", "a", 1, slotsOf(2), nil)
	d.node("n1", 4)
	late := engine.Beneficiary{Operation: "late", Task: "t", Resources: slotsOf(2)}
	must(t, d.AddClaim("n1", late, d.now, d.now.Add(time.Minute)))
	if err := d.AddClaim("n1", late, d.now, d.now.Add(time.Minute)); !errors.Is(err, engine.ErrExists) {
		t.Errorf("added twice: %v", err)
	}
	for name, b := range map[string]engine.Beneficiary{
		"nobody knows the operation": {Operation: "gone", Task: "t", Resources: slotsOf(1)},
		"it wants no more jobs":      {Operation: "late", Task: "t", Resources: slotsOf(2)},
		"nor any of that task":       {Operation: "late", Task: "other", Resources: slotsOf(2)},
	} {
		must(t, d.AddClaim("n1", b, d.now.Add(time.Second), d.now.Add(time.Minute)))
		if got := d.claims(); len(got) != 1 {
			t.Errorf("%s: claims %+v", name, got)
		}
	}
	d.EndClaims("n1")
	d.EndClaims("nowhere")
	d.wantEnd(engine.ClaimNodeLost)
	must(t, d.AddClaim("nowhere", engine.Beneficiary{Operation: "gone"}, d.now, d.now))
	if got := d.Snapshot().Nodes; len(got) != 1 {
		t.Errorf("nodes %+v, want none of a claim that was left out", got)
	}
}

// TestSetAttempted: victims are not looked for on a node before its backoff is over.
func TestSetAttempted(t *testing.T) {
	d := twoPools(t, options{"fair_share_starvation_timeout": "1s", "preemptive_scheduling_backoff": "20s"}, nil, nil, nil)
	d.SetAttempted("n", d.now)
	d.SetAttempted("n", d.now.Add(-time.Hour))
	d.SetAttempted("nowhere", d.now)
	d.pass(19*time.Second, time.Second, "n")
	d.wantVictims()
	d.pass(time.Second, time.Second, "n")
	d.wantVictims("greedy-004 preemption")
}
