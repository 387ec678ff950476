package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/controller"
	"weir/actors/reconcile"
	"weir/actors/signal"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// newControllersActor returns the producer of the actor that runs a controller for each operation
// that is assigned to this replica.
func newControllersActor(ctx context.Context, r *Replica) actor.Producer {
	return reconcile.Live(r.cfg.Logger, func(life *reconcile.Life) reconcile.Body {
		return &controllersActor{ctx: ctx, replica: r, life: life}
	})
}

type controllersActor struct {
	ctx     context.Context
	replica *Replica
	life    *reconcile.Life
	stop    context.CancelFunc
}

// Take implements reconcile.Body: there are no messages, all work comes through life.Do.
func (a *controllersActor) Take(any) bool { return false }

// Stop implements reconcile.Body.
func (a *controllersActor) Stop() {
	a.stop()
	a.replica.controllers.clear()
}

// Start implements reconcile.Body: it spawns the controllers of the current assignments and
// follows the log from there.
func (a *controllersActor) Start() {
	var reading context.Context
	reading, a.stop = context.WithCancel(a.ctx)
	ctx := a.life.Context()
	var index uint64
	var mine, ended, taught []*statepb.Operation
	a.replica.store.View(func(s *state.State) {
		index = s.LastIndex()
		for op := range s.InProgress() {
			if op.GetAssignment().GetReplica() == a.replica.cfg.ID {
				mine = append(mine, head(op))
			}
		}
		ended = stagedBefore(s, a.replica.cfg.Clock.Now())
		taught = taughtBefore(s, a.replica.cfg.ID, a.replica.cfg.Clock.Now())
	})
	for _, op := range mine {
		a.assigned(ctx, op.GetId(), op.GetAssignment().GetEpoch())
	}
	for _, op := range ended {
		a.replica.discard(a.ctx, op)
	}
	for _, op := range taught {
		a.assigned(ctx, op.GetId(), op.GetAssignment().GetEpoch())
		a.retire(ctx, op.GetId())
	}
	a.replica.controlled.reach(index)
	// Readers may be waiting for changes that happened while the actor was down.
	a.replica.news.tellAll()
	go follow(reading, a.replica.store, "controllers of replica "+a.replica.cfg.ID, index+1, a.life, func(m batch) { a.batch(ctx, m) })
}

func (a *controllersActor) batch(ctx actor.Context, m batch) {
	for _, event := range m.Events {
		a.event(ctx, event)
		a.replica.news.take(event)
	}
	a.replica.controlled.reach(m.Index)
	m.done()
}

func (a *controllersActor) event(ctx actor.Context, event state.Event) {
	switch e := event.(type) {
	case state.ControllerAssigned:
		if string(e.Replica) == a.replica.cfg.ID {
			a.assigned(ctx, string(e.ID), e.Epoch)
		} else {
			a.dismiss(ctx, string(e.ID))
		}
	case state.OperationChanged:
		if e.To.Terminal() {
			a.retire(ctx, string(e.ID))
			a.clear(string(e.ID))
		} else {
			a.look(ctx, e.ID)
		}
	case state.StopsOrdered:
		a.look(ctx, e.Operation)
	case state.AllocationsEnded:
		if gone := goneOf(e); len(gone) > 0 {
			ctx.Send(a.replica.signalPID, signal.Learn{All: gone})
		}
		a.look(ctx, e.Operation)
	}
}

func (a *controllersActor) look(ctx actor.Context, operation scheduling.OperationID) {
	if pid := a.replica.controllers.of(string(operation)); pid != nil {
		ctx.Send(pid, reconcile.Look{})
	}
}

// assigned spawns an operation's controller, replacing one with an older epoch.
func (a *controllersActor) assigned(ctx actor.Context, operation string, epoch uint64) {
	a.dismiss(ctx, operation)
	r := a.replica
	pid := ctx.Spawn(supervised(r.cfg.Logger, controller.New(controller.Config{
		Operation: operation, Epoch: epoch, State: r.records,
		Log:     &anyLog{ctx: a.ctx, replica: r, patience: r.cfg.Timing.Patience},
		Signals: r, Addresses: r.addresses, RetryAfter: r.cfg.Timing.Retry,
		Storage: through(r.cfg.Storage, storesOf(r).of(operation)), Vault: r.cfg.Vault, MaxJobs: r.records.maxJobs,
		MaxEnds: 10000, Batch: 4096, BatchBytes: 512 << 10, Now: r.cfg.Clock.Now, Logger: r.cfg.Logger,
	}), false))
	r.controllers.set(operation, pid)
}

// retire tells the controller of an operation that has ended to finish and stop.
func (a *controllersActor) retire(ctx actor.Context, operation string) {
	if pid := a.replica.controllers.of(operation); pid != nil {
		a.replica.controllers.set(operation, nil)
		ctx.Send(pid, controller.Over{})
	}
}

func (a *controllersActor) dismiss(ctx actor.Context, operation string) {
	if pid := a.replica.controllers.of(operation); pid != nil {
		a.replica.controllers.set(operation, nil)
		ctx.Stop(pid)
	}
}

// ToController implements the Replica of the gateway.
func (r *Replica) ToController(operation string, msg proto.Message, reply func(proto.Message)) bool {
	pid := r.controllers.of(operation)
	if pid == nil {
		return false
	}
	r.system.Root.Send(pid, controller.FromAgent{Message: msg, Reply: reply})
	return true
}

// ControllerOf implements the Replica of the gateway.
func (r *Replica) ControllerOf(operation string) *actorpb.Replica {
	return r.records.controllerOf(operation)
}
