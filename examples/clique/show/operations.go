package show

import (
	"context"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
)

// pool is that of the service and of the heavy operation, which are equals in it.
const pool = "clique"

// The modes of preemption, as the option preemption_mode has them.
const (
	normal   = "normal"
	graceful = "graceful"
)

// perNode is how many instances of the service, and how many jobs of the heavy
// operation, fit on a node.
const perNode = 2

// memoryLimit of a job is little: it is processors that the jobs share.
const memoryLimit = "64MiB"

// furnish makes the pool.
func (s *stage) furnish(ctx context.Context) error {
	tree, err := structpb.NewStruct(map[string]any{
		// Nodes hold two jobs each: let none wait for its second preemption.
		"preemptive_scheduling_backoff": "500ms",
	})
	if err != nil {
		return err
	}
	options, err := structpb.NewStruct(map[string]any{
		"fair_share_starvation_timeout":          s.Starvation.String(),
		"allocation_preemption_timeout":          s.ShortTimeout.String(),
		"allocation_graceful_preemption_timeout": s.LongTimeout.String(),
	})
	if err != nil {
		return err
	}
	_, err = s.EditTree(ctx, &apipb.EditTreeRequest{Edits: []*apipb.TreeEdit{
		{Edit: &apipb.TreeEdit_TreeOptions{TreeOptions: tree}},
		{Edit: &apipb.TreeEdit_Create{Create: &apipb.Pool{Name: pool, Options: options}}},
	}})
	return err
}

// serviceSpec describes the service: its instances are told by SIGTERM, have a port
// each, and run again when they have left.
func (s *stage) serviceSpec(mode string) map[string]any {
	return map[string]any{
		"title": "service, preempted " + mode, "pool": pool, "preemption_mode": mode,
		"tasks": map[string]any{"serve": map[string]any{
			"job_count": s.jobs, "command": []any{s.Self, "serve", "--notice", s.notice(mode).String()},
			"cpu_limit": s.cpu, "memory_limit": memoryLimit,
			"port_count": 1, "interruption_signal": "SIGTERM", "restart_completed_jobs": true,
		}},
	}
}

// heavySpec describes an operation that would fill the cluster by itself. What its jobs
// do does not matter here, so that they do nothing.
func (s *stage) heavySpec() map[string]any {
	return map[string]any{
		"title": "heavy", "pool": pool,
		"tasks": map[string]any{"fill": map[string]any{
			"job_count": s.jobs, "command": []any{"/bin/sleep", "1h"}, "cpu_limit": s.cpu, "memory_limit": memoryLimit,
		}},
	}
}
