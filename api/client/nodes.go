package client

import (
	"context"
	"slices"
	"time"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// DrainNode keeps new jobs away from a node. If interrupt is 0 its running jobs continue;
// otherwise they are interrupted and have that long to stop. A node that is already drained
// stays drained.
func (c clusterCalls) DrainNode(ctx context.Context, node, reason string, interrupt time.Duration) error {
	t, _ := settledBy(c.task("drain node"), c.GetNode, node, func(res *apipb.GetNodeResponse) bool {
		drain := res.GetNode().GetDrain()
		return drain != nil && (reason == "" || drain.GetReason() == reason)
	})
	return do(ctx, t, apipbconnect.NodeServiceClient.Drain, &apipb.DrainNodeRequest{Node: node, Reason: reason, InterruptTimeoutMillis: interrupt.Milliseconds()})
}

// UndrainNode allows new jobs on a node again. It is no error if the node is not drained.
func (c clusterCalls) UndrainNode(ctx context.Context, node string) error {
	t, _ := settledBy(c.task("undrain node"), c.GetNode, node, func(res *apipb.GetNodeResponse) bool { return res.GetNode().GetDrain() == nil })
	return do(ctx, t, apipbconnect.NodeServiceClient.Undrain, &apipb.UndrainNodeRequest{Node: node})
}

// RemoveNode deletes the record of an offline node; with force also of an online node that
// is drained and has no jobs.
func (c clusterCalls) RemoveNode(ctx context.Context, node string, force bool) error {
	t := c.task("remove node")
	t.settled = func(ctx context.Context) bool {
		_, err := c.GetNode(ctx, node)
		return CodeOf(err) == "unknown_node"
	}
	return do(ctx, t, apipbconnect.NodeServiceClient.Remove, &apipb.RemoveNodeRequest{Node: node, Force: force})
}

// NodeGrants returns what agents of nodes may claim, by pattern.
func (c clusterCalls) NodeGrants(ctx context.Context) (*apipb.NodeGrantsResponse, error) {
	return call(ctx, c.task("show grants of nodes"), apipbconnect.NodeServiceClient.Grants, &apipb.NodeGrantsRequest{})
}

// EditNodeGrant sets what agents of nodes may claim, or takes it away. If a try gets no answer and a later
// one is refused, the call still succeeds if the grant is gone, as wanted.
func (c clusterCalls) EditNodeGrant(ctx context.Context, req *apipb.EditNodeGrantRequest) error {
	all := func(ctx context.Context, _ string) (*apipb.NodeGrantsResponse, error) { return c.NodeGrants(ctx) }
	t, _ := settledBy(c.task("change grant of nodes"), all, "", func(now *apipb.NodeGrantsResponse) bool {
		return req.GetDisallow() && !slices.ContainsFunc(now.GetGrants(), func(g *apipb.NodeGrant) bool { return g.GetPattern() == req.GetGrant().GetPattern() })
	})
	return do(ctx, t, apipbconnect.NodeServiceClient.EditGrant, req)
}
