package node

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
)

// committed brings the outcome of a proposal, and what follows it, to the life of
// the actor that proposed.
type committed struct {
	of   *nodeActor
	err  error
	then func(ctx actor.Context)
}

func (a *nodeActor) propose(ctx actor.Context, commands []proto.Message, then func(actor.Context, []*commandpb.Result, error)) {
	a.inFlight = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.cfg.Log.ProposeAsync(commands, func(results []*commandpb.Result, err error) {
		root.Send(self, committed{a, err, func(ctx actor.Context) { then(ctx, results, err) }})
	})
}

func (a *nodeActor) committed(ctx actor.Context, m committed) {
	a.inFlight = false
	if m.err != nil {
		a.cfg.Logger.Debug("proposal not committed", "node", a.cfg.ID, "error", m.err)
	}
	m.then(ctx)
	if a.dirty {
		a.look(ctx)
	}
}

// failed reports whether a proposal was not carried out, so that it has to be made
// again from the state as it is by then. A job that has ended meanwhile is none
// that could be given up, and no failure.
func (a *nodeActor) failed(results []*commandpb.Result, err error) bool {
	again := err != nil
	for _, result := range results {
		if refusal := result.GetRefusal(); refusal != nil {
			a.cfg.Logger.Warn("proposal rejected; retrying", "node", a.cfg.ID, "code", refusal.GetCode(), "reason", refusal.GetMessage())
			again = true
		}
	}
	return again
}

// after has the actor sent a message later, in place of what the timer would send.
func (a *nodeActor) after(ctx actor.Context, timer *time.Timer, d time.Duration, msg any) *time.Timer {
	stopTimer(timer)
	self, root := ctx.Self(), ctx.ActorSystem().Root
	return time.AfterFunc(max(d, 0), func() { root.Send(self, msg) })
}

func stopTimer(timer *time.Timer) {
	if timer != nil {
		timer.Stop()
	}
}
