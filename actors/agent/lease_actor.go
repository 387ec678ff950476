package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/scheduling/lifecycle"
)

// expire ends all jobs if the lease has expired.
func (a *agentActor) expire(ctx actor.Context) {
	now := time.Now()
	if !a.lease.Lapse(now) {
		return
	}
	a.cfg.Logger.Error("lease expired: no contact with a leader; stopping all jobs", "node", a.cfg.Node, "jobs", len(a.jobs))
	a.abortAll(ctx, Order{Reason: lifecycle.AbortNodeOffline, Message: "the node's lease expired", Deadline: now})
}

func (a *agentActor) abortAll(ctx actor.Context, o Order) {
	for _, id := range slices.Sorted(maps.Keys(a.jobs)) {
		ctx.Send(a.jobs[id].pid, order{o})
	}
}
