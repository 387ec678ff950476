package client

import (
	"context"
	"time"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// DrainNode has a node given no more jobs; those that run there go on, or, when
// interrupt is not 0, are interrupted with so long to leave. A node that is drained
// already stays so.
func (c clusterCalls) DrainNode(ctx context.Context, node, reason string, interrupt time.Duration) error {
	t, _ := settledBy(c.task("drain node"), c.GetNode, node, func(res *apipb.GetNodeResponse) bool {
		drain := res.GetNode().GetDrain()
		return drain != nil && (reason == "" || drain.GetReason() == reason)
	})
	return do(ctx, t, apipbconnect.NodeServiceClient.Drain, &apipb.DrainNodeRequest{Node: node, Reason: reason, InterruptTimeoutMillis: interrupt.Milliseconds()})
}

// UndrainNode lets a node have jobs again. A node that is not drained stays as it
// is.
func (c clusterCalls) UndrainNode(ctx context.Context, node string) error {
	t, _ := settledBy(c.task("undrain node"), c.GetNode, node, func(res *apipb.GetNodeResponse) bool { return res.GetNode().GetDrain() == nil })
	return do(ctx, t, apipbconnect.NodeServiceClient.Undrain, &apipb.UndrainNodeRequest{Node: node})
}

// RemoveNode has a node forgotten that is offline; with force also one that is online,
// drained and has no jobs.
func (c clusterCalls) RemoveNode(ctx context.Context, node string, force bool) error {
	t := c.task("remove node")
	t.settled = func(ctx context.Context) bool {
		_, err := c.GetNode(ctx, node)
		return CodeOf(err) == "unknown_node"
	}
	return do(ctx, t, apipbconnect.NodeServiceClient.Remove, &apipb.RemoveNodeRequest{Node: node, Force: force})
}
