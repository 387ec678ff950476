package allocation_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// TestFillAgainstPlainSearch compares the heaps with a search through all that
// there is, over many nodes and changes.
func TestFillAgainstPlainSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := allocation.NewPool("root")
		share(root, 1)
		pools := []*allocation.Element{root, root, root}
		all := map[*allocation.Element]*model{root: {demand: resource.Vector{1}, fair: resource.Vector{1}, limits: resource.Infinite, filter: allocation.NoFilter}}
		// A FIFO pool goes by its first operation even where that has no job that fits: what
		// its others have does not move it. So none is promised anything where there are some.
		orders := []allocation.Order{{}, {ByOperations: true}}
		fifo := rapid.Bool().Draw(t, "fifo pools")
		if fifo {
			orders = append(orders, allocation.Order{FIFO: true})
		}
		all[root].drawOrder(t, root, orders)
		for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
			p := allocation.NewPool(fmt.Sprint("p", i))
			m := &model{parent: rapid.SampledFrom(pools).Draw(t, "parent")}
			all[p] = m
			m.draw(t, p)
			m.drawOrder(t, p, orders)
			p.Attach(m.parent)
			pools = append(pools, p)
		}
		ops := drawOperations(t, all, pools)
		var f allocation.Filler
		turn := 0
		for range rapid.IntRange(1, 10).Draw(t, "nodes") {
			changeDemand(t, ops)
			if rapid.Bool().Draw(t, "move") {
				moveOne(t, all, pools, ops)
			}
			if rapid.Bool().Draw(t, "refresh") {
				root.Refresh()
			}
			changeOrder(t, all, pools[1:], ops, orders)
			if !fifo {
				promise(t, all, ops)
			}
			free := resource.Amounts{UserSlots: rapid.Int64Range(0, 6).Draw(t, "free"), Memory: rapid.Int64Range(0, 40).Draw(t, "free memory")}
			rest, takes := free, []bool{rapid.Bool().Draw(t, "takes"), rapid.Bool().Draw(t, "takes too")}
			f.Fill(root, allocation.Node{Free: free, Takes: takes}, 100, func(chosen *allocation.Element, task allocation.Task) {
				// The choice was made before its needs were used.
				chosen.SubUsage(task.PerJob)
				chosen.AddPending(task.TaskID, 1)
				want, wantTask := search(all, root, rest, takes)
				chosen.AddUsage(task.PerJob)
				chosen.AddPending(task.TaskID, -1)
				if want != chosen || wantTask != task.TaskID {
					t.Fatalf("chosen is %s/%v, the next one that fits is %s/%v", chosen.ID(), task.TaskID, want.ID(), wantTask)
				}
				rest = rest.Sub(task.PerJob)
				turn++
				for e := chosen; e != nil; e = all[e].parent {
					all[e].served = turn
				}
			})
			if left, task := search(all, root, rest, takes); left != nil {
				t.Fatalf("%s/%v fits and is not started", left.ID(), task)
			}
		}
	})
}

// drawOperations puts operations into pools, and their models into all.
func drawOperations(t *rapid.T, all map[*allocation.Element]*model, pools []*allocation.Element) []*allocation.Element {
	var ops []*allocation.Element
	for i := range rapid.IntRange(1, 16).Draw(t, "operations") {
		rank := rapid.Int64Range(0, 2).Draw(t, "rank")
		op := allocation.NewOperation(fmt.Sprint("o", i), rank)
		m := &model{operation: true, rank: rank, parent: rapid.SampledFrom(pools).Draw(t, "pool")}
		all[op] = m
		m.draw(t, op)
		op.Attach(m.parent)
		ops = append(ops, op)
	}
	return ops
}

// changeDemand draws new demand of some operations.
func changeDemand(t *rapid.T, ops []*allocation.Element) {
	for range rapid.IntRange(0, 8).Draw(t, "changes of demand") {
		op := rapid.SampledFrom(ops).Draw(t, "operation with demand")
		op.SetTask(allocation.Task{
			TaskID:  drawTask(t),
			Pending: rapid.Int64Range(0, 4).Draw(t, "pending"),
			PerJob:  resource.Amounts{UserSlots: rapid.Int64Range(1, 3).Draw(t, "slots"), Memory: rapid.Int64Range(0, 20).Draw(t, "memory")},
			Closed:  rapid.IntRange(0, 4).Draw(t, "closed") == 0,
		})
		switch task := drawTask(t); rapid.IntRange(0, 5).Draw(t, "besides") {
		case 0:
			op.DropTask(task)
		case 1:
			op.SetClosed(task.Name, rapid.Bool().Draw(t, "close"))
		}
	}
}

// moveOne moves an operation to a pool, which may be that in which it is.
func moveOne(t *rapid.T, all map[*allocation.Element]*model, pools, ops []*allocation.Element) {
	op := rapid.SampledFrom(ops).Draw(t, "operation that moves")
	op.Detach()
	all[op].parent = rapid.SampledFrom(pools).Draw(t, "to")
	op.Attach(all[op].parent)
}

func drawTask(t *rapid.T) allocation.TaskID {
	return allocation.TaskID{Name: rapid.SampledFrom([]scheduling.TaskName{"a", "b"}).Draw(t, "task"), Group: rapid.Int64Range(0, 2).Draw(t, "group")}
}

type model struct {
	parent       *allocation.Element
	operation    bool
	fair, demand resource.Vector
	limits       resource.Amounts
	filter       int
	rank         int64
	// order is that of a pool; ahead counts as used, a part of the next job, promised is what
	// comes first, and served is the turn in which it was served last.
	order           allocation.Order
	ahead, promised resource.Vector
	part            float64
	served          int
}

