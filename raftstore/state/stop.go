package state

import (
	"fmt"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// stopJobs orders nodes to end jobs. The first order for a job stands: a later
// one is answered alike and changes nothing.
func (c *change) stopJobs(m *commandpb.StopJobs) *refusal {
	what := fmt.Sprintf("stop jobs of operation %q", m.GetOperationId())
	order, refused := c.checkOrder(what, m.GetOrder())
	if refused != nil {
		return refused
	}
	o, refused := c.find(what, m.GetOperationId())
	if refused != nil {
		return refused
	}
	results := make([]*commandpb.FinishJobResult, len(m.GetJobIds()))
	var ordered []*statepb.Allocation
	for i, job := range m.GetJobIds() {
		results[i] = &commandpb.FinishJobResult{JobId: job}
		a, refused := c.held(job, o.id(), "")
		switch {
		case refused != nil:
			results[i].Refusal, results[i].Message = refused.code, refused.message
		case a.GetStop() == nil:
			a = shallow(a)
			a.Stop = order
			c.replace(o, a)
			ordered = append(ordered, a)
		}
	}
	c.answerJobs(results)
	if len(ordered) > 0 {
		c.emit(StopsOrdered{Operation: o.id(), Allocations: ordered})
	}
	return nil
}

// checkOrder returns the order with the time of the command.
func (c *change) checkOrder(what string, order *statepb.StopOrder) (*statepb.StopOrder, *refusal) {
	if order == nil {
		return nil, refuse(CodeInvalidCommand, "%s: there is no order", what)
	}
	reason, refused := abortReason(order.GetReason())
	if refused != nil {
		return nil, refuse(refused.code, "%s: %s", what, refused.message)
	}
	if order.GetGraceMillis() < 0 {
		return nil, refuse(CodeInvalidCommand, "%s: grace of %d ms is negative", what, order.GetGraceMillis())
	}
	if refused := c.setTime(order.GetTime()); refused != nil {
		return nil, refused
	}
	order = shallow(order)
	order.Reason = reason
	order.Time = c.timestamp()
	return order, nil
}

// replace puts an allocation in the place of its former record.
func (c *change) replace(o *operation, a *statepb.Allocation) {
	job := scheduling.JobID(a.GetJobId())
	c.allocations[job] = a
	o.allocations[job] = a
	c.nodes[scheduling.NodeID(a.GetNode())].allocations[job] = a
}
