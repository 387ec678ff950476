package scheduler

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
)

// stopOrder returns the order to stop a preempted job. planned is the time of the plan.
func stopOrder(p engine.Preempt, planned time.Time) *statepb.StopOrder {
	order := &statepb.StopOrder{
		PlannedTime: timestamppb.New(planned),
		Reason:      p.Kind.AbortReason().String(), Message: p.Message(), GraceMillis: p.Timeout.Milliseconds(),
		Interruption: statepb.InterruptedByPreemption, Preemption: p.Kind.String(),
	}
	if !p.For.IsZero() {
		order.PreemptedFor = &statepb.Beneficiary{
			OperationId: string(p.For.Operation), Task: string(p.For.Task), Resources: statepb.NewResources(p.For.Resources),
			DedicatedMemory: p.For.Group, HoldMillis: p.Hold.Milliseconds(),
		}
	}
	return order
}

// Leave applies committed stop orders, from preemptions and all other causes. It skips allocations
// without an order. An order that was already applied changes nothing.
func (t *Tree) Leave(allocations []*statepb.Allocation) error { return t.leave(allocations, false) }

// leave implements Leave. restored means that the orders come from the restored state. That state
// also has the claims of the orders, except of orders without a planned time, which older versions
// wrote.
func (t *Tree) leave(allocations []*statepb.Allocation, restored bool) error {
	for _, a := range allocations {
		if a.GetStop() == nil || !t.engine.Has(scheduling.JobID(a.GetJobId())) {
			continue
		}
		order, err := leaveOrder(a.GetStop())
		if err == nil {
			order.Restored = restored && a.GetStop().GetPlannedTime() != nil
			err = t.engine.Leave(scheduling.JobID(a.GetJobId()), order)
		}
		if err != nil {
			return fmt.Errorf("apply stop order of job %s: %w", a.GetJobId(), err)
		}
	}
	return nil
}

// leaveWith marks all jobs of a finishing operation as killed, unless the operation gives its jobs
// a grace period: in that case the jobs have their own orders.
func (t *Tree) leaveWith(op *statepb.Operation, state lifecycle.State) error {
	if !state.Finishing() || op.GetStop() != nil {
		return nil
	}
	for _, job := range t.engine.JobsOf(scheduling.OperationID(op.GetId())) {
		if err := t.engine.Leave(job, engine.LeaveOrder{}); err != nil {
			return fmt.Errorf("stop job %s with its operation: %w", job, err)
		}
	}
	return nil
}

// tasksThat returns the names of the tasks for which `has` returns true.
func tasksThat(spec *statepb.OperationSpec, has func(*statepb.TaskSpec) bool) (tasks []scheduling.TaskName) {
	for _, task := range spec.GetTasks() {
		if has(task) {
			tasks = append(tasks, scheduling.TaskName(task.GetName()))
		}
	}
	return tasks
}

func leaveOrder(order *statepb.StopOrder) (engine.LeaveOrder, error) {
	leave := engine.LeaveOrder{Ordered: order.GetTime().AsTime(), Deadline: order.Deadline()}
	if at := order.GetPlannedTime(); at != nil {
		leave.Planned = at.AsTime()
	}
	if order.GetPreemption() != "" {
		kind, err := lifecycle.ParsePreemptionKind(order.GetPreemption())
		if err != nil {
			return leave, err
		}
		leave.Kind = kind
	}
	if b := order.GetPreemptedFor(); b != nil {
		leave.For = beneficiaryOf(b)
	}
	return leave, nil
}

func beneficiaryOf(b *statepb.Beneficiary) engine.Beneficiary {
	return engine.Beneficiary{
		Operation: scheduling.OperationID(b.GetOperationId()), Task: scheduling.TaskName(b.GetTask()), Resources: b.GetResources().Amounts(),
		Group: b.GetDedicatedMemory(),
	}
}
