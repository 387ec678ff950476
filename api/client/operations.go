package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/scheduling/lifecycle"
)

// StartOperation starts an operation. If neither the request nor its spec has a mutation
// id, it generates one, so that retries do not start the operation twice.
func (c *Client) StartOperation(ctx context.Context, req *apipb.StartRequest) (*apipb.StartResponse, error) {
	if req.GetMutationId() == "" && req.GetSpec().GetFields()["mutation_id"] == nil && req.GetSpec().GetFields()["mutation-id"] == nil {
		req = proto.CloneOf(req)
		req.MutationId = uuid.NewString()
	}
	return call(ctx, c.task("start operation"), apipbconnect.OperationServiceClient.Start, req)
}

// RetryOperation starts a copy of an ended operation that runs only the jobs that failed, or did
// not complete. If the request has no mutation id, it generates one, so that retries of the call
// do not start the copy twice.
func (c *Client) RetryOperation(ctx context.Context, req *apipb.RetryOperationRequest) (*apipb.RetryOperationResponse, error) {
	if req.GetMutationId() == "" {
		req = proto.CloneOf(req)
		req.MutationId = uuid.NewString()
	}
	return call(ctx, c.task("retry operation"), apipbconnect.OperationServiceClient.Retry, req)
}

// OperationNames returns what people call operations, by id. Operations that are not known are left out.
func (c *Client) OperationNames(ctx context.Context, ids []string) (map[string]*apipb.OperationName, error) {
	names := make(map[string]*apipb.OperationName, len(ids))
	for some := range slices.Chunk(ids, 1000) {
		res, err := call(ctx, c.task("name operations"), apipbconnect.OperationServiceClient.Names, &apipb.OperationNamesRequest{Ids: some})
		if err != nil {
			return nil, err
		}
		for _, name := range res.GetOperations() {
			names[name.GetId()] = name
		}
	}
	return names, nil
}

// ListOperations returns operations, in the order that the request asks for.
func (c *Client) ListOperations(ctx context.Context, req *apipb.ListOperationsRequest) (*apipb.ListOperationsResponse, error) {
	return call(ctx, c.task("list operations"), apipbconnect.OperationServiceClient.List, req)
}

// GetOperation returns the operation with an id or alias.
func (c *Client) GetOperation(ctx context.Context, operation string) (*apipb.Operation, error) {
	res, err := call(ctx, c.task("get operation"), apipbconnect.OperationServiceClient.Get, &apipb.GetOperationRequest{Operation: operation})
	return res.GetOperation(), err
}

// WaitOperation waits until the operation has ended, in whatever state, and returns it. It
// survives failures of replicas. It ends early if ctx is done, or no replica answers for
// Config.Outage.
func (c *Client) WaitOperation(ctx context.Context, operation string) (*apipb.Operation, error) {
	req := &apipb.WaitOperationRequest{Operation: operation, TimeoutMillis: max(c.cfg.Poll.Milliseconds(), 1)}
	for {
		t := c.task("wait for operation")
		t.longer, t.lasting = c.cfg.Poll, true
		res, err := call(ctx, t, apipbconnect.OperationServiceClient.Wait, req)
		switch {
		case err != nil:
			return nil, err
		case res.GetDone():
			return res.GetOperation(), nil
		case ctx.Err() != nil:
			return res.GetOperation(), fmt.Errorf("wait for operation: %w", context.Cause(ctx))
		case res.GetOperation().GetId() != "":
			// Continue by id: the alias may pass to another operation.
			req.Operation = res.GetOperation().GetId()
		}
	}
}

// OperationEvents returns the events on an operation's record.
func (c *Client) OperationEvents(ctx context.Context, operation string) ([]*apipb.OperationEvent, error) {
	res, err := call(ctx, c.task("operation events"), apipbconnect.OperationServiceClient.Events, &apipb.OperationEventsRequest{Operation: operation})
	return res.GetEvents(), err
}

// AbortOperation ends an operation and its jobs. If interrupt is 0 the jobs are aborted at
// once; otherwise they are interrupted and have that long to stop.
func (c *Client) AbortOperation(ctx context.Context, operation, reason string, interrupt time.Duration) error {
	t := c.steer("abort operation", operation, func(op *apipb.Operation) bool {
		return isState(op, lifecycle.Aborting, lifecycle.Aborted)
	})
	return do(ctx, t, apipbconnect.OperationServiceClient.Abort, &apipb.AbortOperationRequest{Operation: operation, Reason: reason, InterruptTimeoutMillis: interrupt.Milliseconds()})
}

// SuspendOperation stops the start of further jobs of an operation. With abortJobs it also
// aborts those that run.
func (c *Client) SuspendOperation(ctx context.Context, operation string, abortJobs bool) error {
	t := c.steer("suspend operation", operation, (*apipb.Operation).GetSuspended)
	return do(ctx, t, apipbconnect.OperationServiceClient.Suspend, &apipb.SuspendOperationRequest{Operation: operation, AbortRunningJobs: abortJobs})
}

// ResumeOperation lets a suspended operation start jobs again.
func (c *Client) ResumeOperation(ctx context.Context, operation string) error {
	t := c.steer("resume operation", operation, func(op *apipb.Operation) bool { return !op.GetSuspended() })
	return do(ctx, t, apipbconnect.OperationServiceClient.Resume, &apipb.ResumeOperationRequest{Operation: operation})
}

// CompleteOperation ends an operation as completed, although some of its jobs have not
// completed.
func (c *Client) CompleteOperation(ctx context.Context, operation string) error {
	t := c.steer("complete operation", operation, func(op *apipb.Operation) bool {
		return isState(op, lifecycle.Completing, lifecycle.Completed)
	})
	return do(ctx, t, apipbconnect.OperationServiceClient.Complete, &apipb.CompleteOperationRequest{Operation: operation})
}

// steer returns the task of a change to an operation. The change has been made if wanted is true of
// the operation.
func (c *Client) steer(what, operation string, wanted func(*apipb.Operation) bool) *task {
	t, _ := settledBy(c.task(what), c.GetOperation, operation, wanted)
	return t
}

func isState(op *apipb.Operation, states ...lifecycle.State) bool {
	return slices.ContainsFunc(states, func(s lifecycle.State) bool { return op.GetState() == s.String() })
}

// ended reports whether an operation has ended.
func ended(op *apipb.Operation) bool {
	s, err := lifecycle.ParseState(op.GetState())
	return err == nil && s.Terminal()
}