func (m *model) drawOrder(t *rapid.T, p *allocation.Element, orders []allocation.Order) {
	m.order = rapid.SampledFrom(orders).Draw(t, "order")
	p.SetOrder(m.order)
}

// changeOrder draws anew what the order goes by.
func changeOrder(t *rapid.T, all map[*allocation.Element]*model, pools, ops []*allocation.Element, orders []allocation.Order) {
	if rapid.IntRange(0, 2).Draw(t, "another order") == 0 {
		p := rapid.SampledFrom(pools).Draw(t, "pool with another order")
		all[p].drawOrder(t, p, orders)
	}
	for range rapid.IntRange(0, 3).Draw(t, "roundings") {
		e := rapid.SampledFrom(slices.Concat(pools, ops)).Draw(t, "one that is rounded")
		part := rapid.SampledFrom([]float64{0, .25, .5, 1}).Draw(t, "part")
		e.SetDebt(allocation.Debt{Rounding: part})
		all[e].ahead, all[e].part = resource.Vector{}, part
		if e.Next() != resource.Infinite {
			all[e].ahead = resource.Share(e.Next(), total).Scale(part)
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "other shares") == 0 {
		e := rapid.SampledFrom(slices.Concat(pools, ops)).Draw(t, "one with another share")
		all[e].fair = resource.Vector{rapid.SampledFrom([]float64{0, .1, .2, .5}).Draw(t, "other fair share")}
		e.SetShares(all[e].fair, all[e].demand, total, allocation.Kinds{})
	}
}

// promise draws what an operation is promised.
func promise(t *rapid.T, all map[*allocation.Element]*model, ops []*allocation.Element) {
	op := rapid.SampledFrom(ops).Draw(t, "one that is promised some")
	all[op].promised = resource.Vector{rapid.SampledFrom([]float64{0, .1, .3}).Draw(t, "promised")}
	op.SetPromised(all[op].promised)
}

func (m *model) draw(t *rapid.T, e *allocation.Element) {
	m.fair = resource.Vector{rapid.SampledFrom([]float64{0, .1, .2, .5}).Draw(t, "fair share")}
	m.demand = resource.Vector{1, 0, 0, .5}
	m.limits, m.filter = resource.Infinite, allocation.NoFilter
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		m.limits.UserSlots = rapid.Int64Range(0, 12).Draw(t, "limit")
	}
	if rapid.IntRange(0, 3).Draw(t, "filtered") == 0 {
		m.filter = rapid.IntRange(0, 1).Draw(t, "filter")
	}
	e.SetLimits(m.limits)
	e.SetFilter(m.filter)
	e.SetShares(m.fair, m.demand, total, allocation.Kinds{})
}

// candidate is a child of a pool, with what may start at or below it, and what it goes by.
type candidate struct {
	child, op    *allocation.Element
	task         allocation.TaskID
	satisfaction float64
	high         bool
}

// search looks at all operations below e for the first one that may start a job.
func search(all map[*allocation.Element]*model, e *allocation.Element, free resource.Amounts, takes []bool) (*allocation.Element, allocation.TaskID) {
	if best := next(all, e, free, takes); best != nil {
		return best.op, best.task
	}
	return nil, allocation.TaskID{}
}

// next is e, with the first one at or below it that may start a job; nil: none may.
func next(all map[*allocation.Element]*model, e *allocation.Element, free resource.Amounts, takes []bool) *candidate {
	m := all[e]
	room := free.Min(m.limits.Sub(e.Usage()))
	if m.filter != allocation.NoFilter && !takes[m.filter] {
		return nil
	}
	usage := resource.Share(e.Usage(), total)
	satisfaction := func(ahead resource.Vector) float64 {
		if fair := m.fair.MaxComponent(); fair > 0 {
			return usage.Add(ahead).MaxComponent() / fair
		}
		return resource.MaxSatisfaction
	}
	if m.operation {
		for _, task := range e.Tasks() {
			if task.Pending > 0 && !task.Closed && task.PerJob.Fits(room) {
				below := preemption.Shares{Usage: usage, Fair: m.fair, Demand: m.demand}.NonBlockedDominates(m.promised, usage)
				return &candidate{e, e, task.TaskID, satisfaction(m.ahead), !m.promised.IsZero() && below}
			}
		}
		return nil
	}
	var best *candidate
	for c, child := range all {
		if child.parent != e {
			continue
		}
		if found := next(all, c, room, takes); found != nil && (best == nil || found.compare(best, all, m.order) < 0) {
			best = found
		}
	}
	if best == nil {
		return nil
	}
	own := satisfaction(m.ahead)
	switch {
	case m.order.ByOperations:
		own = best.satisfaction
	case best.high && m.part > .5:
		own = satisfaction(m.ahead.Scale(.5 / m.part))
	}
	return &candidate{e, best.op, best.task, own, best.high}
}

// compare says which of two siblings is served first in a pool of this order.
func (c *candidate) compare(other *candidate, all map[*allocation.Element]*model, order allocation.Order) int {
	a, b := all[c.child], all[other.child]
	age := cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(c.child.ID(), other.child.ID()))
	switch {
	case order.FIFO:
		return age
	case c.high != other.high && c.high:
		return -1
	case c.high != other.high:
		return 1
	}
	part := func(e *allocation.Element, m *model) float64 {
		usage := resource.Share(e.Usage(), total).MaxComponent()
		if m.fair.MaxComponent() > 0 {
			return usage / m.fair.MaxComponent()
		}
		return usage
	}
	return cmp.Or(cmp.Compare(c.satisfaction, other.satisfaction), cmp.Compare(part(c.child, a), part(other.child, b)), cmp.Compare(a.served, b.served), age)
}
