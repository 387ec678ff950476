package client

import (
	"context"
	"time"

	"weir/messages/apipb"
)

// DrainNode has a node given no more jobs; those that run there go on, or, when
// interrupt is not 0, are interrupted with so long to leave. A node that is drained
// already stays so.
func (c clusterCalls) DrainNode(ctx context.Context, node, reason string, interrupt time.Duration) error {
	t := c.task("drain node")
	t.settled = func(ctx context.Context) bool {
		res, err := c.GetNode(ctx, node)
		drain := res.GetNode().GetDrain()
		return err == nil && drain != nil && (reason == "" || drain.GetReason() == reason)
	}
	_, err := call(ctx, t, func(r *replica) method[apipb.DrainNodeRequest, apipb.DrainNodeResponse] {
		return r.nodes.Drain
	}, &apipb.DrainNodeRequest{Node: node, Reason: reason, InterruptTimeoutMillis: interrupt.Milliseconds()})
	return err
}

// UndrainNode lets a node have jobs again. A node that is not drained stays as it
// is.
func (c clusterCalls) UndrainNode(ctx context.Context, node string) error {
	t := c.task("undrain node")
	t.settled = func(ctx context.Context) bool {
		res, err := c.GetNode(ctx, node)
		return err == nil && res.GetNode().GetDrain() == nil
	}
	_, err := call(ctx, t, func(r *replica) method[apipb.UndrainNodeRequest, apipb.UndrainNodeResponse] {
		return r.nodes.Undrain
	}, &apipb.UndrainNodeRequest{Node: node})
	return err
}

// RemoveNode has a node forgotten that is offline; with force also one that is online,
// drained and has no jobs.
func (c clusterCalls) RemoveNode(ctx context.Context, node string, force bool) error {
	t := c.task("remove node")
	t.settled = func(ctx context.Context) bool {
		_, err := c.GetNode(ctx, node)
		return CodeOf(err) == "unknown_node"
	}
	_, err := call(ctx, t, func(r *replica) method[apipb.RemoveNodeRequest, apipb.RemoveNodeResponse] {
		return r.nodes.Remove
	}, &apipb.RemoveNodeRequest{Node: node, Force: force})
	return err
}
