package pool

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/scheduling"
)

// State reads the replicated state.
type State interface {
	// Admission returns the settings and counts of the tree, and copies of the
	// pool's operations that wait for it, oldest start first.
	Admission(tree scheduling.TreeName, pool scheduling.PoolName) (View, error)
}

// Log proposes commands in the leader's term. done is called once, off the
// caller's goroutine.
type Log interface {
	ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error))
}

// Config is what a pool actor works with.
type Config struct {
	Tree  scheduling.TreeName
	Name  scheduling.PoolName
	Term  uint64
	State State
	Log   Log
	// RetryAfter is the pause after a proposal was not committed.
	RetryAfter time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
}

// Look tells the actor that operations or limits on its path may have changed.
type Look struct{}

// proposed brings an outcome to the life of the actor that proposed.
type proposed struct {
	of      *poolActor
	results []*commandpb.Result
	err     error
}

// New returns the producer of a pool's actor.
func New(cfg Config) actor.Producer {
	return func() actor.Actor { return &poolActor{cfg: cfg} }
}

type poolActor struct {
	cfg Config
	// inFlight: a proposal's outcome has not come.
	inFlight bool
	// dirty: a Look came while a proposal was in flight.
	dirty bool
	timer *time.Timer
}

// Receive implements actor.Actor.
func (a *poolActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, Look:
		a.look(ctx)
	case proposed:
		if m.of == a {
			a.proposed(ctx, m)
		}
	case *actor.Stopping, *actor.Restarting:
		a.stopTimer()
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The rest of the life cycle needs no work here.
	default:
		a.cfg.Logger.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
	}
}

func (a *poolActor) look(ctx actor.Context) {
	if a.inFlight {
		a.dirty = true
		return
	}
	a.dirty = false
	a.stopTimer()
	view, err := a.cfg.State.Admission(a.cfg.Tree, a.cfg.Name)
	if err != nil {
		// The pool has just been removed; this actor goes with it.
		a.cfg.Logger.Debug("pool not found", "pool", a.cfg.Name, "error", err)
		return
	}
	view.Term = a.cfg.Term
	propose, err := Admit(a.cfg.Now(), a.cfg.Name, view)
	if err != nil {
		a.cfg.Logger.Error("admit operations", "pool", a.cfg.Name, "error", err)
		return
	}
	if len(propose) == 0 {
		return
	}
	a.inFlight = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.cfg.Log.ProposeAsync(propose, func(results []*commandpb.Result, err error) {
		root.Send(self, proposed{a, results, err})
	})
}

// proposed looks again after a pause when anything was refused, for the pool's
// view was older than the state's.
func (a *poolActor) proposed(ctx actor.Context, m proposed) {
	a.inFlight = false
	again := m.err != nil
	for _, r := range m.results {
		again = again || r.GetRefusal() != nil
	}
	switch {
	case a.dirty:
		a.look(ctx)
	case again:
		self, root := ctx.Self(), ctx.ActorSystem().Root
		a.timer = time.AfterFunc(a.cfg.RetryAfter, func() { root.Send(self, Look{}) })
	}
}

func (a *poolActor) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}
