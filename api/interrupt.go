package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/document"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// maxInterruptTimeout is the longest time that a job can be given to stop.
const maxInterruptTimeout = 365 * 24 * time.Hour

// interruptTimeout checks the time that jobs are given to stop; 0 means the default.
func interruptTimeout(what string, millis int64) *connect.Error {
	if millis < 0 || millis > maxInterruptTimeout.Milliseconds() {
		return invalid("%s: timeout of %d ms: must be from 0 to a year", what, millis)
	}
	return nil
}

// Interrupt asks a job to stop in good order.
func (s jobs) Interrupt(ctx context.Context, req *connect.Request[apipb.InterruptJobRequest]) (*connect.Response[apipb.InterruptJobResponse], error) {
	m := req.Msg
	if err := interruptTimeout("interrupt job", m.GetTimeoutMillis()); err != nil {
		return nil, err
	}
	job, err := s.unfinished(ctx, "interrupt job", m.GetJobId())
	if err != nil {
		return nil, err
	}
	usual, err := s.interruptible(job)
	if err != nil {
		return nil, err
	}
	err = s.stop(ctx, "interrupt job", job, &statepb.StopOrder{
		Reason: lifecycle.AbortInterruptionTimeout.String(), Interruption: statepb.InterruptedByUser,
		GraceMillis: cmp.Or(m.GetTimeoutMillis(), usual.Milliseconds()), Message: saying(ctx, "interrupted", m.GetReason()),
	})
	if err != nil {
		return nil, err
	}
	out := &apipb.InterruptJobResponse{}
	err = s.read(ctx, "interrupt job", func(st *state.State) error {
		if order := orderOf(st, job); order != nil {
			out.Deadline = timestamppb.New(order.Deadline())
		}
		return nil
	})
	return answer(out, err)
}

// orderOf returns the stop order of a job, running or ended; nil if none is known.
func orderOf(st *state.State, job *apipb.Job) *statepb.StopOrder {
	if a, ok := st.Allocation(scheduling.JobID(job.GetId())); ok {
		return a.GetStop()
	}
	op, _ := st.Operation(scheduling.OperationID(job.GetOperationId()))
	for _, finished := range slices.Backward(op.GetFinishedJobs()) {
		if finished.GetJobId() == job.GetId() {
			return finished.GetStop()
		}
	}
	return nil
}

// interruptible returns the default time for a job to stop: its
// allocation_preemption_timeout. If the job cannot be asked to stop, it returns an error
// that says what to do instead.
func (s jobs) interruptible(job *apipb.Job) (usual time.Duration, err error) {
	asked := true
	s.cfg.Store.View(func(st *state.State) {
		op, _ := st.Operation(scheduling.OperationID(job.GetOperationId()))
		if task := describedTask(op, job.GetTask()); task != nil {
			asked = op.GetSpec().Interruptible(task)
		}
		usual, err = preemptionTimeout(st, op, job)
	})
	if !asked {
		return 0, fail(connect.CodeFailedPrecondition, apipb.CodeNotInterruptible,
			"interrupt job %s: task %q has neither input nor an interruption_signal, so its jobs cannot be asked to stop: abort it (weir job abort), or give the task one", job.GetId(), job.GetTask())
	}
	return usual, err
}

// preemptionTimeout returns the allocation_preemption_timeout of a job: that of its
// operation in the tree of its node.
func preemptionTimeout(st *state.State, op *statepb.Operation, job *apipb.Job) (time.Duration, error) {
	a, ok := st.Allocation(scheduling.JobID(job.GetId()))
	if !ok {
		return 0, fail(connect.CodeFailedPrecondition, apipb.CodeJobEnded, "interrupt job %s: it has ended", job.GetId())
	}
	node, _ := st.Node(scheduling.NodeID(a.GetNode()))
	pools, _, _ := st.Pools(scheduling.TreeName(node.GetTree()))
	set, pool, err := optionsIn(pools, op.In(node.GetTree()))
	if err != nil {
		return 0, fmt.Errorf("interrupt job %s: its allocation_preemption_timeout: %w", job.GetId(), err)
	}
	return set.Effective(pool).Starvation.PreemptionTimeout, nil
}

// interruptionOf shows the stop order of a job, running or ended; nil if it has none.
func interruptionOf(order *statepb.StopOrder) *apipb.Interruption {
	if order == nil {
		return nil
	}
	out := &apipb.Interruption{
		Reason: order.GetInterruption(), Time: order.GetTime(), TimeoutMillis: order.GetGraceMillis(), AbortReason: order.GetReason(),
		Message: order.GetMessage(), Preemption: order.GetPreemption(),
		PreemptedForOperation: order.GetPreemptedFor().GetOperationId(), PreemptedForTask: order.GetPreemptedFor().GetTask(),
	}
	out.HeldUntil = order.GetHeldUntil()
	if order.GetTime() != nil {
		out.Deadline = timestamppb.New(order.Deadline())
	}
	return out
}

