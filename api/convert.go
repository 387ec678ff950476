package api

import (
	"context"
	"fmt"
	"maps"
	"math"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/spec"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// mapped returns the results of f for all elements.
func mapped[T, U any](all []T, f func(T) U) []U {
	out := make([]U, len(all))
	for i, one := range all {
		out[i] = f(one)
	}
	return out
}

// saturated caps a count at 2,147,483,647, the most that an int32 field holds.
func saturated(n int64) int32 { return int32(min(n, math.MaxInt32)) }

func resourcesOf(a resource.Amounts) *apipb.Resources {
	return &apipb.Resources{UserSlots: a.UserSlots, Cpu: a.CPU.Cores(), Gpu: a.GPU, Memory: a.Memory, Network: a.Network}
}

func errorOf(e *statepb.Error) *apipb.Error {
	if e == nil {
		return nil
	}
	return &apipb.Error{Code: e.GetCode(), Message: e.GetMessage(), Attributes: e.GetAttributes(), Inner: mapped(e.GetInner(), errorOf)}
}

// resultOf shows why an operation failed. Jobs may still fail while it ends, so the number of
// failed jobs in the error is brought up to date, by the same rule as the limit.
func resultOf(op *statepb.Operation) *apipb.Error {
	out := errorOf(op.GetResult())
	if out.GetCode() != int32(lifecycle.CodeMaxFailedJobs) {
		return out
	}
	failed := op.GetFailedJobCount()
	for _, task := range op.GetTasks() {
		if out.GetAttributes()["limited"] == "task" && out.GetAttributes()["task"] == task.GetName() {
			failed = state.CountedFailures(describedTask(op, task.GetName()), task)
		}
	}
	out.Attributes = maps.Clone(out.GetAttributes())
	out.Attributes["failed_job_count"] = fmt.Sprint(failed)
	if out.Message = fmt.Sprintf("%d failed jobs: limit reached", failed); failed == 1 {
		out.Message = "1 failed job: limit reached"
	}
	return out
}

// operationOf shows an operation. If `full` is set, it adds the spec, annotations, waste and
// preemptions.
func operationOf(op *statepb.Operation, full bool) (*apipb.Operation, error) {
	out := &apipb.Operation{
		Id: op.GetId(), Type: op.GetSpec().GetType(), State: op.GetState(), Suspended: op.GetSuspended(), User: op.GetUser(),
		Title: op.GetSpec().GetTitle(), Alias: op.GetSpec().GetAlias(),
		StartTime: op.GetStartTime(), FinishTime: op.GetFinishTime(), Result: resultOf(op),
		Controller: op.GetAssignment().GetReplica(), ControllerEpoch: op.GetAssignment().GetEpoch(), PendingReason: op.GetPendingReason(),
		Progress: &apipb.TaskProgress{}, Output: outputOf(op.GetOutput()), RetryOf: op.GetRetryOf(),
		Labels: spec.Labels(op.GetSpec()), StateSince: stateSince(op),
	}
	addTrees(out, op)
	for _, task := range op.GetTasks() {
		progress := progressOf(op, task)
		out.Tasks = append(out.Tasks, progress)
		addProgress(out.Progress, progress)
	}
	if !full {
		return out, nil
	}
	out.SpecCut = op.GetSpecCut()
	out.PreemptedOthers = maps.Clone(op.GetPreemptedOthers())
	out.Waste = mapped(op.GetWaste(), wasteOf)
	description, err := spec.Format(op.GetSpec())
	if err == nil {
		out.Spec, err = structpb.NewStruct(description)
	}
	if err != nil {
		return nil, fmt.Errorf("show spec of operation %s: %w", op.GetId(), err)
	}
	annotations, err := spec.Annotations(op.GetSpec())
	if err == nil && annotations != nil {
		out.Annotations, err = structpb.NewStruct(annotations)
	}
	if err != nil {
		return nil, fmt.Errorf("show annotations of operation %s: %w", op.GetId(), err)
	}
	return out, nil
}

func progressOf(op *statepb.Operation, task *statepb.Task) *apipb.TaskProgress {
	c, t := task.GetCounters(), task.GetTotals()
	return &apipb.TaskProgress{
		Name: task.GetName(), Total: c.GetTotal(), Pending: c.GetPending(), Running: c.GetRunning(), Completed: c.GetCompleted(),
		Failed: c.GetFailed(), Aborted: c.GetAborted(), AbortedByReason: maps.Clone(c.GetAbortedByReason()), Restarted: c.GetRestarted(),
		JobResources: resourcesOf(task.GetJobResources().Amounts()), MaxMemory: t.GetMaxMemory(),
		CpuSeconds: float64(t.GetCpuMicros()) / 1e6, RunSeconds: float64(t.GetRunMillis()) / 1e3,
		Memory: memoryOf(task, describedTask(op, task.GetName())), Input: inputProgressOf(task.GetInput()), Gang: gangOf(task.GetGang()),
		GivenUp: c.GetGivenUp(), MaxAttempts: describedTask(op, task.GetName()).GetMaxAttempts(),
	}
}

func addProgress(sum, p *apipb.TaskProgress) {
	sum.Total += p.GetTotal()
	sum.Pending += p.GetPending()
	sum.Running += p.GetRunning()
	sum.Completed += p.GetCompleted()
	sum.Failed += p.GetFailed()
	sum.Aborted += p.GetAborted()
	sum.Restarted += p.GetRestarted()
	sum.GivenUp += p.GetGivenUp()
	sum.MaxMemory = max(sum.MaxMemory, p.GetMaxMemory())
	sum.CpuSeconds += p.GetCpuSeconds()
	sum.RunSeconds += p.GetRunSeconds()
	addInput(sum, p.GetInput())
	for reason, n := range p.GetAbortedByReason() {
		if sum.AbortedByReason == nil {
			sum.AbortedByReason = map[string]int64{}
		}
		sum.AbortedByReason[reason] += n
	}
}

// runningJob shows a job that has not ended, from its allocation in the state.
func runningJob(st *state.State, op *statepb.Operation, a *statepb.Allocation) *apipb.Job {
	out := &apipb.Job{
		Id: a.GetJobId(), OperationId: a.GetOperationId(), Task: a.GetTask(), Cookie: a.GetCookie(), Attempt: a.GetAttempt(),
		Node: a.GetNode(), State: lifecycle.JobWaiting.String(), StartTime: a.GetStartTime(), Resources: resourcesOf(a.GetResources().Amounts()),
		Token: token(a.GetGrantTerm(), a.GetGrantIndex()), Ports: a.GetPorts(), Reserve: reserveOf(a.GetReserve()),
		MemoryLimit: describedTask(op, a.GetTask()).GetMemoryLimit(), GangIncarnation: a.GetGangIncarnation(), GangRank: rankOf(a.GangRank),
	}
	addReading(out, st, a)
	return out
}

// token formats the token of a grant as term:index; empty if it is not known.
func token(term, index uint64) string {
	if term == 0 && index == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", term, index)
}

// finishedJob shows a job that has ended.
func finishedJob(st *state.State, op *statepb.Operation, j *statepb.FinishedJob) *apipb.Job {
	out := &apipb.Job{
		Id: j.GetJobId(), OperationId: op.GetId(), Task: j.GetTask(), Cookie: j.GetCookie(), Attempt: j.GetAttempt(), Node: j.GetNode(),
		State: j.GetState(), AbortReason: j.GetAbortReason(), Error: errorOf(j.GetError()), StartTime: j.GetStartTime(),
		FinishTime: j.GetFinishTime(), Pid: j.GetPid(), ExitCode: j.GetExitCode(), Token: token(j.GetGrantTerm(), j.GetGrantIndex()),
		Interruption: interruptionOf(j.GetStop()), Rerun: j.GetRerun(), Acknowledged: j.GetAcknowledged(),
		Statistics: measuredOf(j.GetStatistics()),
		Reserve:    reserveOf(j.GetReserve()), MemoryLimit: describedTask(op, j.GetTask()).GetMemoryLimit(),
		GangIncarnation: j.GetGangIncarnation(), GangRank: rankOf(j.GangRank), Failures: j.GetFailures(), GivenUp: j.GetGivenUp(),
	}
	if j.GetFailures() > 0 {
		out.MaxAttempts = describedTask(op, j.GetTask()).GetMaxAttempts()
	}
	addRead(out, st, op.GetId(), j)
	return out
}

// measuredOf shows the statistics that a node measured of a job; nil if the node did not
// report the end of the job.
func measuredOf(m *statepb.JobStatistics) *apipb.JobStatistics {
	if m == nil {
		return nil
	}
	return &apipb.JobStatistics{
		MaxMemory: m.GetMaxMemory(), CpuUserSeconds: float64(m.GetCpuUserMicros()) / 1e6,
		CpuSystemSeconds: float64(m.GetCpuSystemMicros()) / 1e6, RunSeconds: float64(m.GetRunMillis()) / 1e3,
		PrepareSeconds: float64(m.GetPrepareMillis()) / 1e3, StdoutBytes: m.GetStdoutBytes(), StdoutDroppedBytes: m.GetStdoutDroppedBytes(),
		StderrBytes: m.GetStderrBytes(), StderrDroppedBytes: m.GetStderrDroppedBytes(), Values: m.Measured(),
	}
}

// addTrees adds the trees of an operation, with its pool and options in each. The pool and
// weight of the operation itself are those in the first tree.
func addTrees(out *apipb.Operation, op *statepb.Operation) {
	for i, in := range op.GetTrees() {
		if i == 0 {
			out.Pool, out.Weight = in.GetPool(), pooltree.DefaultWeight
			if weight, ok := in.GetOptions().GetFields()["weight"]; ok {
				out.Weight = weight.GetNumberValue()
			}
		}
		out.Trees = append(out.Trees, &apipb.OperationTree{
			Tree: in.GetTree(), Pool: in.GetPool(), Options: orEmpty(in.GetOptions()), Admitted: in.GetAdmitted(), PendingReason: in.GetPendingReason(),
		})
	}
}

// inPool reports whether an operation is in a pool of any of its trees.
func inPool(op *statepb.Operation, pool string) bool {
	for _, in := range op.GetTrees() {
		if in.GetPool() == pool {
			return true
		}
	}
	return false
}

// addShares adds the shares of operations in each tree, if the leader's scheduler can be
// reached. The shares of the operation itself are those in its first tree.
func (s operations) addShares(ctx context.Context, what string, shown ...*apipb.Operation) error {
	view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{WithoutNodes: true})
	elements := make(map[[2]string]*actorpb.ElementView, len(view.GetElements()))
	for _, e := range view.GetElements() {
		if !e.GetPool() {
			elements[[2]string{e.GetTree(), e.GetId()}] = e
		}
	}
	for _, op := range shown {
		for i, in := range op.GetTrees() {
			e, ok := elements[[2]string{in.GetTree(), op.GetId()}]
			if !ok {
				continue
			}
			in.FairShare, in.UsageShare, in.DemandShare, in.ClaimedShare = &e.FairShare, &e.UsageShare, &e.DemandShare, &e.ClaimedShare
			if i == 0 {
				op.FairShare, op.UsageShare, op.DemandShare = in.FairShare, in.UsageShare, in.DemandShare
			}
		}
	}
	return err
}
