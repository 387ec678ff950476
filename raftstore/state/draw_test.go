package state

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// drawCommand draws a command for a state. Most could be carried out; ids come
// from small sets, so that they meet.
func drawCommand(t *rapid.T, s *State, step int) proto.Message {
	g := generator{T: t, state: s, step: step}
	var msg proto.Message
	if prologue := prologue(); step < len(prologue) && g.mostly() {
		msg = prologue[step]
	} else {
		kinds := []func() proto.Message{
			g.live, g.live, g.live, g.live, g.live, g.live, g.live, g.live, g.start, g.start,
			g.grant, g.grant, g.grant, g.grant, g.grant, g.grant, g.finish, g.finish, g.finish, g.finish, g.abortJobs, g.registerNode, g.offline, g.pace, g.drain, g.handOver, g.handOver, g.beginTerm, g.advance, g.assign, g.prepare, g.define, g.pendingReason,
			g.suspend, g.resume, g.abort, g.complete, g.editTree, g.editTree, g.editTree, g.createTree, g.removeTree, g.defaultTree, g.volumes, g.update, g.update, g.admit, g.stop, g.stop, g.preempt, g.preempt, g.preempt,
			g.allOrNone, g.allOrNone, g.updateReserves, g.updateReserves, g.saveProfiles, g.removeProfiles, g.publish, g.editGroup, g.editGroup, g.revoke, g.editAccounts, g.editAccounts, g.editNodeGrant, g.editStore,
		}
		msg = rapid.SampledFrom(kinds).Draw(t, "kind")()
	}
	// Clocks differ by a few seconds, so time goes back now and then.
	complete(msg, epochStart.Add(time.Duration(step+g.pick(6, "clock"))*time.Second))
	return msg
}

// prologue is how most logs begin, so that jobs run soon.
func prologue() []proto.Message {
	spec := specOf(5)
	spec.Tasks[0].Name, spec.Tasks[0].InterruptionSignal, spec.Tasks[0].PortCount = "s", "SIGTERM", 1
	n1 := nodeOf("n1", 5)
	n1.Node.FirstPort, n1.Node.PortCount = 21000, 6
	return append([]proto.Message{
		&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1"},
		n1, nodeOf("n2", 3),
		createPool("a", "", nil),
		createPool("b", "a", map[string]any{"max_running_operation_count": 1}),
		&commandpb.StartOperation{OperationId: "op0", User: "ann", Spec: spec},
	}, roadOf("op0", spec)...)
}

type generator struct {
	*rapid.T
	state *State
	step  int
}

func (g generator) pick(n int, what string) int { return rapid.IntRange(0, n-1).Draw(g.T, what) }

// mostly reports true seven times of eight.
func (g generator) mostly() bool { return g.pick(8, "mostly") != 0 }

func (g generator) one(of []string, what string) string { return rapid.SampledFrom(of).Draw(g.T, what) }

func (g generator) term() uint64 {
	if g.mostly() {
		return g.state.Term().GetTerm()
	}
	return g.state.Term().GetTerm() + 1
}

// operation draws one of those that there are, if there are.
func (g generator) operation() *statepb.Operation {
	var all []*statepb.Operation
	for o := range g.state.Operations() {
		all = append(all, o)
	}
	if len(all) == 0 || g.pick(20, "gone") == 0 {
		return &statepb.Operation{Id: "gone"}
	}
	return rapid.SampledFrom(all).Draw(g.T, "operation")
}

func (g generator) epoch(o *statepb.Operation) uint64 {
	if g.mostly() {
		return o.GetAssignment().GetEpoch()
	}
	return o.GetAssignment().GetEpoch() + 1
}

