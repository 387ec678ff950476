package agent

import (
	"time"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

func startOrder(job string) *actorpb.StartJob { return plan(1, 1, granted(job, 9)).GetStart()[0] }

func plan(term, index uint64, orders ...planOption) *actorpb.NodePlan {
	p := &actorpb.NodePlan{Token: &actorpb.Token{Term: term, Index: index}}
	for _, order := range orders {
		order(p)
	}
	return p
}

type planOption func(*actorpb.NodePlan)

func granted(job string, incarnation uint64) planOption {
	return func(p *actorpb.NodePlan) {
		p.Start = append(p.Start, &actorpb.StartJob{JobId: job, OperationId: "op", NodeIncarnation: incarnation,
			Token: p.GetToken(), Controller: &actorpb.Replica{Id: "r1", Address: "r1:1"}, Task: "sort", Cookie: 7})
	}
}

// interruption is why a job is asked to leave that would otherwise be aborted so.
func interruption(reason string) string {
	if reason == "interruption_timeout" {
		return statepb.InterruptedByUser
	}
	return reason
}

func abort(job, reason string, grace time.Duration) planOption {
	return func(p *actorpb.NodePlan) {
		p.Abort = append(p.Abort, &actorpb.AbortJob{JobId: job, Reason: reason, GraceMillis: grace.Milliseconds(), Message: "go", Interruption: interruption(reason)})
	}
}
