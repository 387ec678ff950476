package operation

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// State reads the replicated state.
type State interface {
	// Operation returns a copy of the record and how many of its allocations have
	// not ended; nil when there is no such operation.
	Operation(id string) (op *statepb.Operation, allocations int)
}

// Replicas knows who is alive.
type Replicas interface {
	// Choose names the replica that should control an operation.
	Choose(operationID string) (replica string, ok bool)
	// GoneSince returns when the replica was last seen. Zero: it is alive.
	GoneSince(replica string) time.Time
}

// Log proposes commands in the leader's term. done is called once, off the
// caller's goroutine.
type Log interface {
	ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error))
}

// Config is what an operation actor works with.
type Config struct {
	ID       string
	Term     uint64
	State    State
	Replicas Replicas
	Log      Log
	// Instances returns the jobs of the operation, when some have an order to leave that is
	// held; nil: none has.
	Instances func(operation string) []Instance
	// ReassignAfter is how long a replica may be gone before it loses its
	// operations: longer than a restart takes, shorter than users notice.
	ReassignAfter time.Duration
	// RetryAfter is the pause after a step was refused or not committed.
	RetryAfter time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
}

// Look tells the actor that something about its operation may have changed.
type Look struct{}

// proposed brings the outcome of a step to the life of the actor that took it.
type proposed struct {
	of      *operationActor
	results []*commandpb.Result
	err     error
}

// New returns the producer of an operation's actor.
func New(cfg Config) actor.Producer {
	return func() actor.Actor { return &operationActor{cfg: cfg} }
}

type operationActor struct {
	cfg Config
	// inFlight: a step is proposed and its outcome has not come.
	inFlight bool
	// dirty: a Look came while a step was in flight.
	dirty bool
	timer *time.Timer
}

// Receive implements actor.Actor.
func (a *operationActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.look(ctx)
	case Look:
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

func (a *operationActor) look(ctx actor.Context) {
	if a.inFlight {
		a.dirty = true
		return
	}
	a.stopTimer()
	op, allocations := a.cfg.State.Operation(a.cfg.ID)
	if op == nil {
		return
	}
	now := a.cfg.Now()
	step := Next(now, View{
		Operation:      op,
		Allocations:    allocations,
		ControllerGone: a.cfg.Replicas.GoneSince(op.GetAssignment().GetReplica()),
		Term:           a.cfg.Term,
	}, a.cfg.Replicas.Choose, a.cfg.ReassignAfter)
	if op.GetSpec().HandsOver() {
		step.handOver(now, op, a.cfg.Term, a.cfg.Instances(a.cfg.ID))
	}
	if !step.Again.IsZero() {
		a.lookAfter(ctx, step.Again.Sub(now))
	}
	if len(step.Propose) == 0 {
		return
	}
	a.inFlight = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.cfg.Log.ProposeAsync(step.Propose, func(results []*commandpb.Result, err error) {
		root.Send(self, proposed{a, results, err})
	})
}

// proposed looks again: at once after a step that was carried out, for the next
// one may follow, and after a pause otherwise.
func (a *operationActor) proposed(ctx actor.Context, m proposed) {
	a.inFlight = false
	failed := m.err != nil
	for _, r := range m.results {
		if refusal := r.GetRefusal(); refusal != nil {
			failed = true
			a.cfg.Logger.Debug("step refused", "operation", a.cfg.ID, "code", refusal.GetCode(), "reason", refusal.GetMessage())
		}
	}
	if failed && !a.dirty {
		a.lookAfter(ctx, a.cfg.RetryAfter)
		return
	}
	a.dirty = false
	a.look(ctx)
}

func (a *operationActor) lookAfter(ctx actor.Context, d time.Duration) {
	a.stopTimer()
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.timer = time.AfterFunc(max(d, 0), func() { root.Send(self, Look{}) })
}

func (a *operationActor) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}
