package operation

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/reconcile"
	"weir/messages/statepb"
)

// State reads the replicated state.
type State interface {
	// Operation returns a copy of the record and the number of its allocations that have not
	// ended; nil if there is no such operation.
	Operation(id string) (op *statepb.Operation, allocations int)
}

// Replicas knows which replicas are alive.
type Replicas interface {
	// Choose returns the replica that should control an operation.
	Choose(operationID string) (replica string, ok bool)
	// GoneSince returns since when the replica has been gone; zero if it is alive.
	GoneSince(replica string) time.Time
}

// Config is the configuration of an operation actor.
type Config struct {
	ID       string
	Term     uint64
	State    State
	Replicas Replicas
	Log      reconcile.Log
	// Instances returns the jobs of the operation if some have an order to leave that is held
	// back; otherwise nil.
	Instances func(operation string) []Instance
	// ReassignAfter is how long a replica may be gone before it loses its operations: longer than a
	// restart takes, but not so long that users notice.
	ReassignAfter time.Duration
	// RetryAfter is the pause after a step that was refused or not committed.
	RetryAfter time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
}

// New returns the producer of an operation's actor, which moves it from state to state.
func New(cfg Config) actor.Producer {
	return reconcile.New(reconcile.Config{
		Decide: cfg.decide, Log: cfg.Log, RetryAfter: cfg.RetryAfter, Now: cfg.Now, Logger: cfg.Logger.With("operation", cfg.ID),
	})
}

func (cfg *Config) decide(now time.Time) reconcile.Step {
	op, allocations := cfg.State.Operation(cfg.ID)
	if op == nil {
		return reconcile.Step{}
	}
	step := Next(now, View{
		Operation:      op,
		Allocations:    allocations,
		ControllerGone: cfg.Replicas.GoneSince(op.GetAssignment().GetReplica()),
		Term:           cfg.Term,
	}, cfg.Replicas.Choose, cfg.ReassignAfter)
	if op.GetSpec().HandsOver() {
		handOverIn(&step, now, op, cfg.Term, cfg.Instances(cfg.ID))
	}
	step.Follow = true
	return step
}
