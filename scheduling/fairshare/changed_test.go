package fairshare_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// TestUpdateChanged: an update of what changed gives exactly what an update of everything gives, in
// random trees with random changes, one after the other.
func TestUpdateChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		d := drawing{gangs: true, integral: rapid.Bool().Draw(t, "integral")}
		tree := d.tree(t, total)
		tree.Options.VectorFitFactor = rapid.IntRange(0, 9).Draw(t, "vector mode") == 0
		tree.Options.FIFOReordering = rapid.IntRange(0, 9).Draw(t, "reordering") == 0
		visit(tree.Root, func(e *fairshare.Element) { d.special(t, e, total) })
		whole := &fairshare.Tree{Options: tree.Options, Root: copied(tree.Root)}
		now := begin
		update(t, whole, total, now)
		update(t, tree, total, now)
		twins := byID(whole)
		var operations []*fairshare.Element
		visit(tree.Root, func(e *fairshare.Element) {
			if e.Pool == nil {
				operations = append(operations, e)
			}
		})
		for range rapid.IntRange(1, 6).Draw(t, "updates") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
			var changed []*fairshare.Element
			for range min(rapid.IntRange(0, 3).Draw(t, "changes"), len(operations)) {
				op := rapid.SampledFrom(operations).Draw(t, "changed")
				d.change(t, op, total)
				twin := twins[op.ID]
				twin.Usage, twin.Demand, twin.PendingJobs, twin.Gang = op.Usage, op.Demand, op.PendingJobs, op.Gang
				twin.Limits, twin.BestAllocation = op.Limits, op.BestAllocation
				changed = append(changed, op)
			}
			want := update(t, whole, total, now)
			got, err := tree.UpdateChanged(total, now, changed)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			visit(tree.Root, func(e *fairshare.Element) { sameAs(t, e, twins[e.ID]) })
		}
	})
}

// special gives an element what other trees do not have.
func (d drawing) special(t *rapid.T, e *fairshare.Element, total resource.Amounts) {
	if e.Pool == nil {
		e.PendingJobs = rapid.Int64Range(0, 3).Draw(t, e.ID+" pending jobs")
		return
	}
	e.Pool.ComputePromised = rapid.IntRange(0, 5).Draw(t, e.ID+" promises") == 0
	if rapid.Bool().Draw(t, e.ID+" by pending jobs") {
		e.Pool.SortBy = []fairshare.SortKey{fairshare.ByPendingJobs}
	}
	if d.integral {
		e.Pool.Volume = resource.VolumeOf(total, time.Duration(rapid.IntRange(0, 100).Draw(t, e.ID+" volume"))*time.Second)
	}
}

// change gives an operation other input.
func (d drawing) change(t *rapid.T, op *fairshare.Element, total resource.Amounts) {
	switch rapid.IntRange(0, 4).Draw(t, "change of "+op.ID) {
	case 0:
		op.Demand = op.Usage
	case 1:
		op.Usage = op.Demand
	case 2:
		op.Limits = d.amounts(t, op.ID+" limit", total)
		op.BestAllocation[resource.Memory] = rapid.Float64Range(0, 1).Draw(t, op.ID+" best")
	default:
		d.operation(t, op, total)
	}
	op.PendingJobs = rapid.Int64Range(0, 3).Draw(t, op.ID+" pending jobs")
}

// copied returns a copy of what an update reads.
func copied(e *fairshare.Element) *fairshare.Element {
	c := fairshare.NewOperation(e.ID)
	if e.Pool != nil {
		c = fairshare.NewPool(e.ID)
		p := *e.Pool
		c.Pool = &p
	}
	c.Rank, c.Weight, c.InferWeight, c.Limits, c.MaxShareRatio, c.BestAllocation = e.Rank, e.Weight, e.InferWeight, e.Limits, e.MaxShareRatio, e.BestAllocation
	c.Demand, c.Usage, c.Gang, c.PendingJobs = e.Demand, e.Usage, e.Gang, e.PendingJobs
	for _, child := range e.Children {
		c.Children = append(c.Children, copied(child))
	}
	return c
}

// sameAs compares all that an update writes.
func sameAs(t interface{ Fatalf(string, ...any) }, got, want *fairshare.Element) {
	if got.Result != want.Result {
		t.Fatalf("%s: got %+v, want %+v", got.ID, got.Result, want.Result)
	}
	if got.Parts() != want.Parts() || got.PromisedParts() != want.PromisedParts() || got.SpecifiedMinShare() != want.SpecifiedMinShare() ||
		got.Schedulable() != want.Schedulable() || got.Demand != want.Demand || got.Usage != want.Usage || got.PendingJobs != want.PendingJobs {
		t.Fatalf("%s: got %+v, want %+v", got.ID, got, want)
	}
	if got.Pool == nil {
		return
	}
	if order := func(e *fairshare.Element) (ids []string) {
		for _, c := range e.Children {
			ids = append(ids, c.ID)
		}
		return ids
	}; !slices.Equal(order(got), order(want)) {
		t.Fatalf("%s: got the order %v, want %v", got.ID, order(got), order(want))
	}
	a, b := got.Pool, want.Pool
	if a.Volume != b.Volume || a.LastShareRatio != b.LastShareRatio || a.Rest != b.Rest || a.Ratios != b.Ratios || a.BurstRatio != b.BurstRatio ||
		a.Capacity != b.Capacity || a.Tiers != b.Tiers || a.InferredGuarantee != b.InferredGuarantee {
		t.Fatalf("%s: got %+v, want %+v", got.ID, a, b)
	}
}

// TestUpdateChangedOfMany is the same with many operations, of which few or many change.
func TestUpdateChangedOfMany(t *testing.T) {
	for _, depth := range []int{1, 2, 5} {
		l := newLoad(2000, 50, depth, fairshare.FairShare)
		if depth == 5 {
			// There is room for all.
			l.total = l.total.Times(100)
		}
		whole := &fairshare.Tree{Options: l.tree.Options, Root: copied(l.tree.Root)}
		l.update(t)
		update(t, whole, l.total, l.now)
		twins := byID(whole)
		for round := range 30 {
			var changed []*fairshare.Element
			for range 1 + round/20*90 {
				op := l.changeOne()
				twins[op.ID].Usage, twins[op.ID].Demand = op.Usage, op.Demand
				changed = append(changed, op)
			}
			l.now = l.now.Add(200 * time.Millisecond)
			update(t, whole, l.total, l.now)
			if _, err := l.tree.UpdateChanged(l.total, l.now, changed); err != nil {
				t.Fatal(err)
			}
			visit(l.tree.Root, func(e *fairshare.Element) { sameAs(t, e, twins[e.ID]) })
			wantTop(t, whole)
		}
	}
}

// TestTop: the share of the root is that which its whole function has at the end.
func TestTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := drawUpdated(t, anything)
		wantTop(t, tree)
	})
}

// wantTop compares the share of the root with what its whole function says.
func wantTop(t interface{ Fatalf(string, ...any) }, tree *fairshare.Tree) {
	share, fit, wantShare, wantFit := tree.Top()
	if !share.Near(wantShare, 1e-12) || math.Abs(fit-wantFit) > 1e-9 {
		t.Fatalf("the root has %v at %v, want %v at %v", share, fit, wantShare, wantFit)
	}
}
