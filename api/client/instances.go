package client

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/changes"
)

// Instances returns the addresses of the jobs of an operation, as one replica sees them.
func (c *Client) Instances(ctx context.Context, operation string) (*apipb.InstancesResponse, error) {
	return call(ctx, c.task("instances"), apipbconnect.OperationServiceClient.Instances, &apipb.InstancesRequest{Operation: operation})
}

// WatchInstances yields the instances of an operation now and at every change, until the
// operation has ended. If a replica fails, it continues at another one. An error is the
// last thing that it yields.
func (c *Client) WatchInstances(ctx context.Context, operation string) iter.Seq2[*apipb.WatchInstancesResponse, error] {
	return func(yield func(*apipb.WatchInstancesResponse, error) bool) {
		var shown, heard *apipb.WatchInstancesResponse
		w := &watch[apipb.WatchInstancesResponse]{c: c, what: "watch instances"}
		w.open = func(ctx context.Context, r replica) (*connect.ServerStreamForClient[apipb.WatchInstancesResponse], error) {
			// Changes are relative to earlier messages of the same stream.
			heard = nil
			return service[apipbconnect.OperationServiceClient](r).WatchInstances(ctx, connect.NewRequest(&apipb.WatchInstancesRequest{Operation: operation, Changes: true}))
		}
		w.take = func(told *apipb.WatchInstancesResponse) (over bool, err error) {
			// Continue by id: the alias may pass to another operation.
			operation = told.GetOperationId()
			if heard, err = afterChanges(heard, told); err != nil {
				return false, err
			}
			all := &apipb.WatchInstancesResponse{OperationId: heard.GetOperationId(), Instances: heard.GetInstances(), Over: heard.GetOver()}
			if shown != nil && proto.Equal(shown, all) {
				return all.GetOver(), nil
			}
			shown = all
			return !yield(proto.CloneOf(all), nil) || all.GetOver(), nil
		}
		if err := w.run(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// instanceChanges applies changes to instances, which are ordered by task, cookie and job.
var instanceChanges = changes.Kind[*apipb.Instance]{
	ID: (*apipb.Instance).GetJobId,
	Compare: func(a, b *apipb.Instance) int {
		return cmp.Or(cmp.Compare(a.GetTask(), b.GetTask()), cmp.Compare(a.GetCookie(), b.GetCookie()), cmp.Compare(a.GetJobId(), b.GetJobId()))
	},
}

// afterChanges returns all instances as of the message `told`. That message holds either all
// instances, or their changes from the message `before`. A replica of an older version always sends
// all.
func afterChanges(before, told *apipb.WatchInstancesResponse) (*apipb.WatchInstancesResponse, error) {
	if told.GetSince() == "" {
		return told, nil
	}
	if told.GetSince() != before.GetVersion() {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the replica sent changes relative to an unknown state"))
	}
	return &apipb.WatchInstancesResponse{
		OperationId: told.GetOperationId(), Version: told.GetVersion(), Over: told.GetOver(),
		Instances: instanceChanges.Apply(before.GetInstances(), told.GetInstances(), told.GetForgotten()),
	}, nil
}
