package client

import (
	"context"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/explainpb"
)

// Explain says why an operation, a job or a pool is as it is: one explanation, or one for
// each tree of an operation.
func (c *Client) Explain(ctx context.Context, request *apipb.ExplainRequest) ([]*explainpb.Explanation, error) {
	res, err := call(ctx, c.task("explain"), apipbconnect.ExplainServiceClient.Explain, request)
	return res.GetExplanations(), err
}
