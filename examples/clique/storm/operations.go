package storm

import (
	"context"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
)

// pool is that of the service, others that of rivals from elsewhere.
const pool, others = "clique", "others"

const (
	// perNode is how many jobs of either kind fit on a node.
	perNode = 4
	// rivalWeight of a rival, or of its pool, leaves the service a quarter of the cluster.
	rivalWeight = 3
	// memoryLimit of a job is little: it is processors that the jobs share.
	memoryLimit = "64MiB"
)

// furnish makes the pools.
func (s *stage) furnish(ctx context.Context) error {
	options := map[string]any{"allocation_graceful_preemption_timeout": s.Timeout.String()}
	var edits []*apipb.TreeEdit
	for name, weight := range map[string]float64{pool: 1, others: rivalWeight} {
		options["weight"] = weight
		set, err := structpb.NewStruct(options)
		if err != nil {
			return err
		}
		edits = append(edits, &apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{Create: &apipb.Pool{Name: name, Options: set}}})
	}
	_, err := s.EditTree(ctx, &apipb.EditTreeRequest{Edits: edits})
	return err
}

// instances is how many the service has: half of what the cluster holds, so that there is room
// for successors while one node is drained and another is dead.
func (s *stage) instances() int { return s.places / 2 }

// serviceSpec describes the service, with what spares it or without.
func (s *stage) serviceSpec(spared bool) map[string]any {
	task := map[string]any{
		"job_count": s.instances(), "command": []any{s.Self, "serve", "--notice", s.Notice.String()},
		"cpu_limit": s.cpu, "memory_limit": memoryLimit,
		"port_count": 1, "interruption_signal": "SIGTERM", "restart_completed_jobs": true,
	}
	if spared {
		task["readiness"] = map[string]any{"http": "/ready"}
		task["max_surge"], task["min_available"], task["spread"] = 1, s.instances()/perNode+1, true
	} else {
		task["max_surge"], task["spread"] = 0, false
	}
	return map[string]any{"title": "service, " + names[spared], "pool": pool, "preemption_mode": "graceful", "tasks": map[string]any{"serve": task}}
}

// rivalSpec describes an operation that would fill the cluster by itself.
func (s *stage) rivalSpec(same bool) map[string]any {
	spec := map[string]any{
		"title": "rival", "pool": others,
		"tasks": map[string]any{"fill": map[string]any{
			"job_count": s.places, "command": []any{"/bin/sleep", "1h"}, "cpu_limit": s.cpu, "memory_limit": memoryLimit,
		}},
	}
	if same {
		spec["pool"], spec["weight"] = pool, rivalWeight
	}
	return spec
}
