package storm

import (
	"context"

	"weir/examples/clique/playground"
)

// pool is the pool of the service; others is the pool of rivals outside it.
const pool, others = "clique", "others"

const (
	// perNode is how many jobs of either operation fit on a node.
	perNode = 4
	// rivalWeight is the weight of a rival, or of its pool: it leaves the service a quarter of
	// the cluster.
	rivalWeight = 3
)

// stage is a cluster on which the service is run.
type stage struct {
	Config
	*playground.Stage
}

// Run runs the service through two storms and prints the results, the summary last. It returns
// playground.ErrBroken if a promise does not hold in the first one, such as that only requests
// on the dead node fail. It leaves only the pictures behind.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	spared, plain := &result{spared: true}, new(result)
	s := &stage{Config: c}
	err := playground.On(ctx, c.Config, perNode,
		func(up *playground.Stage) error { s.Stage = up; return s.furnish(ctx) },
		func(*playground.Stage) error { return s.play(ctx, spared) },
		func(*playground.Stage) error { return s.play(ctx, plain) },
	)
	if err != nil {
		return err
	}
	tables := [2]string{eventsTable(spared, plain), requestsTable(spared, plain)}
	return c.Report(tables, []playground.Outcome{spared.outcome(s.instances()), plain.outcome(s.instances())}, "instances over time", c.broken(spared), summary(spared, plain))
}

// furnish makes the pools.
func (s *stage) furnish(ctx context.Context) error {
	for name, weight := range map[string]float64{pool: 1, others: rivalWeight} {
		if err := s.MakePool(ctx, name, map[string]any{"weight": weight, "allocation_graceful_preemption_timeout": s.Timeout.String()}); err != nil {
			return err
		}
	}
	return nil
}

// instances is the number of instances: half of what the cluster holds, so that there is room
// for successors while one node is drained and another is dead.
func (s *stage) instances() int { return s.Places / 2 }

// serviceSpec describes the service, with or without the options that protect it.
func (s *stage) serviceSpec(spared bool) map[string]any {
	operation, task := s.Service("service, "+names[spared], pool, s.instances(), s.Notice)
	operation["preemption_mode"] = "graceful"
	task["max_surge"], task["spread"] = 0, spared
	if spared {
		task["readiness"] = map[string]any{"http": "/ready"}
		task["max_surge"], task["min_available"] = 1, s.instances()/perNode+1
	}
	return operation
}

// rivalSpec describes an operation that would fill the cluster by itself.
func (s *stage) rivalSpec(same bool) map[string]any {
	operation := s.Filler("rival", others)
	if same {
		operation["pool"], operation["weight"] = pool, rivalWeight
	}
	return operation
}
