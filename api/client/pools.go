package client

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// ListPools returns the pools of a tree, parents before children; an empty name means the
// default tree.
func (c *Client) ListPools(ctx context.Context, tree string) (*apipb.ListPoolsResponse, error) {
	return c.listPools(ctx, tree, false)
}

// ListPoolsBriefly is like ListPools, but leaves out the pools' options.
func (c *Client) ListPoolsBriefly(ctx context.Context, tree string) (*apipb.ListPoolsResponse, error) {
	return c.listPools(ctx, tree, true)
}

func (c *Client) listPools(ctx context.Context, tree string, brief bool) (*apipb.ListPoolsResponse, error) {
	for range listAttempts {
		all, err := c.pools(ctx, &apipb.ListPoolsRequest{Tree: tree, Brief: brief})
		if err != nil {
			return nil, err
		}
		for all.GetNext() != "" {
			part, err := c.pools(ctx, &apipb.ListPoolsRequest{Tree: all.GetTree(), After: all.GetNext(), Brief: brief})
			if CodeOf(err) == "unknown_pool" || err == nil && part.GetRevision() != all.GetRevision() {
				break // The tree has changed meanwhile.
			}
			if err != nil {
				return nil, err
			}
			// Each part has the alerts of the root.
			for _, alert := range part.GetAlerts() {
				if !slices.Contains(all.GetAlerts(), alert) {
					all.Alerts = append(all.GetAlerts(), alert)
				}
			}
			all.Pools = append(all.GetPools(), part.GetPools()...)
			all.Next, all.LeftOut = part.GetNext(), part.GetLeftOut()
		}
		if all.GetNext() == "" {
			return all, nil
		}
	}
	return nil, fmt.Errorf("list pools: tree %q changes faster than its pools can be listed: try again", tree)
}

// listAttempts is how often a list in parts is begun again because it has changed meanwhile.
const listAttempts = 5

func (c *Client) pools(ctx context.Context, req *apipb.ListPoolsRequest) (*apipb.ListPoolsResponse, error) {
	return call(ctx, c.task("list pools"), apipbconnect.PoolServiceClient.List, req)
}

// GetPool returns a pool and the revision of its tree.
func (c *Client) GetPool(ctx context.Context, tree, name string) (*apipb.GetPoolResponse, error) {
	return call(ctx, c.task("get pool"), apipbconnect.PoolServiceClient.Get, &apipb.GetPoolRequest{Tree: tree, Name: name})
}

// PoolHistory returns the shares and the volume of a pool over time.
func (c *Client) PoolHistory(ctx context.Context, req *apipb.PoolHistoryRequest) (*apipb.PoolHistoryResponse, error) {
	return call(ctx, c.task("show history of pool"), apipbconnect.PoolServiceClient.History, req)
}

// PoolLedger returns the work lost to aborted jobs, by pool and cause: in a pool and all pools
// below it, or, if pool is empty, in all pools of a tree.
func (c *Client) PoolLedger(ctx context.Context, tree, pool string) (*apipb.LedgerResponse, error) {
	return call(ctx, c.task("show ledger"), apipbconnect.PoolServiceClient.Ledger, &apipb.LedgerRequest{Tree: tree, Pool: pool})
}

// CreatePool creates a pool and returns the revision of its tree.
func (c *Client) CreatePool(ctx context.Context, pool *apipb.Pool) (revision uint64, err error) {
	res, err := c.EditTree(ctx, &apipb.EditTreeRequest{
		Tree: pool.GetTree(), Edits: []*apipb.TreeEdit{{Edit: &apipb.TreeEdit_Create{Create: pool}}},
	})
	return res.GetRevision(), err
}

// EditTree changes the pools and the options of a tree: all edits, or none. If a try gets no answer
// and a later one is refused, the call still succeeds if the tree already matches the edits.
func (c *Client) EditTree(ctx context.Context, req *apipb.EditTreeRequest) (*apipb.EditTreeResponse, error) {
	t, seen := settledBy(c.task("edit pool tree"), c.ListPools, req.GetTree(), func(now *apipb.ListPoolsResponse) bool { return edited(now, req.GetEdits()) })
	res, err := call(ctx, t, apipbconnect.PoolServiceClient.Edit, req)
	if err == nil && *seen != nil {
		res.Revision, res.Tree = (*seen).GetRevision(), (*seen).GetTree()
	}
	return res, err
}

// edited reports whether a tree already matches the edits.
func edited(now *apipb.ListPoolsResponse, edits []*apipb.TreeEdit) bool {
	pools := make(map[string]*apipb.Pool, len(now.GetPools()))
	for _, p := range now.GetPools() {
		pools[p.GetName()] = p
	}
	// Later edits use the new names that earlier edits give to pools.
	renamed := make(map[string]string)
	find := func(name string) *apipb.Pool {
		for to, again := renamed[name]; again; to, again = renamed[name] {
			name = to
		}
		return pools[name]
	}
	for i := len(edits) - 1; i >= 0; i-- {
		if r := edits[i].GetRename(); r != nil {
			renamed[r.GetFrom()] = r.GetTo()
		}
		if !done(edits[i], now.GetTreeOptions(), pools, find) {
			return false
		}
	}
	return true
}

// done reports whether the tree already matches one edit. `find` returns a pool by its name at
// the time of that edit.
func done(e *apipb.TreeEdit, options *structpb.Struct, pools map[string]*apipb.Pool, find func(string) *apipb.Pool) bool {
	switch e := e.GetEdit().(type) {
	case *apipb.TreeEdit_TreeOptions:
		return holds[pooltree.TreeOptions](options, e.TreeOptions)
	case *apipb.TreeEdit_Create:
		p := find(e.Create.GetName())
		return p != nil && sameParent(p.GetParent(), e.Create.GetParent()) &&
			equal[pooltree.PoolOptions](p.GetOptions(), e.Create.GetOptions())
	case *apipb.TreeEdit_Change:
		p := find(e.Change.GetName())
		return p != nil && (e.Change.Parent == nil || sameParent(p.GetParent(), e.Change.GetParent())) && holds[pooltree.PoolOptions](p.GetOptions(), e.Change.GetOptions())
	case *apipb.TreeEdit_Rename:
		return pools[e.Rename.GetFrom()] == nil && find(e.Rename.GetTo()) != nil
	case *apipb.TreeEdit_Remove:
		return pools[e.Remove] == nil
	default:
		return false
	}
}

func sameParent(a, b string) bool {
	root := string(scheduling.RootPool)
	return a == b || a == "" && b == root || a == root && b == ""
}

// holds reports whether options already have these values.
func holds[T any](options, values *structpb.Struct) bool {
	before, err := normal[T](options.AsMap())
	if err != nil {
		return false
	}
	document, err := normal[T](options.AsMap())
	if err != nil {
		return false
	}
	for path, value := range values.AsMap() {
		var schema T
		if err := option.Put(document, schema, path, value); err != nil {
			return false
		}
	}
	after, err := normal[T](document)
	return err == nil && reflect.DeepEqual(before, after)
}

// equal reports whether two documents of options say the same.
func equal[T any](a, b *structpb.Struct) bool {
	x, errX := normal[T](a.AsMap())
	y, errY := normal[T](b.AsMap())
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// normal returns a document of options with aliases replaced by option names.
func normal[T any](document map[string]any) (map[string]any, error) {
	var options T
	if err := option.Read(&options, document); err != nil {
		return nil, err
	}
	return option.Write(options), nil
}
