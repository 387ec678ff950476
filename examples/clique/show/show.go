package show

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/examples/clique/playground"
	"weir/messages/apipb"
)

// pool is the pool of the service and of the heavy operation, which have equal weight.
const pool = "clique"

// The modes of preemption: values of the option preemption_mode.
const (
	normal   = "normal"
	graceful = "graceful"
)

// perNode is how many instances of the service, and how many jobs of the heavy
// operation, fit on a node.
const perNode = 2

// stage is a cluster on which the service runs. Each of the two operations alone would fill it.
type stage struct {
	Config
	*playground.Stage
}

// Run runs the service twice and prints the results, the summary last. It returns
// playground.ErrBroken if a promise does not hold. It leaves only the pictures behind.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	ordinary, gentle := &result{mode: normal}, &result{mode: graceful}
	s := &stage{Config: c}
	err := playground.On(ctx, c.Config, perNode,
		func(up *playground.Stage) error { s.Stage = up; return s.furnish(ctx) },
		func(*playground.Stage) error { return s.play(ctx, ordinary) },
		func(*playground.Stage) error { return s.play(ctx, gentle) },
	)
	if err != nil {
		return err
	}
	tables := [2]string{requestsTable(ordinary, gentle), instancesTable(ordinary, gentle)}
	return c.Report(tables, []playground.Outcome{ordinary.outcome(), gentle.outcome()}, "usage share against fair share", c.broken(ordinary, gentle), summary(ordinary, gentle))
}

// furnish makes the pool.
func (s *stage) furnish(ctx context.Context) error {
	// Nodes hold two jobs each, so a preemption on a node must not delay its second one.
	tree, err := structpb.NewStruct(map[string]any{"preemptive_scheduling_backoff": "500ms"})
	if err != nil {
		return err
	}
	if _, err := s.EditTree(ctx, &apipb.EditTreeRequest{Edits: []*apipb.TreeEdit{{Edit: &apipb.TreeEdit_TreeOptions{TreeOptions: tree}}}}); err != nil {
		return err
	}
	return s.MakePool(ctx, pool, map[string]any{
		"fair_share_starvation_timeout":          s.Starvation.String(),
		"allocation_preemption_timeout":          s.ShortTimeout.String(),
		"allocation_graceful_preemption_timeout": s.LongTimeout.String(),
	})
}

// serviceSpec describes the service.
func (s *stage) serviceSpec(mode string) map[string]any {
	operation, task := s.Service("service, preempted "+mode, pool, s.Places, s.notice(mode))
	operation["preemption_mode"] = mode
	// The period is short, so that answers take no noticeable time.
	task["readiness"] = map[string]any{"http": "/ready", "period": (100 * time.Millisecond).String()}
	return operation
}
