package allocation_test

import (
	"cmp"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
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
		for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
			p := allocation.NewPool(fmt.Sprint("p", i))
			m := &model{parent: rapid.SampledFrom(pools).Draw(t, "parent")}
			all[p] = m
			m.draw(t, p)
			p.Attach(m.parent)
			pools = append(pools, p)
		}
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
		var f allocation.Filler
		for range rapid.IntRange(1, 10).Draw(t, "nodes") {
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
			if rapid.Bool().Draw(t, "move") {
				op := rapid.SampledFrom(ops).Draw(t, "operation that moves")
				op.Detach()
				all[op].parent = rapid.SampledFrom(pools).Draw(t, "to")
				op.Attach(all[op].parent)
			}
			if rapid.Bool().Draw(t, "refresh") {
				root.Refresh()
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
					t.Fatalf("chosen is %s/%v, the least satisfied that fits is %v/%v", chosen.ID(), task.TaskID, want, wantTask)
				}
				rest = rest.Sub(task.PerJob)
			})
			if left, task := search(all, root, rest, takes); left != nil {
				t.Fatalf("%s/%v fits and is not started", left.ID(), task)
			}
		}
	})
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
	e.SetShares(m.fair, m.demand, total)
}

// search looks at all operations below e for the first one that may start a job.
func search(all map[*allocation.Element]*model, e *allocation.Element, free resource.Amounts, takes []bool) (*allocation.Element, allocation.TaskID) {
	m := all[e]
	room := free.Min(m.limits.Sub(e.Usage()))
	if m.filter != allocation.NoFilter && !takes[m.filter] {
		return nil, allocation.TaskID{}
	}
	if m.operation {
		for _, task := range e.Tasks() {
			if task.Pending > 0 && !task.Closed && task.PerJob.Fits(room) {
				return e, task.TaskID
			}
		}
		return nil, allocation.TaskID{}
	}
	type candidate struct {
		child, op    *allocation.Element
		task         allocation.TaskID
		satisfaction float64
	}
	var best *candidate
	for c, m := range all {
		if m.parent != e {
			continue
		}
		op, task := search(all, c, room, takes)
		if op == nil {
			continue
		}
		of := all[op]
		found := &candidate{c, op, task, fairshare.Satisfaction(resource.Share(op.Usage(), total), of.fair, of.demand)}
		if found.satisfaction != op.Satisfaction() {
			panic(fmt.Sprintf("%s: satisfaction is %v, kept is %v", op.ID(), found.satisfaction, op.Satisfaction()))
		}
		if best == nil || cmp.Or(cmp.Compare(found.satisfaction, best.satisfaction), cmp.Compare(all[c].rank, all[best.child].rank), cmp.Compare(c.ID(), best.child.ID())) < 0 {
			best = found
		}
	}
	if best == nil {
		return nil, allocation.TaskID{}
	}
	return best.op, best.task
}
