package scheduler

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// checkQuiet compares a tree that has seen all with the state, and with the tree
// of a new leader.
func checkQuiet(w *world) {
	w.t.Helper()
	got, want := engineOf(w.tree.Snapshot()), stateOf(w)
	if !maps.Equal(got, want) {
		w.t.Fatalf("the engine has %v\nthe state has %v", got, want)
	}
	if len(w.tree.tickets) != 0 || w.tree.Snapshot().InFlight != 0 {
		w.t.Fatalf("nothing is on its way, but %d starts are counted", w.tree.Snapshot().InFlight)
	}
	rebuilt := w.rebuild()
	w.now = w.now.Add(time.Second)
	for _, tree := range []*Tree{rebuilt, w.tree} {
		for _, node := range w.nodes() {
			hear := tree.Offer
			if !w.tree.nodes.ready[node.GetId()] {
				hear = tree.Withdraw
			}
			if err := hear(node.GetId(), node.GetResources().Amounts()); err != nil {
				w.t.Fatalf("a node is heard: %v", err)
			}
		}
		if err := tree.Tick(w.now); err != nil {
			w.t.Fatalf("tick: %v", err)
		}
	}
	everything := cmp.Exporter(func(reflect.Type) bool { return true })
	old, other := withoutMemory(w.tree.Snapshot()), withoutMemory(rebuilt.Snapshot())
	if !sameClaims(old, other) {
		old, other = withoutClaims(old), withoutClaims(other)
	}
	if diff := cmp.Diff(old, other, everything); diff != "" {
		w.t.Fatalf("a new leader would see (+), the old one sees (-):\n%s", diff)
	}
	if !reflect.DeepEqual(w.tree.known, rebuilt.known) || !maps.Equal(w.tree.nodes.incarnations, rebuilt.nodes.incarnations) {
		w.t.Fatalf("a new leader would know\n%v %v\nthe old one knows\n%v %v", rebuilt.known, rebuilt.nodes.incarnations, w.tree.known, w.tree.nodes.incarnations)
	}
	for id := range w.tree.known {
		before, after := w.tree.engine.JobsOf(scheduling.OperationID(id)), rebuilt.engine.JobsOf(scheduling.OperationID(id))
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) {
			w.t.Fatalf("a new leader would know the jobs %v of operation %s, the old one knows %v", after, id, before)
		}
	}
}

// withoutMemory forgets for how long elements have been below their fair share, and
// when preemption was tried, and where and for how long room is held: a new leader counts anew. When
// a plan was made and when it was committed differ, too.
func withoutMemory(s engine.Snapshot) engine.Snapshot {
	for i := range s.Pools {
		s.Pools[i].Shares.Clock = preemption.Clock{}
	}
	for i := range s.Operations {
		s.Operations[i].Shares.Clock = preemption.Clock{}
		// Jobs of a gang wait in the order while room is held for them.
		s.Operations[i].SchedulingIndex = 0
		for t := range s.Operations[i].Tasks {
			s.Operations[i].Tasks[t].Gang.Until = time.Time{}
		}
	}
	for i := range s.Nodes {
		s.Nodes[i].Attempted, s.Nodes[i].Reserved = time.Time{}, ""
	}
	for i := range s.Claims {
		s.Claims[i].Ordered, s.Claims[i].Expires = time.Time{}, time.Time{}
	}
	return s
}

// withoutClaims forgets what is held for whom, and all that follows from it.
func withoutClaims(s engine.Snapshot) engine.Snapshot {
	s.Claims = nil
	for i := range s.Pools {
		s.Pools[i].Shares = engine.Shares{Weight: s.Pools[i].Shares.Weight, Limits: s.Pools[i].Shares.Limits, Leaving: s.Pools[i].Shares.Leaving}
	}
	for i := range s.Operations {
		op := &s.Operations[i]
		op.Shares = engine.Shares{Weight: op.Shares.Weight, Limits: op.Shares.Limits, Leaving: op.Shares.Leaving}
		op.Bounds = preemption.Bounds{}
		for t := range op.Tasks {
			op.Tasks[t].Claimed, op.Tasks[t].Effective, op.Tasks[t].Gang.Gathered = 0, 0, 0
		}
	}
	for i := range s.Nodes {
		s.Nodes[i].Claimed = resource.Amounts{}
	}
	return s
}

// sameClaims reports whether a new leader holds the same for the same. It need not: it
// knows neither of room that a gang holds without victims, nor that a claim was given up.
func sameClaims(a, b engine.Snapshot) bool {
	return slices.EqualFunc(a.Claims, b.Claims, func(a, b engine.ClaimView) bool {
		return a.Node == b.Node && a.Beneficiary == b.Beneficiary && a.Victims == b.Victims
	})
}

