// Package statetest makes large states, for benchmarks.
package statetest

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling/statistics"
)

const (
	// Term is the term of the commands.
	Term = 1
	// Pools is how many pools there are, named by Pool.
	Pools = 100
	// Room is how many more jobs a node has room for.
	Room = 2
	// Batch is how many jobs an archived operation has, and a command starts.
	Batch = 100
	// runningEach is how many jobs of an operation in progress run. As many are pending, also when some have ended.
	runningEach = 3000
	// archivedOperations is the default limit of archived operations.
	archivedOperations = 10_000
)

// Crowd is how large a state is.
type Crowd struct {
	// Nodes are named by Node. Running is how many jobs run, as many on each node.
	Nodes, Running int
	// Archived is how many jobs of ended operations are kept: at most 1,000,000.
	Archived int
}

// Node returns the id of the node with a number.
func Node(i int) string { return fmt.Sprintf("node-%05d", i) }

// Pool returns the name of a pool.
func Pool(i int) string { return fmt.Sprintf("pool-%02d", i%Pools) }

// Operation returns the id of an operation in progress.
func Operation(i int) string { return fmt.Sprintf("%08x-0001-4000-8000-%012x", i, i) }

// Job returns the id of a running job.
func Job(i int) string { return fmt.Sprintf("%08x-0002-4000-8000-%012x", i, i) }

// Operations returns how many operations are in progress. Job i is of operation i modulo that.
func (c Crowd) Operations() int { return max(1, c.Running/runningEach) }

// Commands yields the commands that lead from a new state to the crowd.
func (c Crowd) Commands() iter.Seq[proto.Message] {
	return func(yield func(proto.Message) bool) {
		for _, part := range []iter.Seq[proto.Message]{c.begin, c.archived, c.running} {
			for msg := range part {
				if !yield(msg) {
					return
				}
			}
		}
	}
}

func (c Crowd) begin(yield func(proto.Message) bool) {
	pools := &commandpb.EditTree{}
	for i := range Pools {
		pools.Edits = append(pools.Edits, &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: Pool(i)}}})
	}
	first := &commandpb.BeginTerm{Term: Term, Replica: "r1", Limits: state.WithBytes(&statepb.Limits{ArchivedOperations: archivedOperations})}
	if !yield(first) || !yield(pools) {
		return
	}
	for i := range c.Nodes {
		if !yield(&commandpb.RegisterNode{Term: Term, Node: &statepb.Node{
			Id: Node(i), Incarnation: 1, Resources: size(int64(c.Running/c.Nodes + Room)), Host: "host-" + Node(i), Version: "1.0.0",
		}}) {
			return
		}
	}
}

// archived ends operations of Batch jobs each.
func (c Crowd) archived(yield func(proto.Message) bool) {
	for i := range c.Archived / Batch {
		id := fmt.Sprintf("%08x-0003-4000-8000-%012x", i, i)
		grants := &commandpb.StartAllocations{Term: Term}
		ends := &commandpb.FinishJobs{OperationId: id, Epoch: 1}
		for j := range Batch {
			job := fmt.Sprintf("%08x-0004-4000-8000-%012x", i, j)
			grants.Grants = append(grants.Grants, grant(job, id, Node((i*Batch+j)%c.Nodes)))
			ends.Jobs = append(ends.Jobs, End(job, i+j))
		}
		end := &commandpb.AdvanceOperation{OperationId: id, Term: Term, From: "completing", To: "completed"}
		for _, msg := range append(road(id, i, Batch, false), grants, ends, end) {
			if !yield(msg) {
				return
			}
		}
	}
}

// running starts operations, and as many jobs on each node.
func (c Crowd) running(yield func(proto.Message) bool) {
	for i := range c.Operations() {
		for _, msg := range road(Operation(i), i, 2*runningEach, true) {
			if !yield(msg) {
				return
			}
		}
	}
	for first := 0; first < c.Running; first += Batch {
		grants := &commandpb.StartAllocations{Term: Term}
		for i := first; i < min(first+Batch, c.Running); i++ {
			grants.Grants = append(grants.Grants, c.Grant(i))
		}
		if !yield(grants) {
			return
		}
	}
}

// Grant returns the grant of a running job. Those after the first Running are of jobs that may start when as many
// earlier ones have ended.
func (c Crowd) Grant(i int) *commandpb.Grant {
	return grant(Job(i), Operation(i%c.Operations()), Node(i%c.Nodes))
}

func grant(job, operation, node string) *commandpb.Grant {
	return &commandpb.Grant{JobId: job, OperationId: operation, Task: "task", Node: node, NodeIncarnation: 1, Resources: size(1)}
}

// End returns the end of a job as agents report it: measured, and with a sample of its memory.
func End(job string, seed int) *statepb.FinishedJob {
	var values statistics.Values
	for i, d := range statistics.All() {
		values.Put(d.Name, int64(1000*i+seed%97))
	}
	packed, _ := values.Pack()
	return &statepb.FinishedJob{
		JobId: job, State: "completed", StartTime: &timestamppb.Timestamp{Seconds: 1_790_000_000, Nanos: int32(seed)},
		Statistics: &statepb.JobStatistics{Packed: packed}, Sample: &statepb.MemorySample{User: 0.2, Proxy: 1},
	}
}

// size returns what a number of jobs take.
func size(jobs int64) *statepb.Resources {
	return &statepb.Resources{UserSlots: jobs, CpuHundredths: 100 * jobs, Memory: jobs << 30}
}

// road returns the commands that start an operation, whose jobs may be wanted again, and lead it to running.
func road(id string, i, jobs int, again bool) []proto.Message {
	spec := &statepb.OperationSpec{
		Type: "vanilla", MaxFailedJobCount: 10, Pool: Pool(i),
		Tasks: []*statepb.TaskSpec{{
			Name: "task", JobCount: int32(jobs), RestartCompletedJobs: again, Argv: []string{"/usr/bin/python3", "/srv/jobs/render.py", "--frame", "$WEIR_JOB_COOKIE"},
		}},
	}
	return []proto.Message{
		&commandpb.StartOperation{OperationId: id, User: fmt.Sprint("user-", i%50), Spec: spec},
		&commandpb.AdvanceOperation{OperationId: id, Term: Term, From: "starting", To: "waiting_for_agent"},
		&commandpb.AssignController{Term: Term, Assignments: []*commandpb.ControllerAssignment{{OperationId: id, Replica: "r1", Epoch: 1}}},
		&commandpb.PrepareOperation{OperationId: id, Epoch: 1},
		&commandpb.AdvanceOperation{OperationId: id, Term: Term, From: "pending", To: "materializing"},
		&commandpb.DefineTasks{OperationId: id, Epoch: 1, Tasks: []*commandpb.TaskDefinition{{Name: "task", JobCount: int32(jobs), JobResources: size(1)}}},
	}
}
