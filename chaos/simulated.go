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

// MakeSimulatedTree makes the pool tree of simulated nodes. The default tree has the other nodes.
func MakeSimulatedTree(ctx context.Context, api *client.Client) error {
	filter := func(expression string) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"nodes_filter": structpb.NewStringValue(expression)}}
	}
	if _, err := api.SetTree(ctx, &apipb.SetTreeRequest{Options: filter("!" + Simulated)}); err != nil {
		return fmt.Errorf("keep simulated nodes out of the default tree: %w", err)
	}
	if _, err := api.CreateTree(ctx, Simulated, filter(Simulated)); err != nil {
		return fmt.Errorf("make the tree of simulated nodes: %w", err)
	}
	if _, err := api.CreatePool(ctx, &apipb.Pool{Tree: Simulated, Name: Simulated}); err != nil {
		return fmt.Errorf("make the pool of simulated nodes: %w", err)
	}
	return nil
}

// simulatedBacklog is how many operations of simulated nodes are open at once: while jobs of one run, those of the
// next one wait.
const simulatedBacklog = 2

// occupy keeps simulated nodes at work until ctx is done. Each operation has a job for each of them.
func (s *submitter) occupy(ctx context.Context) error {
	for sleep(ctx, s.cfg.Pace) == nil {
		if err := s.resubmit(ctx, false); err != nil {
			return err
		}
		if s.sift(ctx); len(s.open)+len(s.unknown) >= simulatedBacklog {
			continue
		}
		s.count++
		spec, err := s.cfg.simulatedSpec(fmt.Sprintf("%s-%d", Simulated, s.count))
		if err != nil {
			return err
		}
		operation, err := s.submit(ctx, spec)
		if err != nil {
			return err
		}
		if operation != "" {
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
			"job_count": len(cfg.Simulated), "command": []any{"true"}, "cpu_limit": 1, "memory_limit": "128MiB",
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