// preempted counts the preempted jobs of an operation, by kind of preemption and by the
// operation they were preempted for.
func preempted(st *state.State, op *statepb.Operation) []*apipb.Preempted {
	type key struct{ kind, beneficiary string }
	counts := map[key]*apipb.Preempted{}
	count := func(order *statepb.StopOrder) *apipb.Preempted {
		k := key{order.GetPreemption(), order.GetPreemptedFor().GetOperationId()}
		if counts[k] == nil {
			counts[k] = &apipb.Preempted{Kind: k.kind, ForOperation: k.beneficiary}
		}
		return counts[k]
	}
	for _, finished := range op.GetFinishedJobs() {
		if order := finished.GetStop(); order.GetPreemption() != "" {
			count(order).Gone++
		}
	}
	for _, a := range state.LeavingOfOperation(st, scheduling.OperationID(op.GetId())) {
		if order := a.GetStop(); order.GetPreemption() != "" {
			count(order).Leaving++
		}
	}
	return slices.SortedFunc(maps.Values(counts), func(a, b *apipb.Preempted) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetForOperation(), b.GetForOperation()))
	})
}

// resolve returns the id of an operation named by id or alias.
func (s operations) resolve(ctx context.Context, what, name string) (id string, err error) {
	err = s.read(ctx, what, func(st *state.State) error {
		op, err := reads(ctx, st, name, what)
		id = op.GetId()
		return err
	})
	return id, err
}

// steer proposes a command for an operation named by id or alias.
func (s operations) steer(ctx context.Context, what, name string, command func(id string) proto.Message) error {
	id, err := s.resolve(ctx, what, name)
	if err != nil {
		return err
	}
	_, err = s.propose(ctx, what, command(id))
	return err
}

// Abort ends an operation with its jobs, at once or by interruption.
func (s operations) Abort(ctx context.Context, req *connect.Request[apipb.AbortOperationRequest]) (*connect.Response[apipb.AbortOperationResponse], error) {
	if err := interruptTimeout("abort operation", req.Msg.GetInterruptTimeoutMillis()); err != nil {
		return nil, err
	}
	return answer(&apipb.AbortOperationResponse{}, s.steer(ctx, "abort operation", req.Msg.GetOperation(), func(id string) proto.Message {
		return &commandpb.AbortOperation{
			OperationId: id, User: userOf(ctx), Reason: req.Msg.GetReason(),
			InterruptMillis: req.Msg.GetInterruptTimeoutMillis(),
		}
	}))
}

// Suspend stops the start of further jobs of an operation.
func (s operations) Suspend(ctx context.Context, req *connect.Request[apipb.SuspendOperationRequest]) (*connect.Response[apipb.SuspendOperationResponse], error) {
	return answer(&apipb.SuspendOperationResponse{}, s.steer(ctx, "suspend operation", req.Msg.GetOperation(), func(id string) proto.Message {
		return &commandpb.SuspendOperation{
			OperationId: id, User: userOf(ctx), AbortRunningJobs: req.Msg.GetAbortRunningJobs(),
		}
	}))
}

// Resume lets a suspended operation start jobs again.
func (s operations) Resume(ctx context.Context, req *connect.Request[apipb.ResumeOperationRequest]) (*connect.Response[apipb.ResumeOperationResponse], error) {
	return answer(&apipb.ResumeOperationResponse{}, s.steer(ctx, "resume operation", req.Msg.GetOperation(), func(id string) proto.Message {
		return &commandpb.ResumeOperation{OperationId: id, User: userOf(ctx)}
	}))
}

// Complete ends an operation as completed, although some of its jobs have not completed.
func (s operations) Complete(ctx context.Context, req *connect.Request[apipb.CompleteOperationRequest]) (*connect.Response[apipb.CompleteOperationResponse], error) {
	return answer(&apipb.CompleteOperationResponse{}, s.steer(ctx, "complete operation", req.Msg.GetOperation(), func(id string) proto.Message {
		return &commandpb.CompleteOperation{OperationId: id, User: userOf(ctx)}
	}))
}

// Update changes the pool and the scheduling options of an operation in progress.
func (s operations) Update(ctx context.Context, req *connect.Request[apipb.UpdateOperationRequest]) (*connect.Response[apipb.UpdateOperationResponse], error) {
	const what = "update operation"
	var wanted []*commandpb.OperationChange
	for _, c := range req.Msg.GetChanges() {
		if _, err := document.FromStruct("options", c.GetOptions()); err != nil {
			return nil, fail(connect.CodeInvalidArgument, state.CodeInvalidSpec, "%s: %v", what, err)
		}
		wanted = append(wanted, &commandpb.OperationChange{Tree: c.GetTree(), Pool: c.Pool, Options: changesOf(c.GetOptions())})
	}
	id, err := s.resolve(ctx, what, req.Msg.GetOperation())
	if err != nil {
		return nil, err
	}
	result, err := s.propose(ctx, what, &commandpb.UpdateOperation{OperationId: id, User: userOf(ctx), Changes: wanted})
	return answer(&apipb.UpdateOperationResponse{Warnings: result.GetUpdateOperation().GetWarnings()}, err)
}