// live takes the next step in the life of an operation.
func (g generator) live() proto.Message {
	o := g.operation()
	step := func(to lifecycle.State) proto.Message {
		return &commandpb.AdvanceOperation{OperationId: o.GetId(), Term: g.state.Term().GetTerm(), From: o.GetState(), To: to.String()}
	}
	state, err := lifecycle.ParseState(o.GetState())
	if err != nil {
		return g.start()
	}
	if o.GetSuspended() {
		return &commandpb.ResumeOperation{OperationId: o.GetId(), User: "ann"}
	}
	switch state {
	case lifecycle.Starting:
		return step(lifecycle.WaitingForAgent)
	case lifecycle.WaitingForAgent:
		return &commandpb.AssignController{Term: g.state.Term().GetTerm(), Assignments: []*commandpb.ControllerAssignment{
			{OperationId: o.GetId(), Replica: "r1", Epoch: o.GetAssignment().GetEpoch() + 1}}}
	case lifecycle.Initializing:
		return g.atOnce(o, &commandpb.PrepareOperation{OperationId: o.GetId(), Epoch: o.GetAssignment().GetEpoch(), Input: inputOf(o)})
	case lifecycle.Pending:
		m := step(lifecycle.Materializing).(*commandpb.AdvanceOperation)
		if g.pick(2, "in one tree") == 0 {
			m.Trees = []string{rapid.SampledFrom(o.GetTrees()).Draw(g.T, "tree").GetTree()}
		}
		return m
	case lifecycle.Materializing:
		return g.defineFor(o)
	case lifecycle.Completing, lifecycle.Aborting, lifecycle.Failing:
		if jobs := g.state.AllocationsOfOperation(scheduling.OperationID(o.GetId())); len(jobs) > 0 {
			return g.finishOf(o, jobs)
		}
		switch {
		case o.GetTasks() != nil && g.pick(4, "saves") == 0:
			return g.saveProfiles()
		case state == lifecycle.Completing && o.GetSpec().GetType() == lifecycle.Map && o.GetOutput() == nil && g.mostly():
			return g.publishOf(o)
		}
		return step(state + 1)
	}
	if g.pick(2, "finish") == 0 {
		return g.finish()
	}
	return g.grant()
}

func (g generator) beginTerm() proto.Message {
	m := &commandpb.BeginTerm{
		Term:      g.state.Term().GetTerm() + uint64(g.pick(3, "later term")),
		Replica:   g.one([]string{"r1", "r2"}, "replica"),
		ClusterId: g.one([]string{"c1", "c1", "c1", "", "c2"}, "cluster"),
	}
	if g.pick(2, "limits") == 0 {
		m.Limits = &statepb.Limits{
			ArchivedOperations: int32(1 + g.pick(3, "archived")), FinishedJobsPerOperation: int32(1 + g.pick(4, "finished")),
			EventsPerOperation: int32(2 + g.pick(20, "events")), Operations: int32(2 + g.pick(4, "operations")), JobsPerOperation: 9,
			MemoryProfiles: int32(g.pick(3, "profiles")), ByGrant: int32(g.pick(4, "grants")),
			ByBytes: g.pick(2, "bytes") == 0, ByProgress: g.mostly(), OperationBytesPerUser: int64(1+g.pick(40, "user")) << 10,
		}
	}
	return m
}

func (g generator) start() proto.Message {
	spec := &statepb.OperationSpec{
		Type: "vanilla", Pool: g.one([]string{"", "default", "a", "b", "gone", "own", "<Root>"}, "pool"),
		Alias: g.one([]string{"", "", "*x", "*y", "z"}, "alias"), MaxFailedJobCount: int32(g.pick(4, "max failed")),
	}
	if g.pick(3, "trees") == 0 {
		for range 1 + g.pick(2, "more trees") {
			spec.PoolTrees = append(spec.PoolTrees, g.tree())
		}
	}
	if g.pick(4, "per tree") == 0 {
		spec.OptionsPerTree = map[string]*structpb.Struct{g.tree(): optionsOf(map[string]any{"weight": 2, "pool": g.poolName()})}
	}
	for i := range 1 + g.pick(2, "tasks") {
		spec.Tasks = append(spec.Tasks, &statepb.TaskSpec{
			Name: string(rune('s' + i)), JobCount: int32(1 + g.pick(5, "jobs")),
			RestartCompletedJobs: g.pick(5, "restart") == 0, MaxFailedJobCount: int32(g.pick(3, "task max failed")),
			InterruptionSignal: g.one([]string{"", "SIGTERM", "SIGTERM"}, "signal"), PortCount: int32(g.pick(3, "ports")),
		})
	}
	for _, task := range spec.Tasks {
		if task.GetInterruptionSignal() != "" && g.pick(3, "a service") == 0 {
			task.RestartCompletedJobs, task.MaxSurge, task.MinAvailable = true, int32(g.pick(3, "surge")), int32(g.pick(3, "available"))
		}
	}
	if g.pick(4, "account") == 0 {
		spec.Tasks[0].User, spec.Tasks[0].Group = g.one([]string{"build", "1001"}, "as"), g.one([]string{"", "video"}, "in group")
	}
	g.kindOfWork(spec)
	return &commandpb.StartOperation{
		CountFailures: g.pick(2, "count failures") == 0,
		OperationId:   fmt.Sprint("op", g.pick(12, "id")), User: g.one([]string{"ann", "bob"}, "user"),
		MutationId: g.one([]string{"", "", "m1", "m2", "m3"}, "mutation"), Spec: spec,
	}
}

