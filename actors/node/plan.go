package node

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// Granted is a committed allocation of the node, with the data that its job needs.
type Granted struct {
	Allocation *statepb.Allocation
	// Stop is the order to end the job, or nil.
	Stop *statepb.StopOrder
	// Controller has the job's spec and accepts its result.
	Controller *actorpb.Replica
}

// Difference lists the orders that bring the agent's jobs in line with the allocations.
type Difference struct {
	Start []*actorpb.StartJob
	Abort []*actorpb.AbortJob
	// Vanished are allocations that were granted to another incarnation of the node; that
	// incarnation ended with its state folder.
	Vanished []string
	// left is how many bytes of orders may still be added.
	left int
	// More is set if there are more orders than a message may have bytes. They are in the next
	// difference.
	More bool
	// Again is when an order has to be repeated unless the agent says before that it carries it out;
	// zero if there is none.
	Again time.Time
}

// planBytes bounds the orders of one message to an agent. All orders of a large node usually fit.
const planBytes = 1 << 20

// Empty reports whether there is no difference.
func (d Difference) Empty() bool { return len(d.Start)+len(d.Abort)+len(d.Vanished) == 0 }

// due sets Again to a time, unless it is earlier.
func (d *Difference) due(at time.Time) {
	if d.Again.IsZero() || at.Before(d.Again) {
		d.Again = at
	}
}

// add adds the orders about a job, of which either may be nil. It returns false, and sets More, if
// there is no room for them.
func (d *Difference) add(start *actorpb.StartJob, abort *actorpb.AbortJob) bool {
	size := proto.Size(start) + proto.Size(abort)
	if d.left -= size; d.left < 0 && len(d.Start)+len(d.Abort) > 0 {
		// Orders about later jobs wait, too: the first ones are older.
		d.left, d.More = 0, true
		return false
	}
	if start != nil {
		d.Start = append(d.Start, start)
	}
	if abort != nil {
		d.Abort = append(d.Abort, abort)
	}
	return true
}

// Compare returns the difference between the committed allocations of a node and the jobs that its
// agent has. It leaves out orders that were sent less than a resend pause ago, and those beyond
// planBytes.
//
// A job that has to end before the agent has it is started and ended in one plan, so that the agent
// reports its end like any other. A job with a grace period is left alone once its agent has
// confirmed the deadline; if the job is still there after the deadline, the order to end at once is
// repeated.
func (s *Session) Compare(now time.Time, granted []Granted) Difference {
	diff := Difference{left: planBytes}
	known := make(map[string]bool, len(granted))
	for _, g := range granted {
		id := g.Allocation.GetJobId()
		known[id] = true
		if g.Allocation.GetNodeIncarnation() != s.incarnation {
			diff.Vanished = append(diff.Vanished, id)
			continue
		}
		job, held := s.held[id]
		if held && (g.Stop == nil || job.GetPhase() == actorpb.PhaseEnded) {
			continue
		}
		if held && s.leaves(now, job, g.Stop) {
			diff.due(g.Stop.Deadline().Add(s.timing.Resend))
			continue
		}
		if s.toldLately(now, id, g.Stop) {
			diff.due(s.told[toldKey(id, g.Stop != nil)].at.Add(s.timing.Resend))
			continue
		}
		var start *actorpb.StartJob
		var abort *actorpb.AbortJob
		if !held {
			start = startJob(g)
		}
		if g.Stop != nil {
			abort = abortJob(now, g)
		}
		if !diff.add(start, abort) {
			continue
		}
		s.told[toldKey(id, g.Stop != nil)] = told{now, g.Stop.Deadline()}
		diff.due(now.Add(s.timing.Resend))
	}
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		job := s.held[id]
		if known[id] || job.GetPhase() == actorpb.PhaseEnded {
			continue
		}
		if s.toldLately(now, id, unconfirmed) {
			diff.due(s.told[toldKey(id, true)].at.Add(s.timing.Resend))
			continue
		}
		if !diff.add(nil, &actorpb.AbortJob{JobId: id, Reason: unconfirmed.GetReason(), Message: unconfirmed.GetMessage()}) {
			continue
		}
		s.told[toldKey(id, true)] = told{now, unconfirmed.Deadline()}
		diff.due(now.Add(s.timing.Resend))
	}
	for key := range s.told {
		if !known[key[1:]] && s.held[key[1:]] == nil {
			delete(s.told, key)
		}
	}
	return diff
}

