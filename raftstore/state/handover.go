package state

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// holdBack returns the stop order for an instance of a service. An order with a grace
// period that comes from a drain or a graceful preemption is held for at most half of
// that period, so that the instance can be replaced first.
func holdBack(task *statepb.TaskSpec, order *statepb.StopOrder) *statepb.StopOrder {
	waits := order.GetInterruption() == statepb.InterruptedByDrain && task.GetMaxSurge() > 0 ||
		(order.GetInterruption() == statepb.InterruptedByDrain || order.GetPreemption() == lifecycle.GracefulPreemption.String()) && task.GetMinAvailable() > 0
	if !waits || order.GetGraceMillis() < 2 {
		return order
	}
	order = shallow(order)
	order.HeldUntil = timestamppb.New(order.GetTime().AsTime().Add(time.Duration(order.GetGraceMillis()/2) * time.Millisecond))
	return order
}

// handOver replaces instances that are about to leave, and releases the held orders of instances
// that are no longer needed.
func (c jobChange) handOver(_ string, o *operation, m *commandpb.HandOver) *refusal {
	var stops stops
	c.eachID(m.GetReplaceJobIds(), func(job string) *refusal { return c.substitute(&stops, o, job) })
	c.eachID(m.GetReleaseJobIds(), func(job string) *refusal { return c.letGo(&stops, o, job) })
	c.tellStops(stops)
	c.tellDemand()
	return nil
}

// waiting returns the allocation of a job of the operation if its stop order is held.
func (c jobChange) waiting(o *operation, job string) (*statepb.Allocation, *refusal) {
	a, refused := c.held(job, o.id(), "")
	if refused == nil && a.GetStop().GetHeldUntil() == nil {
		refused = refuse(CodeInvalidOperationState, "hand over job %q: its stop order is not held, or it has none", job)
	}
	return a, refused
}

// substitute makes the cookie of an instance pending while the instance still serves.
func (c jobChange) substitute(s *stops, o *operation, job string) *refusal {
	a, refused := c.waiting(o, job)
	if refused != nil {
		return refused
	}
	i := o.taskIndex[scheduling.TaskName(a.GetTask())]
	limit, beside := o.record.GetSpec().GetTasks()[i].GetMaxSurge(), int32(0)
	for _, other := range o.allocations {
		if other.GetReplaced() && other.GetTask() == a.GetTask() {
			beside++
		}
	}
	switch {
	case o.state != lifecycle.Running:
		return refuse(CodeInvalidOperationState, "replace job %q: the operation is %s, not running", job, o.state)
	case a.GetReplaced():
		return nil
	case beside >= limit:
		return refuse(CodeInvalidOperationState, "replace job %q: %d instances of task %q are already being replaced, the limit is max_surge", job, beside, a.GetTask())
	}
	c.edit(o)
	a = shallow(a)
	a.Replaced = true
	c.replace(o, a)
	s.add(a)
	move(o.record.GetTasks()[i], "replace job", (*lifecycle.Counters).Restart)
	c.requeue(o, i, scheduling.Cookie(a.GetCookie()))
	return nil
}

// letGo releases the held stop order of an instance.
func (c jobChange) letGo(s *stops, o *operation, job string) *refusal {
	a, refused := c.waiting(o, job)
	if refused != nil {
		return refused
	}
	a = shallow(a)
	a.Stop = released(a.GetStop())
	c.replace(o, a)
	s.add(a)
	return nil
}

// released returns a copy of a held order that is no longer held, so it is in force.
func released(order *statepb.StopOrder) *statepb.StopOrder {
	order = shallow(order)
	order.HeldUntil = nil
	return order
}
