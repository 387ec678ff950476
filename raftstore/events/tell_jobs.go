package events

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// ofJob returns an event with a job's operation, pool, node and token.
func (c *telling) ofJob(kind string, a *statepb.Allocation) *eventpb.Event {
	e := &eventpb.Event{
		Kind: kind, Operation: a.GetOperationId(), Pool: a.GetPool(), Node: a.GetNode(), Job: a.GetJobId(), Task: a.GetTask(),
		Cookie: a.GetCookie(), Attempt: a.GetAttempt(), Token: token(a.GetGrantTerm(), a.GetGrantIndex()),
	}
	if node, ok := c.state.Node(scheduling.NodeID(a.GetNode())); ok {
		e.Tree = node.GetTree()
	}
	if e.GetPool() == "" {
		if o, ok := c.state.Operation(scheduling.OperationID(a.GetOperationId())); ok {
			e.Pool = o.In(e.GetTree()).GetPool()
		}
	}
	return e
}

func (c *telling) started(a *statepb.Allocation) {
	e := c.ofJob(JobStarted, a)
	e.Resources = resourcesOf(a.GetResources())
	e.Attributes = rankOf(a)
	c.add(e)
}

// stopping adds the event that a job is ordered to stop: preempted for another, asked to
// leave, or killed at once.
func (c *telling) stopping(a *statepb.Allocation) {
	order := a.GetStop()
	e := c.ofJob(JobStopping, a)
	switch {
	case order.GetPreemption() != "":
		e.Kind = JobPreempted
	case order.GetInterruption() != "":
		e.Kind = JobInterrupted
	}
	e.Resources = resourcesOf(a.GetResources())
	ordered(e, order)
	if order.GetTime() != nil {
		e.Deadline = timestamppb.New(order.Deadline())
	}
	if held := order.GetHeldUntil(); held != nil {
		e.Attributes = map[string]string{"held_until": held.AsTime().Format(time.RFC3339Nano)}
		if a.GetReplaced() {
			e.Attributes["replaced"] = "true"
		}
	}
	switch c.command.(type) {
	case *commandpb.StopJobs, *commandpb.AbortOperation, *commandpb.DrainNode:
		e.User = c.user()
	}
	c.add(e)
}

// ordered adds the reason and message of a stop order, and the job's beneficiary if it is preempted
// for one.
func ordered(e *eventpb.Event, order *statepb.StopOrder) {
	if order == nil {
		return
	}
	e.Reason, e.Message = order.GetReason(), order.GetMessage()
	e.Interruption, e.Preemption = order.GetInterruption(), order.GetPreemption()
	if who := order.GetPreemptedFor(); who != nil {
		e.PreemptedFor = &eventpb.Beneficiary{Operation: who.GetOperationId(), Task: who.GetTask(), Resources: resourcesOf(who.GetResources())}
	}
}

// ended adds the event of a job's end, and the stop order if there was one.
func (c *telling) ended(ended state.Ended) {
	f := ended.Finished
	e := c.ofJob(JobAborted, ended.Allocation)
	switch f.GetState() {
	case lifecycle.JobCompleted.String():
		e.Kind = JobCompleted
	case lifecycle.JobFailed.String():
		e.Kind = JobFailed
	}
	order := f.GetStop()
	if order == nil {
		order = ended.Allocation.GetStop()
	}
	ordered(e, order)
	e.Reason, e.Message = f.GetAbortReason(), f.GetError().GetMessage()
	e.ExitCode = f.GetExitCode()
	e.RunSeconds = secondsBetween(ended.Allocation.GetStartTime(), f.GetFinishTime())
	attribute := func(name, value string) {
		if e.Attributes == nil {
			e.Attributes = map[string]string{}
		}
		e.Attributes[name] = value
	}
	for name, said := range map[string]bool{"rerun": f.GetRerun(), "acknowledged": f.GetAcknowledged(), "given_up": f.GetGivenUp()} {
		if said {
			attribute(name, "true")
		}
	}
	if f.GetFailures() > 0 {
		attribute("failures", number(int64(f.GetFailures())))
	}
	c.add(e)
}
