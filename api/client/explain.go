package client

import (
	"context"

	"weir/messages/apipb"
	"weir/messages/explainpb"
)

// Explain says why an operation, a job or a pool is as it is: one explanation, or one for
// each tree of an operation.
func (c *Client) Explain(ctx context.Context, request *apipb.ExplainRequest) ([]*explainpb.Explanation, error) {
	res, err := call(ctx, c.task("explain"), func(r *replica) method[apipb.ExplainRequest, apipb.ExplainResponse] { return r.explain.Explain }, request)
	return res.GetExplanations(), err
}
