package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/cluster/clock"
	"weir/scheduling/lifecycle"
)

// leaseClock is the clock of leases: the boot clock, but in tests.
type leaseClock struct {
	now   func() time.Duration
	timer func(fire func()) leaseTimer
}

type leaseTimer interface {
	Reset(d time.Duration)
	Close() error
}

func bootClock() leaseClock {
	return leaseClock{clock.Boot, func(fire func()) leaseTimer { return clock.NewTimer(fire) }}
}

// watchLease makes the timer of the lease's end.
func (a *agentActor) watchLease(ctx actor.Context) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.lapse = a.shared.clock.timer(func() { root.Send(self, work(a.expire)) })
}

// expire ends all jobs if the lease has expired.
func (a *agentActor) expire(ctx actor.Context) {
	if !a.lease.Lapse(a.shared.clock.now()) {
		return
	}
	a.cfg.Logger.Error("lease expired: no contact with a leader; stopping all jobs", "node", a.cfg.Node, "jobs", len(a.jobs))
	a.abortAll(ctx, Order{Reason: lifecycle.AbortNodeOffline, Message: "the node's lease expired", Deadline: time.Now()})
}

func (a *agentActor) abortAll(ctx actor.Context, o Order) {
	for _, id := range slices.Sorted(maps.Keys(a.jobs)) {
		ctx.Send(a.jobs[id].pid, order{o})
	}
}