// Doubt marks the node's jobs as in doubt: they may be gone.
func (s *Session) Doubt() { s.missing = nil }

// Trust reports whether the doubt is resolved: whether all jobs that had ended or vanished in the
// first heartbeat since Doubt are no longer granted. Jobs that end later do not matter.
func (s *Session) Trust(granted []Granted) bool {
	if s.missing == nil {
		s.missing = map[string]bool{}
		for _, g := range granted {
			id := g.Allocation.GetJobId()
			if g.Allocation.GetNodeIncarnation() != s.incarnation || s.held[id].GetPhase() == actorpb.PhaseEnded {
				s.missing[id] = true
			}
		}
	}
	return !slices.ContainsFunc(granted, func(g Granted) bool { return s.missing[g.Allocation.GetJobId()] })
}

// Held returns the agent's last report about a job; nil if the agent does not have it.
func (s *Session) Held(job string) *actorpb.HeldJob { return s.held[job] }

// unconfirmed is the order for a job without a committed allocation.
var unconfirmed = &statepb.StopOrder{Reason: lifecycle.AbortUnconfirmed.String(), Message: "no committed allocation for this job"}

// leaves reports whether the agent has confirmed the stop order of a job and the deadline has not
// passed. Such a job needs no reminder.
func (s *Session) leaves(now time.Time, job *actorpb.HeldJob, order *statepb.StopOrder) bool {
	if job.GetDeadline() == nil || order.GetGraceMillis() == 0 {
		return false
	}
	if last, ok := s.told[toldKey(job.GetJobId(), true)]; ok && order.Deadline().Before(last.deadline) {
		return false
	}
	// The agent's clock may differ, and the time left is sent in whole milliseconds.
	confirmed := !job.GetDeadline().AsTime().After(order.Deadline().Add(s.timing.Resend))
	return confirmed && now.Before(order.Deadline().Add(s.timing.Resend))
}

// toldLately reports whether the agent was sent an order to start, or to end, a job less than a
// resend pause ago. An order with an earlier deadline than the one sent counts as new.
func (s *Session) toldLately(now time.Time, job string, order *statepb.StopOrder) bool {
	last, ok := s.told[toldKey(job, order != nil)]
	return ok && now.Before(last.at.Add(s.timing.Resend)) && !order.Deadline().Before(last.deadline)
}

// toldKey distinguishes an order to start from an order to end.
func toldKey(job string, stop bool) string {
	if stop {
		return "-" + job
	}
	return "+" + job
}

func startJob(g Granted) *actorpb.StartJob {
	a := g.Allocation
	return &actorpb.StartJob{
		JobId:           a.GetJobId(),
		OperationId:     a.GetOperationId(),
		Task:            a.GetTask(),
		Cookie:          a.GetCookie(),
		Attempt:         a.GetAttempt(),
		Token:           &actorpb.Token{Term: a.GetGrantTerm(), Index: a.GetGrantIndex()},
		Resources:       a.GetResources(),
		Controller:      g.Controller,
		NodeIncarnation: a.GetNodeIncarnation(),
		Ports:           a.GetPorts(),
	}
}

// abortJob returns the message with a job's order to end, and the time left.
func abortJob(now time.Time, g Granted) *actorpb.AbortJob {
	order := g.Stop
	return &actorpb.AbortJob{
		JobId: g.Allocation.GetJobId(), Reason: order.GetReason(), Message: order.GetMessage(), GraceMillis: order.Left(now).Milliseconds(),
		Interruption: order.GetInterruption(), Preemption: order.GetPreemption(), PreemptedFor: order.GetPreemptedFor(),
	}
}
