package client

import (
	"context"

	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
)

// ListPools returns all pools, parents before children.
func (c *Client) ListPools(ctx context.Context) (*apipb.ListPoolsResponse, error) {
	return call(ctx, c.task("list pools"), func(r *replica) method[apipb.ListPoolsRequest, apipb.ListPoolsResponse] {
		return r.pools.List
	}, &apipb.ListPoolsRequest{})
}

// GetPool returns a pool and the revision of its tree.
func (c *Client) GetPool(ctx context.Context, name string) (*apipb.GetPoolResponse, error) {
	return call(ctx, c.task("get pool"), func(r *replica) method[apipb.GetPoolRequest, apipb.GetPoolResponse] {
		return r.pools.Get
	}, &apipb.GetPoolRequest{Name: name})
}

// CreatePool makes a pool and returns the revision of the tree.
func (c *Client) CreatePool(ctx context.Context, pool *apipb.Pool) (revision uint64, err error) {
	t := c.task("create pool")
	t.settled = c.poolIs(pool, "parent", "weight", "max_running_operation_count", "max_operation_count")
	res, err := call(ctx, t, func(r *replica) method[apipb.CreatePoolRequest, apipb.CreatePoolResponse] {
		return r.pools.Create
	}, &apipb.CreatePoolRequest{Pool: pool})
	return res.GetRevision(), err
}

// SetPool changes the named settings of a pool and returns the revision of the
// tree.
func (c *Client) SetPool(ctx context.Context, req *apipb.SetPoolRequest) (revision uint64, err error) {
	t := c.task("set pool")
	t.settled = c.poolIs(req.GetPool(), req.GetFields()...)
	res, err := call(ctx, t, func(r *replica) method[apipb.SetPoolRequest, apipb.SetPoolResponse] {
		return r.pools.Set
	}, req)
	return res.GetRevision(), err
}

// RemovePool removes a pool without pools and operations, and returns the revision
// of the tree.
func (c *Client) RemovePool(ctx context.Context, name string) (revision uint64, err error) {
	t := c.task("remove pool")
	t.settled = func(ctx context.Context) bool {
		_, err := c.GetPool(ctx, name)
		return CodeOf(err) == "unknown_pool"
	}
	res, err := call(ctx, t, func(r *replica) method[apipb.RemovePoolRequest, apipb.RemovePoolResponse] {
		return r.pools.Remove
	}, &apipb.RemovePoolRequest{Name: name})
	return res.GetRevision(), err
}

// poolIs returns what reports whether a pool has the named settings of want.
func (c *Client) poolIs(want *apipb.Pool, fields ...string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		res, err := c.GetPool(ctx, want.GetName())
		return err == nil && proto.Equal(only(res.GetPool(), fields), only(want, fields))
	}
}

// only returns a pool with nothing but the named settings. No parent is the root.
func only(p *apipb.Pool, fields []string) *apipb.Pool {
	out := &apipb.Pool{}
	from, to := p.ProtoReflect(), out.ProtoReflect()
	for _, name := range fields {
		if field := from.Descriptor().Fields().ByTextName(name); field != nil && from.Has(field) {
			to.Set(field, from.Get(field))
		}
	}
	if out.GetParent() == rootPool {
		out.Parent = ""
	}
	return out
}