func (g generator) advance() proto.Message {
	o := g.operation()
	m := &commandpb.AdvanceOperation{OperationId: o.GetId(), Term: g.term(), From: o.GetState(),
		To: rapid.SampledFrom(lifecycle.States()).Draw(g.T, "to").String()}
	if g.pick(2, "result") == 0 {
		m.Result = &statepb.Error{Code: 230, Message: "time is over"}
	}
	return m
}

func (g generator) pendingReason() proto.Message {
	return &commandpb.SetPendingReason{OperationId: g.operation().GetId(), Term: g.term(), Reasons: map[string]string{
		g.tree(): g.one([]string{"", "full"}, "reason"),
	}}
}

func (g generator) assign() proto.Message {
	m := &commandpb.AssignController{Term: g.term()}
	for range g.pick(3, "assignments") {
		o := g.operation()
		m.Assignments = append(m.Assignments, &commandpb.ControllerAssignment{
			OperationId: o.GetId(), Replica: g.one([]string{"r1", "r2"}, "replica"),
			Epoch: o.GetAssignment().GetEpoch() + uint64(g.pick(3, "later epoch"))})
	}
	return m
}

func (g generator) prepare() proto.Message {
	o := g.operation()
	m := &commandpb.PrepareOperation{OperationId: o.GetId(), Epoch: g.epoch(o)}
	if g.mostly() {
		m.Input = inputOf(o)
	}
	if g.pick(3, "fails") == 0 {
		m.Error = &statepb.Error{Code: 216, Message: "no input"}
	}
	return g.atOnce(o, m)
}

// atOnce has an operation run at once, or be admitted, or neither.
func (g generator) atOnce(o *statepb.Operation, m *commandpb.PrepareOperation) proto.Message {
	m.Admit = g.pick(3, "waits for its pool") != 0
	if m.Admit && g.mostly() {
		m.Tasks = g.defineFor(o).(*commandpb.DefineTasks).Tasks
	}
	return m
}

func (g generator) define() proto.Message { return g.defineFor(g.operation()) }

func (g generator) defineFor(o *statepb.Operation) proto.Message {
	m := &commandpb.DefineTasks{OperationId: o.GetId(), Epoch: g.epoch(o)}
	for _, t := range o.GetSpec().GetTasks() {
		if g.pick(20, "left out") != 0 {
			d := &commandpb.TaskDefinition{Name: t.GetName(), JobCount: t.GetJobCount(), JobResources: jobSize(), Memory: g.memory()}
			if o.GetSpec().GetType() == lifecycle.Map && g.mostly() {
				g.defineInput(d)
			}
			m.Tasks = append(m.Tasks, d)
		}
	}
	return m
}

// running returns the operations that take grants.
func (g generator) running() []*statepb.Operation {
	var running []*statepb.Operation
	for o := range g.state.InProgress() {
		if o.GetState() == "running" && !o.GetSuspended() {
			running = append(running, o)
		}
	}
	return running
}

func (g generator) grant() proto.Message {
	m := &commandpb.StartAllocations{Term: g.term()}
	for i := range 1 + g.pick(4, "grants") {
		o := g.operation()
		if running := g.running(); len(running) > 0 && g.mostly() {
			o = rapid.SampledFrom(running).Draw(g.T, "running")
		}
		node := g.one([]string{"n1", "n1", "n1", "n2", "n2", "n3"}, "node")
		known, _ := g.state.Node(scheduling.NodeID(node))
		grant := &commandpb.Grant{
			JobId: fmt.Sprintf("j%d-%d", g.step, i), OperationId: o.GetId(), Task: g.one([]string{"s", "s", "s", "t"}, "task"),
			Node: node, NodeIncarnation: known.GetIncarnation(), Resources: jobSize(),
		}
		g.dedicate(grant)
		g.claim(grant)
		if !g.mostly() {
			grant.JobId = "j"
			grant.Resources = &statepb.Resources{UserSlots: 1, Memory: int64(g.pick(5000, "memory"))}
		}
		m.Grants = append(m.Grants, grant)
	}
	return m
}

func (g generator) finish() proto.Message {
	jobs := g.state.Allocations()
	o := g.operation()
	if len(jobs) > 0 && g.mostly() {
		a := rapid.SampledFrom(jobs).Draw(g.T, "job")
		o, _ = g.state.Operation(scheduling.OperationID(a.GetOperationId()))
	}
	return g.finishOf(o, jobs)
}

