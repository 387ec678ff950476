package client

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/scheduling/pooltree"
)

// ListTrees returns all pool trees by name.
func (c *Client) ListTrees(ctx context.Context) (*apipb.ListTreesResponse, error) {
	return call(ctx, c.task("list pool trees"), apipbconnect.TreeServiceClient.List, &apipb.ListTreesRequest{})
}

// GetTree returns a pool tree; an empty name means the default tree.
func (c *Client) GetTree(ctx context.Context, tree string) (*apipb.Tree, error) {
	res, err := call(ctx, c.task("get pool tree"), apipbconnect.TreeServiceClient.Get, &apipb.GetTreeRequest{Tree: tree})
	return res.GetTree(), err
}

// CreateTree creates a pool tree and returns its revision.
func (c *Client) CreateTree(ctx context.Context, tree string, options *structpb.Struct) (revision uint64, err error) {
	t, seen := settledBy(c.task("create pool tree"), c.GetTree, tree, func(now *apipb.Tree) bool {
		return equal[pooltree.TreeOptions](now.GetOptions(), options)
	})
	res, err := call(ctx, t, apipbconnect.TreeServiceClient.Create, &apipb.CreateTreeRequest{Tree: tree, Options: options})
	return cmp.Or(res.GetRevision(), (*seen).GetRevision()), err
}

// SetTree changes options of a pool tree and returns its revision.
func (c *Client) SetTree(ctx context.Context, req *apipb.SetTreeRequest) (revision uint64, err error) {
	t, seen := settledBy(c.task("set pool tree"), c.GetTree, req.GetTree(), func(now *apipb.Tree) bool {
		return holds[pooltree.TreeOptions](now.GetOptions(), req.GetOptions())
	})
	res, err := call(ctx, t, apipbconnect.TreeServiceClient.Set, req)
	return cmp.Or(res.GetRevision(), (*seen).GetRevision()), err
}

// RemoveTree removes a pool tree without operations and jobs.
func (c *Client) RemoveTree(ctx context.Context, tree string) error {
	t := c.task("remove pool tree")
	t.settled = func(ctx context.Context) bool {
		_, err := c.GetTree(ctx, tree)
		return CodeOf(err) == "unknown_tree"
	}
	return do(ctx, t, apipbconnect.TreeServiceClient.Remove, &apipb.RemoveTreeRequest{Tree: tree})
}

// SetDefaultTree sets the tree of operations that name none.
func (c *Client) SetDefaultTree(ctx context.Context, tree string) error {
	t, _ := settledBy(c.task("set default pool tree"), c.GetTree, tree, (*apipb.Tree).GetDefault)
	return do(ctx, t, apipbconnect.TreeServiceClient.SetDefault, &apipb.SetDefaultTreeRequest{Tree: tree})
}

// WhatIf returns the fair shares of a tree as they are and as they would be after changes.
func (c *Client) WhatIf(ctx context.Context, req *apipb.WhatIfRequest) (*apipb.WhatIfResponse, error) {
	return call(ctx, c.task("what if"), apipbconnect.TreeServiceClient.WhatIf, req)
}

// Attribute returns the value at a path in the tree of attributes.
func (c *Client) Attribute(ctx context.Context, path string) (*structpb.Value, error) {
	res, err := call(ctx, c.task("get attribute"), apipbconnect.AttributeServiceClient.Get, &apipb.GetAttributeRequest{Path: path})
	return res.GetValue(), err
}

// UpdateOperation changes the pool and the scheduling options of an operation in progress.
func (c *Client) UpdateOperation(ctx context.Context, req *apipb.UpdateOperationRequest) (*apipb.UpdateOperationResponse, error) {
	t := c.steer("update operation", req.GetOperation(), func(op *apipb.Operation) bool { return updated(op, req.GetChanges()) })
	return call(ctx, t, apipbconnect.OperationServiceClient.Update, req)
}

// updated reports whether an operation already has these changes.
func updated(op *apipb.Operation, changes []*apipb.OperationChange) bool {
	for _, change := range changes {
		for _, in := range op.GetTrees() {
			if change.GetTree() != "" && change.GetTree() != in.GetTree() {
				continue
			}
			if change.Pool != nil && change.GetPool() != in.GetPool() || !holds[pooltree.OperationOptions](in.GetOptions(), change.GetOptions()) {
				return false
			}
		}
	}
	return true
}
