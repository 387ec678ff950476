package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// maxGrace bounds the grace period of an order. A longer grace period is a mistake.
const maxGrace = 365 * 24 * time.Hour

// stopJobs orders nodes to end jobs of an operation for a user.
func (c jobChange) stopJobs(m *commandpb.StopJobs) *refusal {
	what := fmt.Sprintf("stop jobs of operation %q", m.GetOperationId())
	order, refused := c.checkOrder(what, m.GetOrder())
	if refused != nil {
		return refused
	}
	o, refused := c.find(what, m.GetOperationId())
	if refused != nil {
		return refused
	}
	var stops stops
	c.eachID(m.GetJobIds(), func(job string) *refusal {
		a, refused := c.held(job, o.id(), "")
		if refused == nil {
			c.orderStop(&stops, a, order)
		}
		return refused
	})
	c.tellStops(stops)
	return nil
}

// checkOrder returns a user's stop order with the time of the command.
func (c *change) checkOrder(what string, order *statepb.StopOrder) (*statepb.StopOrder, *refusal) {
	if order == nil {
		return nil, refuse(CodeInvalidCommand, "%s: it has no stop order", what)
	}
	reason, refused := abortReason(order.GetReason())
	if refused != nil {
		return nil, refuse(refused.code, "%s: %s", what, refused.message)
	}
	if refused := checkGrace(what, order.GetGraceMillis()); refused != nil {
		return nil, refused
	}
	switch {
	case order.GetPreemption() != "" || order.GetPreemptedFor() != nil || order.GetInterruption() == statepb.InterruptedByPreemption:
		return nil, refuse(CodeInvalidCommand, "%s: only the leader preempts jobs, with a command of its own", what)
	case order.GetInterruption() != "" && order.GetInterruption() != statepb.InterruptedByUser:
		return nil, refuse(CodeInvalidCommand, "%s: interruption %q: use %s, or none to kill the jobs", what, order.GetInterruption(), statepb.InterruptedByUser)
	}
	if refused := c.setTime(order.GetTime()); refused != nil {
		return nil, refused
	}
	order = shallow(order)
	order.Reason, order.Message = reason, cutText(c.limits, order.GetMessage(), maxOrderBytes)
	order.Time = c.timestamp()
	return order, nil
}

// checkGrace refuses an implausible grace period.
func checkGrace(what string, millis int64) *refusal {
	switch {
	case millis < 0:
		return refuse(CodeInvalidCommand, "%s: grace of %d ms is negative", what, millis)
	case millis > maxGrace.Milliseconds():
		return refuse(CodeInvalidCommand, "%s: grace of %d ms exceeds the limit, %d ms", what, millis, maxGrace.Milliseconds())
	}
	return nil
}

// stops are allocations that a command orders to stop. They are grouped by operation, in the order
// in which operations got their first order.
type stops []StopsOrdered

func (s *stops) add(a *statepb.Allocation) {
	id := scheduling.OperationID(a.GetOperationId())
	i := slices.IndexFunc(*s, func(of StopsOrdered) bool { return of.Operation == id })
	if i < 0 {
		i = len(*s)
		*s = append(*s, StopsOrdered{Operation: id})
	}
	(*s)[i].Allocations = append((*s)[i].Allocations, a)
}

// tellStops emits the stop orders of a command.
func (c *change) tellStops(s stops) {
	for _, e := range s {
		c.emit(e)
	}
}

// orderAll orders allocations to stop, in the order of their grants.
func (c *change) orderAll(allocations map[scheduling.JobID]*statepb.Allocation, order *statepb.StopOrder) stops {
	var s stops
	for _, a := range byGrant(allocations) {
		c.orderStop(&s, a, order)
	}
	return s
}

// orderStop orders an allocation to stop. An existing order stays, unless the deadline of
// the new one is earlier.
func (c *change) orderStop(s *stops, a *statepb.Allocation, order *statepb.StopOrder) {
	o := c.operations[scheduling.OperationID(a.GetOperationId())]
	next, news := o.ordered(a, order)
	if !news {
		return
	}
	if next.GetPreemptedFor() != nil && a.GetStop().GetPreemptedFor() == nil {
		c.countPreempted(next)
	}
	a = shallow(a)
	a.Stop = next
	c.replace(o, a)
	s.add(a)
}

// countPreempted counts, in the beneficiary's record, a job that is preempted for it.
func (c *change) countPreempted(order *statepb.StopOrder) {
	b := c.operations[scheduling.OperationID(order.GetPreemptedFor().GetOperationId())]
	if b == nil {
		return
	}
	c.edit(b)
	b.record.PreemptedOthers = maps.Clone(b.record.GetPreemptedOthers())
	made(&b.record.PreemptedOthers)[order.GetPreemption()]++
}

// ordered returns the order that a job has after a new order is given, and whether that differs
// from its present order.
func (v *version) ordered(a *statepb.Allocation, order *statepb.StopOrder) (next *statepb.StopOrder, news bool) {
	if implied := v.record.StopOrderFor(a); implied != nil && implied != a.GetStop() {
		// The operation's state already requires that the job is killed at once.
		return a.GetStop(), false
	}
	return merged(a.GetStop(), v.possible(a, order))
}

// merged combines a job's present order with a later one. The earlier deadline wins. The reason for
// the first interruption stays. A held order is released if the later order is not held.
func merged(present, later *statepb.StopOrder) (next *statepb.StopOrder, news bool) {
	told := present.GetHeldUntil() != nil && later.GetHeldUntil() == nil
	switch {
	case present == nil:
		return later, true
	case !later.Deadline().Before(present.Deadline()) && told:
		return released(present), true
	case !later.Deadline().Before(present.Deadline()):
		return present, false
	case !present.Interrupted():
		return later, true
	}
	next = shallow(present)
	next.Time, next.GraceMillis = later.GetTime(), later.GetGraceMillis()
	if next.GetHeldUntil() != nil {
		next.HeldUntil = later.GetHeldUntil()
	}
	return next, true
}

// possible returns an order in the form in which it can apply to a job: a job that cannot be
// interrupted is killed at once (J.3).
func (v *version) possible(a *statepb.Allocation, order *statepb.StopOrder) *statepb.StopOrder {
	spec := v.record.GetSpec()
	task := spec.GetTasks()[v.taskIndex[scheduling.TaskName(a.GetTask())]]
	if !order.Interrupted() || spec.Interruptible(task) {
		return holdBack(task, order)
	}
	killed := shallow(order)
	killed.GraceMillis, killed.Interruption = 0, ""
	if order.GetInterruption() != statepb.InterruptedByPreemption {
		killed.Reason = lifecycle.AbortInterruptionUnsupported.String()
	}
	killed.Message = fmt.Sprintf("%s: task %q has neither input nor an interruption_signal, so its jobs are killed",
		cmp.Or(order.GetMessage(), order.GetInterruption()), a.GetTask())
	return killed
}

// replace replaces the record of an allocation everywhere.
func (c *change) replace(o *operation, a *statepb.Allocation) {
	job := scheduling.JobID(a.GetJobId())
	c.allocations.put(a)
	o.live -= allocationBytes(o.allocations[job])
	o.allocate(a)
	reweigh(c.State, o)
	c.nodes[scheduling.NodeID(a.GetNode())].allocations[job] = a
}

// orderly reports whether an order has a valid time and grace period.
func orderly(order *statepb.StopOrder) bool {
	return order.GetTime().CheckValid() == nil && order.GetGraceMillis() >= 0 && order.GetGraceMillis() <= maxGrace.Milliseconds()
}
