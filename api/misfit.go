package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// hosts are online nodes, considered empty, to find jobs that can never start.
type hosts []*statepb.Node

// forest holds the hosts and the pools of each pool tree by name.
type forest struct {
	hosts map[string]hosts
	pools map[string]pooltree.Tree
}

func onlineHosts(st *state.State) forest {
	online := forest{hosts: make(map[string]hosts), pools: make(map[string]pooltree.Tree)}
	for _, n := range st.Nodes() {
		if n.GetState() == statepb.NodeOnline {
			online.hosts[n.GetTree()] = append(online.hosts[n.GetTree()], n)
		}
	}
	for _, t := range st.Trees() {
		online.pools[t.GetName()], _, _ = st.Pools(scheduling.TreeName(t.GetName()))
	}
	return online
}

// of returns the hosts in the trees of an operation that match its scheduling_tag_filter and
// those of its pools. It also describes the first filter that excludes a host; empty if none
// does.
func (f forest) of(op *statepb.Operation) (all hosts, filter string) {
	for _, in := range op.GetTrees() {
		here := f.hosts[in.GetTree()]
		pass := func(tags pooltree.Filter, of string) {
			match := slices.DeleteFunc(slices.Clone(here), func(n *statepb.Node) bool { return !tags.Match(n.GetTags()) })
			if len(match) < len(here) {
				filter = cmp.Or(filter, fmt.Sprintf("the scheduling_tag_filter %q of %s", tags, of))
			}
			here = match
		}
		// A filter that cannot be parsed is reported when it is set.
		if tags, err := pooltree.ParseFilter(in.GetOptions().GetFields()["scheduling_tag_filter"].GetStringValue()); err == nil && !tags.Empty() {
			pass(tags, "the operation")
		}
		p, known := f.pools[in.GetTree()].Pool(scheduling.PoolName(in.GetPool()))
		for ; known; p, known = f.pools[in.GetTree()].Pool(p.Parent) {
			if tags := p.Options.TagFilter; tags != nil && !tags.Empty() {
				pass(*tags, fmt.Sprintf("pool %q", p.Name))
			}
		}
		all = append(slices.Clip(all), here...)
	}
	return all, filter
}

// misfit says which task of a running operation asks for more than any online node of its
// trees has, even empty, and why; empty if there is no such task, or its trees have no online
// node. If filters exclude all online nodes, it says so. demand is the demand of the operation,
// in which jobs aborted for overdraft have groups of their own, by the size of their reserve.
func (f forest) misfit(op *statepb.Operation, demand []state.DemandChanged) string {
	h, filter := f.of(op)
	if op.GetState() != lifecycle.Running.String() || len(h) == 0 && filter == "" {
		return ""
	}
	for _, task := range op.GetTasks() {
		if task.GetCounters().GetPending() == 0 {
			continue
		}
		if len(h) == 0 {
			return fmt.Sprintf("no online node of its pool trees has the tags that %s asks for", filter)
		}
		asked := task.GetJobResources().Amounts()
		if !h.fit(asked) {
			return fmt.Sprintf("a job of task %q asks for %s", task.GetName(), h.largest(asked, reserveOfLimit(op, task)))
		}
		if task.GetGang() != nil && task.GetCounters().GetRunning() == 0 {
			if why := h.misfitOfGang(task.GetName(), togetherOf(op, task, demand)); why != "" {
				return why
			}
		}
	}
	if len(h) == 0 {
		return ""
	}
	for _, waits := range demand {
		i := slices.IndexFunc(op.GetTasks(), func(t *statepb.Task) bool { return t.GetName() == string(waits.Task) })
		if i < 0 || waits.Group == 0 || waits.Pending == 0 {
			continue
		}
		if asked := op.GetTasks()[i].ResourcesOf(waits.Group).Amounts(); !h.fit(asked) {
			return fmt.Sprintf("a job of task %q asks for %s", waits.Task, h.largest(asked, ", reserved since it was aborted for more than it had"))
		}
	}
	return ""
}

// reserveOfLimit says how the memory that jobs of a task ask for follows from their
// memory_limit; empty if the reserve is not known.
func reserveOfLimit(op *statepb.Operation, task *statepb.Task) string {
	limit, reserve := describedTask(op, task.GetName()).GetMemoryLimit(), task.GetMemory().GetReserve()
	if limit == 0 || reserve == nil {
		return ""
	}
	return fmt.Sprintf(", %.0f%% of its memory_limit of %s and what its job proxy takes", 100*float64(reserve.GetUser())/float64(limit), resource.ShowSize(limit))
}

// fit reports whether an empty node could hold a job.
func (h hosts) fit(asked resource.Amounts) bool {
	return slices.ContainsFunc(h, func(n *statepb.Node) bool { return asked.Fits(n.GetResources().Amounts()) })
}

