package pool

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/reconcile"
	"weir/scheduling"
)

// State reads the replicated state.
type State interface {
	// Admission returns the settings and counts of the tree, and copies of the pool's operations
	// that wait for admission, oldest start first.
	Admission(tree scheduling.TreeName, pool scheduling.PoolName) (View, error)
}

// Config is the configuration of a pool actor.
type Config struct {
	Tree  scheduling.TreeName
	Name  scheduling.PoolName
	Term  uint64
	State State
	Log   reconcile.Log
	// RetryAfter is the pause after a proposal that was not committed.
	RetryAfter time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
}

// New returns the producer of a pool's actor, which admits the operations that wait in the pool.
func New(cfg Config) actor.Producer {
	return reconcile.New(reconcile.Config{
		Decide: cfg.decide, Log: cfg.Log, RetryAfter: cfg.RetryAfter, Now: cfg.Now, Logger: cfg.Logger.With("pool", cfg.Name),
	})
}

func (cfg *Config) decide(time.Time) (step reconcile.Step) {
	view, err := cfg.State.Admission(cfg.Tree, cfg.Name)
	if err != nil {
		// The pool has just been removed; this actor will be stopped.
		cfg.Logger.Debug("pool not found", "pool", cfg.Name, "error", err)
		return step
	}
	view.Term = cfg.Term
	if step.Propose, err = Admit(cfg.Name, view); err != nil {
		cfg.Logger.Error("cannot admit operations", "pool", cfg.Name, "error", err)
	}
	return step
}
