package client

import (
	"context"
	"errors"
	"iter"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
)

// Instances returns where the jobs of an operation are reached, as one replica sees
// them.
func (c *Client) Instances(ctx context.Context, operation string) (*apipb.InstancesResponse, error) {
	return call(ctx, c.task("instances"), func(r *replica) method[apipb.InstancesRequest, apipb.InstancesResponse] {
		return r.operations.Instances
	}, &apipb.InstancesRequest{Operation: operation})
}

// WatchInstances yields the instances of an operation now and whenever they have
// changed, until the operation has ended. It goes on at another replica when one is
// lost. An error is the last thing that it yields.
func (c *Client) WatchInstances(ctx context.Context, operation string) iter.Seq2[*apipb.WatchInstancesResponse, error] {
	return func(yield func(*apipb.WatchInstancesResponse, error) bool) {
		var last *apipb.WatchInstancesResponse
		w := &watch[apipb.WatchInstancesResponse]{c: c, what: "watch instances"}
		w.open = func(ctx context.Context, r *replica) (*connect.ServerStreamForClient[apipb.WatchInstancesResponse], error) {
			return r.operations.WatchInstances(ctx, connect.NewRequest(&apipb.WatchInstancesRequest{Operation: operation}))
		}
		w.take = func(seen *apipb.WatchInstancesResponse) (over bool, err error) {
			// An alias may go on to another operation.
			operation = seen.GetOperationId()
			if last == nil || !proto.Equal(last, seen) {
				last = proto.CloneOf(seen)
				if !yield(seen, nil) {
					return true, errStopped
				}
			}
			return seen.GetOver(), nil
		}
		if err := w.run(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}