// togetherOf returns the jobs of a task that have to start together, grouped by the resources
// they need, the largest first.
func togetherOf(op *statepb.Operation, task *statepb.Task, demand []state.DemandChanged) (jobs []allocation.Task) {
	spec := describedTask(op, task.GetName())
	missing := cmp.Or(int64(spec.GetGang().GetSize()), int64(spec.GetJobCount()), task.GetCounters().GetPending())
	missing -= countOf(task.GetGang().GetCompleted())
	for _, d := range demand {
		if string(d.Task) == task.GetName() && d.Group != 0 {
			jobs = append(jobs, allocation.Task{TaskID: allocation.TaskID{Group: d.Group}, Pending: d.Pending, PerJob: task.ResourcesOf(d.Group).Amounts()})
		}
	}
	slices.SortFunc(jobs, func(a, b allocation.Task) int { return a.Compare(b.TaskID) })
	rest := task.GetCounters().GetPending()
	for i := range jobs {
		rest -= jobs[i].Pending
	}
	jobs = append(jobs, allocation.Task{Pending: max(rest, 0), PerJob: task.GetJobResources().Amounts()})
	for i := range jobs {
		jobs[i].Pending = max(min(jobs[i].Pending, missing), 0)
		missing -= jobs[i].Pending
	}
	return jobs
}

// misfitOfGang says how many jobs of a gang fit at once on empty nodes that are not drained,
// in the tree where most fit, and which resource runs out; empty if all fit.
func (h hosts) misfitOfGang(task string, jobs []allocation.Task) string {
	trees := map[string][]allocation.Hosts{}
	for _, n := range h {
		trees[n.GetTree()] = append(trees[n.GetTree()], allocation.Hosts{Limits: n.GetResources().Amounts(), Nodes: takesJobs(n)})
	}
	var best allocation.Fit
	var in []allocation.Hosts
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		if fit := allocation.Together(jobs, slices.Values(trees[name])); in == nil || fit.Jobs > best.Jobs {
			best, in = fit, trees[name]
		}
	}
	if best.All() {
		return ""
	}
	l := best.Lacks(slices.Values(in))
	show := func(n int64) string { return amount(resource.Amounts{}.With(l.Resource, n), l.Resource) }
	why := fmt.Sprintf("together they need %s, and these have %s", show(l.Needs), show(l.Has))
	if l.Needs <= l.Has {
		why = fmt.Sprintf("in all these have enough, in pieces that are too small; most of them run out of %s first, and each job needs %s", l.Resource, show(l.Each))
	}
	return fmt.Sprintf("%d jobs of task %q are a gang, which starts all at once, and the nodes of its pool tree that take jobs hold %d of them at most, even when empty: %s", best.Of, task, best.Jobs, why)
}

// takesJobs returns 0 for a drained node, else 1.
func takesJobs(n *statepb.Node) int64 {
	if n.GetDrain() != nil {
		return 0
	}
	return 1
}

// largest says which resource no node has enough of, and which node has most of it. If that
// resource is memory, why is added to explain the amount.
func (h hosts) largest(asked resource.Amounts, why string) string {
	var all resource.Amounts
	for _, n := range h {
		all = all.Max(n.GetResources().Amounts())
	}
	kind, lacking := asked.Lacking(all)
	if !lacking {
		return fmt.Sprintf("%s, and no online node of its pool trees has all of that at once", amounts(asked))
	}
	most := slices.MaxFunc(h, func(a, b *statepb.Node) int {
		return cmp.Compare(a.GetResources().Amounts().Of(kind), b.GetResources().Amounts().Of(kind))
	})
	if kind != resource.Memory {
		why = ""
	}
	return fmt.Sprintf("%s%s, more than any online node of its pool trees has: the largest, %s, has %s", amount(asked, kind), why, most.GetId(), amount(most.GetResources().Amounts(), kind))
}

// amount shows one kind of resource for people.
func amount(a resource.Amounts, kind resource.Kind) string {
	switch kind {
	case resource.CPU:
		return a.CPU.String() + " cpu"
	case resource.Memory:
		return resource.ShowSize(a.Memory) + " memory"
	default:
		return fmt.Sprintf("%d %s", a.Of(kind), kind)
	}
}

// amounts shows all resources that are not zero.
func amounts(asked resource.Amounts) string {
	var parts []string
	for i := range resource.Count {
		if kind := resource.Kind(i); asked.Of(kind) > 0 {
			parts = append(parts, amount(asked, kind))
		}
	}
	return strings.Join(parts, ", ")
}

// misfitsOf says which operations have jobs that no node can hold.
func misfitsOf(of alike) []string {
	switch of.count {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("operation %s waits: %s", of.first, of.why)}
	default:
		return []string{fmt.Sprintf("%d operations have jobs that no online node of their pool trees can hold, such as %s: %s", of.count, of.first, of.why)}
	}
}
