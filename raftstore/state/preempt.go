package state

import (
	"cmp"
	"fmt"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// preemptAllocations orders jobs to stop for others that starve, or because a limit or a node's
// resources are exceeded. Each preemption was planned on an older state, and is checked by itself.
func (c jobChange) preemptAllocations(m *commandpb.PreemptAllocations) *refusal {
	c.expireClaims()
	var stops stops
	eachJob(c, m.GetPreemptions(), (*commandpb.Preemption).GetJobId, func(p *commandpb.Preemption) *refusal {
		return c.preempt(&stops, m.GetTree(), p)
	})
	c.rates.forget(c.now)
	c.tellStops(stops)
	return nil
}

// preempt orders one job to stop. If the job has an order with an earlier or equal deadline, the
// preemption is accepted without effect, so that repeating a preemption gives the same result.
func (c jobChange) preempt(s *stops, tree string, p *commandpb.Preemption) *refusal {
	what := fmt.Sprintf("preempt job %q", p.GetJobId())
	a, refused := c.held(p.GetJobId(), "", "")
	if refused != nil {
		return refused
	}
	if of := c.nodes[scheduling.NodeID(a.GetNode())].record.GetTree(); tree != "" && tree != of {
		return refuse(CodeNotAdmitted, "%s: pool tree %q has planned it, but its node %q belongs to tree %q", what, tree, a.GetNode(), of)
	}
	order, refused := c.checkPreemption(what, p.GetOrder())
	if refused != nil {
		return refused
	}
	o := c.operations[scheduling.OperationID(a.GetOperationId())]
	if _, news := o.ordered(a, order); !news {
		if a.GetStop() == nil {
			return refuse(CodeInvalidOperationState, "%s: its operation already has it killed at once", what)
		}
		return nil
	}
	if refused := c.checkBeneficiary(what, order.GetPreemptedFor()); refused != nil {
		return refused
	}
	c.orderStop(s, a, order)
	c.hold(a, order)
	c.remember(a.GetNode(), p)
	return nil
}

// checkPreemption validates a preemption order. It returns a copy with defaults and the time of the
// command.
func (c jobChange) checkPreemption(what string, order *statepb.StopOrder) (*statepb.StopOrder, *refusal) {
	kind, err := lifecycle.ParsePreemptionKind(order.GetPreemption())
	if err != nil || kind == lifecycle.NotPreempted {
		return nil, refuse(CodeInvalidCommand, "%s: unknown kind of preemption %q", what, order.GetPreemption())
	}
	if refused := cmp.Or(checkGrace(what, order.GetGraceMillis()), checkPlanned(what, order)); refused != nil {
		return nil, refused
	}
	order = shallow(order)
	order.Reason = cmp.Or(order.GetReason(), kind.AbortReason().String())
	order.Interruption = cmp.Or(order.GetInterruption(), statepb.InterruptedByPreemption)
	order.Time = c.timestamp()
	switch {
	case order.GetReason() != kind.AbortReason().String():
		return nil, refuse(CodeInvalidCommand, "%s: abort reason %q: for kind %s it must be %s", what, order.GetReason(), kind, kind.AbortReason())
	case order.GetInterruption() != statepb.InterruptedByPreemption:
		return nil, refuse(CodeInvalidCommand, "%s: interruption %q: for a preemption it must be %s", what, order.GetInterruption(), statepb.InterruptedByPreemption)
	}
	return order, nil
}

// checkPlanned refuses an invalid planned time. It also refuses an implausible time for which the
// freed resources would be held.
func checkPlanned(what string, order *statepb.StopOrder) *refusal {
	if at := order.GetPlannedTime(); at != nil {
		if err := at.CheckValid(); err != nil {
			return refuse(CodeInvalidCommand, "%s: planned_time: %v", what, err)
		}
	}
	if hold := order.GetPreemptedFor().GetHoldMillis(); hold < 0 || hold > maxGrace.Milliseconds() {
		return refuse(CodeInvalidCommand, "%s: hold of %d ms: must be from 0 to %d", what, hold, maxGrace.Milliseconds())
	}
	return nil
}

// checkBeneficiary refuses a preemption whose beneficiary cannot use the resources. A nil
// beneficiary means that there is none.
func (c jobChange) checkBeneficiary(what string, b *statepb.Beneficiary) *refusal {
	if b == nil {
		return nil
	}
	if err := checkResources(b.GetResources()); err != nil {
		return refuse(CodeInvalidCommand, "%s for operation %q: %v", what, b.GetOperationId(), err)
	}
	o, ok := c.operations[scheduling.OperationID(b.GetOperationId())]
	switch {
	case !ok:
		return refuse(CodeUnknownOperation, "%s for operation %q: no such operation", what, b.GetOperationId())
	case o.state != lifecycle.Running:
		return refuse(CodeInvalidOperationState, "%s for operation %q: that operation is %s, not running", what, b.GetOperationId(), o.state)
	case o.record.GetSuspended():
		return refuse(CodeOperationSuspended, "%s for operation %q: that operation is suspended", what, b.GetOperationId())
	}
	task, ok := o.taskIndex[scheduling.TaskName(b.GetTask())]
	switch {
	case !ok:
		return refuse(CodeUnknownTask, "%s for operation %q: that operation has no task %q", what, b.GetOperationId(), b.GetTask())
	case o.offered(task, b.GetDedicatedMemory()) == 0:
		return refuse(CodeNoPendingJob, "%s for operation %q: all jobs of its task %q have an allocation or are completed", what, b.GetOperationId(), b.GetTask())
	}
	return nil
}
