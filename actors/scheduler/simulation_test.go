package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/invarianttest"
)

// TestTreeFollowsAnyLog drives a state with random commands, those that the tree
// plans among them, some of which are lost or come late. The tree sees the log
// late. Whenever it has seen all, it is what the state says, and what a new leader
// would make.
func TestTreeFollowsAnyLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		g := chance{t, w}
		for _, node := range []string{"n1", "n2"} {
			w.register(node, 1, 3)
		}
		w.run("op0", "", 4)
		if g.pick(2, "trees") == 0 {
			w.secondTree()
		}
		g.limits()
		// What an operation can use of nodes is found anew with every update.
		w.must(editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{Values: map[string]*structpb.Value{
			"best_allocation_share_update_period": structpb.NewStringValue("1ms")}}}}))
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			g.step()
			if err := invarianttest.Check(w.tree.engine); err != nil {
				t.Fatal(err)
			}
			if g.pick(30, "quiet") == 0 {
				w.heal()
				checkQuiet(w)
			}
		}
		w.heal()
		checkQuiet(w)
		checkNothingRefused(w)
	})
}

type chance struct {
	*rapid.T
	w *world
}

func (g chance) pick(n int, what string) int { return rapid.IntRange(0, n-1).Draw(g.T, what) }

func (g chance) one(of []string, what string) string { return rapid.SampledFrom(of).Draw(g.T, what) }

func (g chance) step() {
	steps := []func(){
		g.deliver, g.deliver, g.deliver, g.offer, g.offer, g.plan, g.plan, g.plan, g.outcome, g.outcome, g.outcome,
		g.live, g.live, g.live, g.live, g.start, g.gang, g.life, g.finish, g.finish, g.finish, g.overdraft, g.abortJobs, g.steer, g.interrupt, g.interrupt, g.hunger, g.node, g.withdraw, g.pool, g.pool, g.limits, g.move, g.others, g.others,
	}
	rapid.SampledFrom(steps).Draw(g.T, "step")()
}

func (g chance) deliver() { g.w.deliver(1 + g.pick(4, "entries")) }

func (g chance) nodeID() string { return g.one([]string{"n1", "n2", "n3"}, "node") }

func (g chance) offer() { g.w.offer(g.nodeID()) }

func (g chance) plan() { g.w.plan(1 + g.pick(3, "nodes")) }

// outcome tells of a plan: committed, lost, or said to be lost and committed.
func (g chance) outcome() {
	w := g.w
	if len(w.plans) == 0 {
		return
	}
	i := g.pick(len(w.plans), "plan")
	p := w.plans[i]
	remove := func() { w.plans = slices.Delete(w.plans, i, i+1) }
	switch g.pick(6, "outcome") {
	case 0:
		if !p.told {
			w.settle(p, lost)
		}
		remove()
	case 1:
		if !p.told {
			w.settle(p, lost)
			w.plans[i].told = true
		}
	case 2:
		answers := w.commit(p)
		w.deliver(len(w.log))
		if !p.told {
			w.settle(p, answers)
		}
		remove()
	default:
		if answers := w.commit(p); !p.told {
			w.settle(p, answers)
		}
		remove()
	}
}

// operation draws one in progress; empty: there is none.
func (g chance) operation() string {
	var all []string
	for op := range g.w.state.InProgress() {
		all = append(all, op.GetId())
	}
	if len(all) == 0 {
		return ""
	}
	return g.one(all, "operation")
}

// live takes operations along, most of them further than one step.
func (g chance) live() {
	id := g.operation()
	for range 1 + g.pick(6, "far") {
		if !g.w.step(id) {
			return
		}
	}
}

func (g chance) start() {
	trees := rapid.SampledFrom([][]string{nil, nil, {"default", "gpu"}, {"gpu"}}).Draw(g.T, "trees")
	g.w.start(fmt.Sprint("op", g.w.index), g.one([]string{"", "a", "b", "c"}, "pool"), int32(1+g.pick(4, "jobs")), trees...)
}

