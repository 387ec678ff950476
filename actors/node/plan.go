package node

import (
	"maps"
	"slices"
	"time"

	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// Granted is a committed allocation of the node, with what its job depends on.
type Granted struct {
	Allocation *statepb.Allocation
	// Stop says why the job has to end. nil: it may go on.
	Stop *statepb.StopOrder
	// Controller has the job's spec and takes its result.
	Controller *actorpb.Replica
}

// Difference is what has to happen so that the agent has what it should have.
type Difference struct {
	Start []*actorpb.StartJob
	Abort []*actorpb.AbortJob
	// Vanished are allocations that the node's present life has never had: the
	// life that had them has ended with its state folder.
	Vanished []string
}

// Empty reports whether there is nothing to do.
func (d Difference) Empty() bool { return len(d.Start)+len(d.Abort)+len(d.Vanished) == 0 }

// Compare returns the difference between the committed allocations of a node and
// the jobs that its agent has. What the agent was told less than a resend pause
// ago is left out.
//
// A job that has to end and that the agent does not have yet is started and ended
// in one plan: so the agent reports its end like that of any other.
func (s *Session) Compare(now time.Time, granted []Granted) Difference {
	var diff Difference
	known := make(map[string]bool, len(granted))
	for _, g := range granted {
		id := g.Allocation.GetJobId()
		known[id] = true
		if g.Allocation.GetNodeIncarnation() != s.incarnation {
			diff.Vanished = append(diff.Vanished, id)
			continue
		}
		job, held := s.held[id]
		stop := stopOrder(g)
		if held && (stop == nil || job.GetPhase() == actorpb.PhaseEnded) || s.toldLately(now, id, stop != nil) {
			continue
		}
		if !held {
			diff.Start = append(diff.Start, startJob(g))
		}
		if stop != nil {
			diff.Abort = append(diff.Abort, stop)
		}
		s.told[toldKey(id, stop != nil)] = now
	}
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		job := s.held[id]
		if known[id] || job.GetPhase() == actorpb.PhaseEnded || s.toldLately(now, id, true) {
			continue
		}
		diff.Abort = append(diff.Abort, &actorpb.AbortJob{
			JobId:   id,
			Reason:  lifecycle.AbortUnconfirmed.String(),
			Message: "no allocation is committed for this job",
		})
		s.told[toldKey(id, true)] = now
	}
	for key := range s.told {
		if !known[key[1:]] && s.held[key[1:]] == nil {
			delete(s.told, key)
		}
	}
	return diff
}

// Held returns what the agent last said of a job; nil: it does not have it.
func (s *Session) Held(job string) *actorpb.HeldJob { return s.held[job] }

func (s *Session) toldLately(now time.Time, job string, stop bool) bool {
	at, ok := s.told[toldKey(job, stop)]
	return ok && now.Before(at.Add(s.timing.Resend))
}

// toldKey tells an order to start from an order to end.
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
	}
}

// stopOrder returns why a job has to end; nil: it may go on.
func stopOrder(g Granted) *actorpb.AbortJob {
	order := g.Stop
	if order == nil {
		return nil
	}
	return &actorpb.AbortJob{
		JobId: g.Allocation.GetJobId(), Reason: order.GetReason(), Message: order.GetMessage(), GraceMillis: order.GetGraceMillis(),
	}
}