// engineOf writes a snapshot as facts.
func engineOf(s engine.Snapshot) map[string]string {
	facts := map[string]string{}
	for _, pool := range s.Pools {
		if pool.Name != scheduling.RootPool {
			facts["pool "+string(pool.Name)] = fmt.Sprint(pool.Parent, " ", pool.Shares.Weight)
		}
	}
	for _, op := range s.Operations {
		facts["operation "+string(op.ID)] = fmt.Sprintf("pool %s, enabled %t, suspended %t, %d jobs", op.Pool, op.Enabled, op.Suspended, op.Allocations)
		for _, task := range op.Tasks {
			// What is held for a task is as good as started.
			claimed := 0
			for _, c := range s.Claims {
				if c.Operation == op.ID && c.Task == task.Name && c.Group == task.Group {
					claimed++
				}
			}
			facts[fmt.Sprintf("task %s/%s/%d", op.ID, task.Name, task.Group)] = fmt.Sprintf("%d pending, %d may start", task.Pending, int(task.Effective)+claimed)
		}
	}
	for _, node := range s.Nodes {
		facts["node "+string(node.ID)] = fmt.Sprint(node.Limits, " used ", node.Usage)
	}
	return facts
}

// stateOf writes the same facts as the state has them.
func stateOf(w *world) map[string]string {
	facts := map[string]string{}
	pools, _, _ := w.state.Pools(scheduling.DefaultTree)
	for _, pool := range pools.ParentsFirst() {
		effective, err := pools.Effective(pool.Name)
		if err != nil {
			w.t.Fatalf("pool %q: %v", pool.Name, err)
		}
		facts["pool "+string(pool.Name)] = fmt.Sprint(pool.Parent, " ", effective.Weight)
	}
	for op := range w.operations() {
		in := op.In(string(scheduling.DefaultTree))
		jobs := slices.DeleteFunc(w.allocations(op.GetId()), func(a *statepb.Allocation) bool {
			return w.NodeRecord(a.GetNode()).GetTree() != string(scheduling.DefaultTree)
		})
		facts["operation "+op.GetId()] = fmt.Sprintf("pool %s, enabled %t, suspended %t, %d jobs", in.GetPool(), op.GetState() == "running" && in.GetAdmitted(),
			op.GetSuspended(), len(jobs))
		for _, d := range w.state.Demand(scheduling.OperationID(op.GetId())) {
			if op.GetState() == "completing" || op.GetState() == "failing" || op.GetState() == "aborting" {
				d.Pending = 0 // Wanted no more.
			}
			if d.Group == 0 || d.Pending > 0 {
				facts[fmt.Sprintf("task %s/%s/%d", op.GetId(), d.Task, d.Group)] = fmt.Sprintf("%d pending, %d may start", d.Pending, d.Pending)
			}
		}
	}
	for _, node := range w.nodes() {
		facts["node "+node.GetId()] = fmt.Sprint(node.GetResources().Amounts(), " used ", w.state.NodeUsage(scheduling.NodeID(node.GetId())))
	}
	return facts
}

// checkNothingRefused has a tree that has seen all plan for all nodes: the state
// carries out all of it, and nothing more would fit but for what is held for others.
func checkNothingRefused(w *world) {
	w.t.Helper()
	// What is given up on one node may start on another at the next look.
	for range 2 {
		for _, node := range w.nodes() {
			w.offer(node.GetId())
		}
		w.plan(len(w.state.Nodes()))
		for _, p := range w.plans {
			answers := w.commit(p)
			for i, answer := range answers.Grants {
				if answer.GetRefusal() != "" {
					w.t.Fatalf("grant of %s: %s: %s", p.Jobs[i], answer.GetRefusal(), answer.GetMessage())
				}
			}
			for i, answer := range answers.Preemptions {
				if answer.GetRefusal() != "" {
					w.t.Fatalf("preemption of %s: %s: %s", p.Victims[i], answer.GetRefusal(), answer.GetMessage())
				}
			}
			w.settle(p, answers)
		}
		w.plans = nil
		w.deliver(len(w.log))
	}
	claimed := map[string]bool{}
	// A job for which room is held somewhere starts nowhere else.
	held := map[string]int64{}
	snapshot := w.tree.Snapshot()
	for _, c := range snapshot.Claims {
		claimed[string(c.Node)] = true
		held[fmt.Sprint(c.Operation, c.Task, c.Group)]++
	}
	for _, n := range snapshot.Nodes {
		if n.Reserved != "" {
			claimed[string(n.ID)] = true
		}
	}
	for op := range w.operations() {
		in := op.In(string(scheduling.DefaultTree))
		if in.GetOptions().GetFields()["preemption_mode"].GetStringValue() == "graceful" {
			// It starts nothing that it would have to give back at once.
			continue
		}
		for _, d := range w.state.Demand(scheduling.OperationID(op.GetId())) {
			if !in.GetAdmitted() || op.GetState() != "running" || op.GetSuspended() || d.Pending <= held[fmt.Sprint(d.ID, d.Task, d.Group)] || op.GetSpec().GetTasks()[0].GetGang() != nil {
				continue
			}
			needs := oneJob().Amounts()
			needs.Memory = max(needs.Memory, d.Group)
			for _, node := range w.nodes() {
				used := w.state.NodeUsage(scheduling.NodeID(node.GetId()))
				if used.Add(needs).Fits(node.GetResources().Amounts()) && node.GetState() == "online" && node.GetDrain() == nil && !claimed[node.GetId()] {
					w.t.Fatalf("task %s/%s has pending jobs and node %s has room", op.GetId(), d.Task, node.GetId())
				}
			}
		}
	}
}
