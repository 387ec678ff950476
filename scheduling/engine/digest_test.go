package engine

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// TestDigestFollowsChanges: the digest of an age is found once, and again whenever something
// has changed of what ends it.
func TestDigestFollowsChanges(t *testing.T) {
	e, err := New(Default())
	if err != nil {
		t.Fatal(err)
	}
	now, slots := time.Unix(1_000_000, 0), resource.Amounts{UserSlots: 8, CPU: 800}
	op := Operation{ID: "o", Pool: "a", Weight: 1, Enabled: true}
	heavier, paused := op, op
	heavier.Weight, paused.Suspended = 2, true
	for _, change := range []struct {
		name string
		of   func() error
	}{
		{"a pool comes", func() error { return e.SetPool("a", scheduling.RootPool, 1) }},
		{"an operation comes", func() error { return e.AddOperation(op) }},
		{"a node comes", func() error { return e.SetNode("n", slots, true) }},
		{"it asks for jobs", func() error { return e.SetDemand("o", "t", 0, 4, resource.Amounts{UserSlots: 1, CPU: 100}) }},
		{"its weight is another", func() error { return e.SetOperation(heavier) }},
		{"it is suspended", func() error { return e.SetOperation(paused) }},
		{"the node is drained", func() error { return e.SetNode("n", slots, false) }},
		{"the node has tags", func() error { return e.SetNode("n", slots, false, "gpu") }},
		{"the node goes", func() error { return e.RemoveNode("n") }},
		{"the operation goes", func() error { return e.RemoveOperation("o") }},
	} {
		before := e.tree.digest()
		if err := change.of(); err != nil {
			t.Fatalf("%s: %v", change.name, err)
		}
		now = now.Add(time.Second)
		if _, err := e.Tick(now); err != nil {
			t.Fatal(err)
		}
		got := e.tree.digest()
		if e.tree.digested = (digested{}); e.tree.digest() != got || got == before && change.name != "a pool comes" {
			t.Errorf("%s: %x, before %x, found anew %x", change.name, got, before, e.tree.digest())
		}
	}
}
