package playground

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
)

// Places returns how many processors a job has of which so many fit on each node, and how
// many of these the cluster holds.
func (c *Cluster) Places(ctx context.Context, perNode int) (cpu float64, places int, err error) {
	nodes, err := c.ListNodes(ctx, "")
	if err != nil {
		return 0, 0, err
	}
	for _, node := range nodes {
		if part := node.GetResources().GetCpu() / float64(perNode); cpu == 0 || part < cpu {
			cpu = part
		}
	}
	if cpu <= 0 {
		return 0, 0, fmt.Errorf("the nodes have no processors: %v", nodes)
	}
	return cpu, perNode * len(nodes), nil
}

// Begin starts the operation that a description is of.
func (c *Cluster) Begin(ctx context.Context, description map[string]any) (operation string, err error) {
	spec, err := structpb.NewStruct(description)
	if err != nil {
		return "", err
	}
	started, err := c.StartOperation(ctx, &apipb.StartRequest{Spec: spec})
	return started.GetOperationId(), err
}

// Pause waits for d, if that is positive.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
