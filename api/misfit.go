package api

import (
	"cmp"
	"fmt"
	"slices"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// hosts are nodes that are online, for the question what they could ever hold.
type hosts []*statepb.Node

// forest has the hosts of each pool tree by its name.
type forest map[string]hosts

func onlineHosts(st *state.State) forest {
	online := make(forest)
	for _, n := range st.Nodes() {
		if n.GetState() == statepb.NodeOnline {
			online[n.GetTree()] = append(online[n.GetTree()], n)
		}
	}
	return online
}

// of returns the hosts of the trees that an operation is in.
func (f forest) of(op *statepb.Operation) hosts {
	var all hosts
	for i, in := range op.GetTrees() {
		if i == 0 {
			all = slices.Clip(f[in.GetTree()])
		} else {
			all = append(all, f[in.GetTree()]...)
		}
	}
	return all
}

// misfit says which task of a running operation asks for more than any node of its
// trees that is online has, even empty, and why; empty when there is none, or no node
// at all.
func (f forest) misfit(op *statepb.Operation) string {
	h := f.of(op)
	if op.GetState() != lifecycle.Running.String() || len(h) == 0 {
		return ""
	}
	for _, task := range op.GetTasks() {
		if task.GetCounters().GetPending() == 0 || task.GetCounters().GetRunning() > 0 {
			continue
		}
		if asked := task.GetJobResources().Amounts(); !h.fit(asked) {
			return fmt.Sprintf("a job of task %q asks for %s", task.GetName(), h.largest(asked))
		}
	}
	return ""
}

// fit reports whether an empty node could hold a job.
func (h hosts) fit(asked resource.Amounts) bool {
	return slices.ContainsFunc(h, func(n *statepb.Node) bool { return asked.Fits(n.GetResources().Amounts()) })
}

// largest says what is asked for in vain, and which node has most of it.
func (h hosts) largest(asked resource.Amounts) string {
	var all resource.Amounts
	for _, n := range h {
		all = all.Max(n.GetResources().Amounts())
	}
	kind, lacking := asked.Lacking(all)
	if !lacking {
		return fmt.Sprintf("%v, and no online node of its pool trees has all of that at once", asked)
	}
	most := slices.MaxFunc(h, func(a, b *statepb.Node) int {
		return cmp.Compare(a.GetResources().Amounts().Of(kind), b.GetResources().Amounts().Of(kind))
	})
	return fmt.Sprintf("%s, more than any online node of its pool trees has: the largest, %s, has %s", amount(asked, kind), most.GetId(), amount(most.GetResources().Amounts(), kind))
}

// amount shows one kind of resource for people.
func amount(a resource.Amounts, kind resource.Kind) string {
	switch kind {
	case resource.CPU:
		return a.CPU.String() + " cpu"
	case resource.Memory:
		return fmt.Sprintf("%.1f GiB memory", float64(a.Memory)/(1<<30))
	default:
		return fmt.Sprintf("%d %s", a.Of(kind), kind)
	}
}

// misfits gathers the operations with jobs that no node can hold.
type misfits struct {
	count int
	// first is one of them, and why is what is said of it.
	first, why string
}

func (m *misfits) look(op *statepb.Operation, online forest) {
	why := online.misfit(op)
	if why == "" {
		return
	}
	if m.count++; m.count == 1 {
		m.first, m.why = op.GetId(), why
	}
}

func (m *misfits) list() []string {
	switch m.count {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("operation %s waits: %s", m.first, m.why)}
	default:
		return []string{fmt.Sprintf("%d operations have jobs that no online node of their pool trees can hold, such as %s: %s", m.count, m.first, m.why)}
	}
}
