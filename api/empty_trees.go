package api

import (
	"fmt"
	"slices"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// emptyTrees are the pool trees by name. All of their nodes are considered empty, to find jobs
// that can never start.
type emptyTrees map[string]*emptyTree

type emptyTree struct {
	// Survey has the nodes that accept jobs. The field nodes is their number.
	explain.Survey
	nodes int
	pools pooltree.Tree
	// filters are the node filters of operations and of the pools above them, each once.
	filters []pooltree.Filter
}

// misfits finds the running operations with jobs that can never start, and says why in the words
// of an explanation. The state of any replica is enough for that. It is told of the operations (note), goes
// through the nodes once (survey), and then judges the operations.
type misfits struct {
	alike
	// names says that all who see the texts may read the operations. Otherwise tasks have numbers in them.
	names bool
	trees emptyTrees
	nodes []*statepb.Node
}

// note takes the trees and the nodes of the state, if it has none yet, and the filters of operations. The
// state replaces nodes, and never changes one.
func (m *misfits) note(st *state.State, ops ...*statepb.Operation) {
	for _, op := range ops {
		if !hasJobsToStart(op) {
			continue
		}
		if m.trees == nil {
			m.trees, m.nodes = emptyTrees{}, st.Nodes()
			for _, t := range st.Trees() {
				pools, _, _ := st.Pools(scheduling.TreeName(t.GetName()))
				m.trees[t.GetName()] = &emptyTree{pools: pools}
			}
		}
		m.trees.note(op)
	}
}

// judge finds misfits among operations. Those with filters that are not surveyed are left out.
func (m *misfits) judge(st *state.State, ops ...*statepb.Operation) {
	for _, op := range ops {
		if !hasJobsToStart(op) {
			continue
		}
		if why := m.trees.misfit(op, st.Demand(scheduling.OperationID(op.GetId())), !m.names); why != "" {
			m.add(op.GetId(), why)
		}
	}
}

func hasJobsToStart(op *statepb.Operation) bool {
	return op.GetState() == lifecycle.Running.String() &&
		slices.ContainsFunc(op.GetTasks(), func(t *statepb.Task) bool { return t.GetCounters().GetPending() > 0 })
}

func (trees emptyTrees) note(op *statepb.Operation) {
	for _, in := range op.GetTrees() {
		// The tree of an operation that has ended may be gone.
		if t := trees[in.GetTree()]; t != nil {
			t.gates(in, true)
		}
	}
}

// survey notes the nodes that accept jobs, and which filters each node matches.
func (trees emptyTrees) survey(nodes []*statepb.Node) {
	for _, n := range nodes {
		if t := trees[n.GetTree()]; t != nil && n.GetState() == statepb.NodeOnline && n.GetDrain() == nil {
			t.nodes++
			t.Add(&explain.Row{
				Node: scheduling.NodeID(n.GetId()), Limits: n.GetResources().Amounts(), Schedulable: true,
				Takes: mapped(t.filters, func(f pooltree.Filter) bool { return f.Match(n.GetTags()) }),
			})
		}
	}
}

// maxFilters bounds the filters of a tree that are surveyed at once.
const maxFilters = 64

// gates are the filters of an operation and of the pools above it. The result known is false if one of them
// is not surveyed; with note it will be, as long as there is room.
func (t *emptyTree) gates(in *statepb.OperationTree, note bool) (all []explain.Gate, known bool) {
	// A filter that cannot be parsed is reported when it is set.
	own, _ := pooltree.ParseFilter(in.GetOptions().GetFields()["scheduling_tag_filter"].GetStringValue())
	p := pooltree.Pool{Parent: scheduling.PoolName(in.GetPool()), Options: pooltree.PoolOptions{TagFilter: &own}}
	known = true
	for there := true; there; p, there = t.pools.Pool(p.Parent) {
		f := p.Options.TagFilter
		if f == nil || f.Empty() {
			continue
		}
		at := slices.IndexFunc(t.filters, func(other pooltree.Filter) bool { return other.String() == f.String() })
		if at < 0 && note && len(t.filters) < maxFilters {
			at = len(t.filters)
			t.filters = append(t.filters, *f)
		}
		known = known && at >= 0
		all = append(all, explain.Gate{Pool: p.Name, Filter: f.String(), At: at})
	}
	return all, known
}

// misfit says why jobs of a running operation can never start in any of its trees that have nodes
// for jobs. It is empty if all jobs could start, or no tree has such nodes. demand is the demand of
// the operation. If `hidden` is set, tasks have numbers in place of names.
func (trees emptyTrees) misfit(op *statepb.Operation, demand []state.DemandChanged, hidden bool) string {
	if !hasJobsToStart(op) {
		return ""
	}
	for i, task := range op.GetTasks() {
		jobs := groupsOf(task, demand)
		for j := range jobs {
			if hidden {
				jobs[j].Name = scheduling.TaskName(fmt.Sprint(i + 1))
			}
		}
		var facts []explain.Fact
		for _, in := range op.GetTrees() {
			t := trees[in.GetTree()]
			if t == nil || t.nodes == 0 {
				continue
			}
			gates, known := t.gates(in, false)
			if !known {
				return ""
			}
			facts = append(facts, t.Never(gates, jobs))
		}
		if len(facts) == 0 || slices.Contains(facts, explain.Fact{}) {
			continue
		}
		why := facts[0]
		if r := reserveFacts(op)[task.GetName()]; !hidden && r != nil && why.Resource == r.GetResource() && why.Value == float64(task.GetJobResources().GetMemory()) {
			return why.Text + "; " + r.GetText()
		}
		return why.Text
	}
	return ""
}

// groupsOf returns the jobs of a task that are still to start, those that need the most memory
// first. Pending counts the jobs of a gang that have to start together; it is 0 for other tasks.
func groupsOf(task *statepb.Task, demand []state.DemandChanged) (all []allocation.Task) {
	missing := int64(task.GetGang().GetSize()) - countOf(task.GetGang().GetCompleted()) - task.GetCounters().GetRunning()
	for _, d := range slices.Backward(demand) {
		if d.Pending > 0 && string(d.Task) == task.GetName() {
			n := max(min(d.Pending, missing), 0)
			missing -= n
			all = append(all, allocation.Task{TaskID: allocation.TaskID{Name: d.Task, Group: d.Group}, Pending: n, PerJob: task.ResourcesOf(d.Group).Amounts()})
		}
	}
	return all
}