// gang starts an operation of jobs that run together, most of which begins to run.
func (g chance) gang() {
	id, jobs := fmt.Sprint("op", g.w.index), int32(1+g.pick(5, "jobs of the gang"))
	g.w.apply(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: &statepb.OperationSpec{
		Type: "vanilla", Pool: g.one([]string{"", "a", "b", "c"}, "pool"), MaxFailedJobCount: 100, Tasks: []*statepb.TaskSpec{{
			Name: "s", JobCount: jobs, InterruptionSignal: "SIGTERM", Gang: &statepb.GangSpec{Size: int32(g.pick(int(jobs)+1, "size"))}}},
	}})
	for going := true; going; {
		going = g.w.step(id) && g.pick(5, "waits") > 0
	}
}

// overdraft ends a job that has used more than its reserve: it is to get more of its own.
func (g chance) overdraft() {
	op, _ := g.w.Operation(g.operation())
	jobs := g.w.allocations(op.GetId())
	if len(jobs) == 0 {
		return
	}
	a := jobs[g.pick(len(jobs), "job")]
	g.w.apply(&commandpb.FinishJobs{OperationId: op.GetId(), Epoch: op.GetAssignment().GetEpoch(), Jobs: []*statepb.FinishedJob{{
		JobId: a.GetJobId(), Node: a.GetNode(), State: "aborted", AbortReason: "resource_overdraft", Task: a.GetTask(),
		NextReserve: &statepb.CookieReserve{UserOverdrafts: 1, Reserve: &statepb.JobReserve{User: int64(1100 + 100*g.pick(3, "reserve")), Predecessor: a.GetJobId()}},
	}}})
}

// life leads an operation to its end before the tree hears of it, and perhaps
// removes its pool.
func (g chance) life() {
	id, pool := fmt.Sprint("op", g.w.index), g.one([]string{"", "a", "b", "c"}, "pool")
	g.w.run(id, pool, 1)
	g.w.apply(&commandpb.AbortOperation{OperationId: id, User: "ann", Reason: "enough"})
	g.w.step(id)
	g.w.apply(remove(pool))
}

func (g chance) finish() {
	id := g.operation()
	var jobs []*statepb.Allocation
	for _, a := range g.w.allocations(id) {
		if g.pick(2, "ends") == 0 {
			jobs = append(jobs, a)
		}
	}
	if len(jobs) > 0 {
		g.w.finish(id, g.one([]string{"completed", "completed", "failed", "aborted"}, "how"), jobs)
	}
}

func (g chance) abortJobs() {
	msg := &commandpb.AbortAllocations{Term: 1, Reason: "node_offline", Node: g.nodeID()}
	for _, a := range g.w.state.AllocationsOfNode(scheduling.NodeID(msg.Node)) {
		msg.JobIds = append(msg.JobIds, a.GetJobId())
	}
	g.w.apply(msg)
}

// interrupt asks jobs of an operation to go, as a user does; all of them, with the
// operation, or those of a node.
func (g chance) interrupt() {
	id, millis := g.operation(), int64(1000*g.pick(60, "seconds"))
	switch g.pick(4, "what") {
	case 0:
		g.w.apply(&commandpb.AbortOperation{OperationId: id, User: "ann", InterruptMillis: millis})
	case 1:
		g.w.apply(&commandpb.DrainNode{Node: g.nodeID(), User: "ann", InterruptMillis: millis})
	default:
		msg := &commandpb.StopJobs{OperationId: id, Order: &statepb.StopOrder{
			Reason: "interruption_timeout", Interruption: "user_request", GraceMillis: millis, Time: timestamppb.New(g.w.now)}}
		for _, a := range g.w.allocations(id) {
			if g.pick(2, "goes") == 0 {
				msg.JobIds = append(msg.JobIds, a.GetJobId())
			}
		}
		g.w.apply(msg)
	}
}