func (g generator) finishOf(o *statepb.Operation, jobs []*statepb.Allocation) proto.Message {
	m := &commandpb.FinishJobs{OperationId: o.GetId(), Epoch: g.epoch(o)}
	for _, a := range jobs {
		if g.pick(2, "ends") == 0 {
			continue
		}
		j := &statepb.FinishedJob{
			JobId: a.GetJobId(), Node: a.GetNode(), State: g.one([]string{"completed", "completed", "completed", "failed", "aborted", "lost"}, "state"),
			Statistics: &statepb.JobStatistics{MaxMemory: int64(g.pick(100, "used")), CpuUserMicros: 7, RunMillis: 3},
		}
		if j.GetState() == "aborted" {
			j.AbortReason = g.one([]string{"", "preemption", "user_request", "mood"}, "why")
		}
		g.result(a, j)
		j.Rerun, j.Acknowledged = g.pick(4, "rerun") == 0, g.pick(4, "acknowledged") == 0
		if !g.mostly() {
			j.StartTime = timestamppb.New(epochStart.Add(time.Duration(g.pick(300, "began")) * time.Second))
			j.FinishTime = timestamppb.New(epochStart.Add(time.Duration(g.pick(300, "ended")) * time.Second))
		}
		if g.pick(2, "with token") == 0 {
			j.GrantTerm, j.GrantIndex = a.GetGrantTerm(), a.GetGrantIndex()
			if !g.mostly() {
				j.GrantIndex--
			}
		}
		m.Jobs = append(m.Jobs, j)
		if g.pick(6, "twice") == 0 {
			m.Jobs = append(m.Jobs, j)
		}
	}
	return m
}

func (g generator) abortJobs() proto.Message {
	m := &commandpb.AbortAllocations{Term: g.term(), Reason: "node_offline", Node: g.one([]string{"", "n1", "n2"}, "node"), JobIds: []string{"gone"}}
	for _, a := range g.state.Allocations() {
		if g.pick(2, "ends") == 0 {
			m.JobIds = append(m.JobIds, a.GetJobId())
		}
	}
	return m
}

func (g generator) registerNode() proto.Message {
	id := g.one([]string{"n1", "n2", "n3"}, "node")
	known, _ := g.state.Node(scheduling.NodeID(id))
	m := nodeOf(id, int64(g.pick(7, "slots")))
	m.Term = g.term()
	m.Node.Tags = rapid.SampledFrom([][]string{nil, nil, {"gpu"}, {"big"}, {"big", "gpu"}}).Draw(g.T, "tags")
	if g.pick(3, "has ports") > 0 {
		m.Node.FirstPort, m.Node.PortCount = int32(21000+g.pick(4, "first port")), int32(g.pick(9, "ports"))
	}
	m.Node.Incarnation = max(1, known.GetIncarnation()) + uint64(g.pick(4, "later life"))/3
	if !g.mostly() {
		m.Node.Incarnation--
	}
	return m
}

func (g generator) offline() proto.Message {
	id := g.one([]string{"n1", "n2", "n3"}, "node")
	known, _ := g.state.Node(scheduling.NodeID(id))
	return &commandpb.SetNodeOffline{Term: g.term(), Node: id, Incarnation: known.GetIncarnation()}
}

func (g generator) drain() proto.Message {
	id := g.one([]string{"n1", "n2", "n3"}, "node")
	if g.pick(3, "remove") == 0 {
		return &commandpb.RemoveNode{Node: id, User: "ann", Force: g.pick(2, "force") == 0}
	}
	if g.pick(3, "undrain") > 0 {
		return &commandpb.UndrainNode{Node: id}
	}
	return &commandpb.DrainNode{Node: id, User: "ann", Reason: g.one([]string{"", "kernel"}, "reason"), InterruptMillis: g.grace()}
}

func (g generator) suspend() proto.Message {
	return &commandpb.SuspendOperation{OperationId: g.operation().GetId(), User: "ann", AbortRunningJobs: g.pick(2, "with jobs") == 0}
}

func (g generator) resume() proto.Message {
	return &commandpb.ResumeOperation{OperationId: g.operation().GetId(), User: "ann"}
}

func (g generator) abort() proto.Message {
	return &commandpb.AbortOperation{OperationId: g.operation().GetId(), User: "ann", Reason: "changed my mind", InterruptMillis: g.grace()}
}

func (g generator) complete() proto.Message {
	return &commandpb.CompleteOperation{OperationId: g.operation().GetId(), User: "ann"}
}
