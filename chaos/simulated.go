package chaos

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/chaos/history"
	"weir/messages/apipb"
	"weir/messages/statepb"
)

// Simulated is the tag of simulated nodes, and the name of the pool tree that has them alone, of its pool and of the
// client that starts operations there.
const Simulated = "simulated"

// MakeSimulatedTree makes the pool tree of so many simulated nodes. The default tree has the other nodes.
func MakeSimulatedTree(ctx context.Context, api *client.Client, nodes int) error {
	filter := func(expression string) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"nodes_filter": structpb.NewStringValue(expression)}}
	}
	if _, err := api.SetTree(ctx, &apipb.SetTreeRequest{Options: filter("!" + Simulated)}); err != nil {
		return fmt.Errorf("keep simulated nodes out of the default tree: %w", err)
	}
	if _, err := api.CreateTree(ctx, Simulated, filter(Simulated)); err != nil {
		return fmt.Errorf("make the tree of simulated nodes: %w", err)
	}
	// An operation that ends is open until the client has seen that.
	limit := structpb.NewNumberValue(float64(2 * simulatedBacklog(nodes)))
	options := &structpb.Struct{Fields: map[string]*structpb.Value{"max_running_operation_count": limit, "max_operation_count": limit}}
	if _, err := api.CreatePool(ctx, &apipb.Pool{Tree: Simulated, Name: Simulated, Options: options}); err != nil {
		return fmt.Errorf("make the pool of simulated nodes: %w", err)
	}
	return nil
}

// mostSimulatedJobs is how many jobs an operation of simulated nodes has: the cluster keeps the records of its last 200
// attempts, and all are checked, also those that are lost.
const mostSimulatedJobs = 50

// simulatedBacklog is how many operations are open at once: while each node has a job, as many jobs wait.
func simulatedBacklog(nodes int) int {
	return 2 * ((nodes + mostSimulatedJobs - 1) / mostSimulatedJobs)
}

// occupy keeps simulated nodes at work until ctx is done.
func (s *submitter) occupy(ctx context.Context) error {
	for sleep(ctx, s.cfg.Pace) == nil {
		if err := s.resubmit(ctx, false); err != nil {
			return err
		}
		s.sift(ctx)
		for len(s.open)+len(s.unknown) < simulatedBacklog(len(s.cfg.Simulated)) {
			operation, _, err := s.submitNext(ctx, Simulated, s.cfg.simulatedSpec)
			if err != nil {
				return err
			}
			if operation == "" {
				break
			}
			s.open[operation] = true
		}
	}
	return nil
}

// simulatedSpec describes an operation of simulated nodes, which do not run its command.
func (cfg *Config) simulatedSpec(mutation string) (*structpb.Struct, error) {
	spec, err := structpb.NewStruct(map[string]any{
		"type": "vanilla", "title": mutation, "pool": Simulated, "pool_trees": []any{Simulated},
		"tasks": map[string]any{history.SimulatedTask: map[string]any{
			"job_count": min(len(cfg.Simulated), mostSimulatedJobs), "command": []any{"true"}, "cpu_limit": 1, "memory_limit": "128MiB",
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("describe operation: %w", err)
	}
	return spec, nil
}

// readNodes records which simulated nodes are online, once all of them are or after heldPatience.
func readNodes(ctx context.Context, api *client.Client, names []string, journal *history.Writer) error {
	online := make(map[string]bool)
	for end := time.Now().Add(heldPatience); len(names) > 0; {
		nodes, err := api.ListNodes(ctx, statepb.NodeOnline)
		if err != nil {
			return fmt.Errorf("final reads: %w", err)
		}
		clear(online)
		for _, node := range nodes {
			online[node.GetId()] = true
		}
		missing := 0
		for _, name := range names {
			if !online[name] {
				missing++
			}
		}
		if missing == 0 || time.Now().After(end) {
			break
		}
		if err := sleep(ctx, lookPeriod); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := journal.Write(history.SimulatedNode{Name: name, Online: online[name]}); err != nil {
			return err
		}
	}
	return nil
}