// hunger says how soon operations starve, and how their jobs go.
func (g chance) hunger() {
	g.w.apply(editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{Values: map[string]*structpb.Value{
		"fair_share_starvation_timeout": structpb.NewStringValue(g.one([]string{"1s", "5s", "30s"}, "starves after")),
		"preemptive_scheduling_backoff": structpb.NewStringValue(g.one([]string{"1s", "5s"}, "backoff")),
	}}}}))
	g.w.apply(&commandpb.UpdateOperation{OperationId: g.operation(), User: "ann", Changes: []*commandpb.OperationChange{{Options: &commandpb.Changes{
		Values: map[string]*structpb.Value{"preemption_mode": structpb.NewStringValue(g.one([]string{"normal", "graceful"}, "mode"))}}}}})
}

func (g chance) steer() {
	id := g.operation()
	g.w.apply([]proto.Message{
		&commandpb.SuspendOperation{OperationId: id, User: "ann"},
		&commandpb.ResumeOperation{OperationId: id, User: "ann"},
		&commandpb.ResumeOperation{OperationId: id, User: "ann"},
		&commandpb.AbortOperation{OperationId: id, User: "ann", Reason: "enough"},
		&commandpb.CompleteOperation{OperationId: id, User: "ann"},
	}[g.pick(5, "how")])
}

func (g chance) node() {
	id := g.nodeID()
	known := g.w.NodeRecord(id)
	if g.pick(3, "offline") == 0 {
		g.w.apply(&commandpb.SetNodeOffline{Term: 1, Node: id, Incarnation: known.GetIncarnation()})
		return
	}
	if g.pick(4, "remove") == 0 {
		g.w.apply(&commandpb.RemoveNode{Node: id, User: "ann", Force: g.pick(2, "force") == 0})
		return
	}
	if g.pick(4, "drain") == 0 {
		if known.GetDrain() == nil {
			g.w.apply(&commandpb.DrainNode{Node: id, User: "ann"})
		} else {
			g.w.apply(&commandpb.UndrainNode{Node: id})
		}
		return
	}
	g.w.register(id, max(1, known.GetIncarnation())+uint64(g.pick(2, "new life")), int64(1+g.pick(5, "slots")),
		rapid.SampledFrom([][]string{nil, nil, {"gpu"}}).Draw(g.T, "tags")...)
}

func (g chance) withdraw() {
	id := g.nodeID()
	if err := g.w.tree.Withdraw(id, g.w.NodeRecord(id).GetResources().Amounts()); err != nil {
		g.Fatal(err)
	}
}

func (g chance) pool() {
	name, parent := g.one([]string{"a", "b", "c"}, "name"), g.one([]string{"", "a", "b", "c"}, "parent")
	switch g.pick(6, "change") {
	case 0:
		g.w.apply(remove(name))
	case 1:
		set := create(name, parent, float64(1+g.pick(3, "weight")))
		g.w.apply(editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Set{Set: set.GetEdits()[0].GetCreate()}}))
	case 2:
		g.w.apply(rename(name, g.one([]string{"a", "b", "c", "d"}, "new name")))
	case 3:
		g.w.apply(filter(g.one([]string{"", "!gpu"}, "filter")))
	default:
		g.w.apply(create(name, parent, float64(1+g.pick(3, "weight"))))
	}
}

func (g chance) move() {
	g.w.apply(move(g.operation(), g.one([]string{"a", "b", "c", "default", "own"}, "to")))
}

// others starts a job on a node of the other tree, as its scheduler does.
func (g chance) others() {
	node := g.w.NodeRecord(g.nodeID())
	if node.GetTree() != "gpu" {
		return
	}
	g.w.jobs++
	g.w.apply(&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{{
		JobId: fmt.Sprint("other", g.w.jobs), OperationId: g.operation(), Task: "s", Node: node.GetId(), NodeIncarnation: node.GetIncarnation(),
		Resources: oneJob(),
	}}})
}

// limits makes the archive short, so that records go before the tree reads them.
func (g chance) limits() {
	g.w.apply(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{
		ArchivedOperations: 1, FinishedJobsPerOperation: 3, EventsPerOperation: 20, Operations: 10, JobsPerOperation: 20,
	}})
}
