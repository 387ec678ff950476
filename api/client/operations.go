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

// StartOperation starts an operation. Without a mutation id, in the request or in
// its spec, one is made up, so that the operation is started once whatever
// happens on the way.
func (c *Client) StartOperation(ctx context.Context, req *apipb.StartRequest) (*apipb.StartResponse, error) {
	if req.GetMutationId() == "" && req.GetSpec().GetFields()["mutation_id"] == nil && req.GetSpec().GetFields()["mutation-id"] == nil {
		req = proto.CloneOf(req)
		req.MutationId = uuid.NewString()
	}
	return call(ctx, c.task("start operation"), apipbconnect.OperationServiceClient.Start, req)
}

// RetryOperation starts an operation like one that has ended, of those of its jobs that did not
// complete. Without a mutation id one is made up, so that it is started once whatever happens
// on the way.
func (c *Client) RetryOperation(ctx context.Context, req *apipb.RetryOperationRequest) (*apipb.RetryOperationResponse, error) {
	if req.GetMutationId() == "" {
		req = proto.CloneOf(req)
		req.MutationId = uuid.NewString()
	}
	return call(ctx, c.task("retry operation"), apipbconnect.OperationServiceClient.Retry, req)
}

// ListOperations returns operations, latest start first.
func (c *Client) ListOperations(ctx context.Context, req *apipb.ListOperationsRequest) (*apipb.ListOperationsResponse, error) {
	return call(ctx, c.task("list operations"), apipbconnect.OperationServiceClient.List, req)
}

// GetOperation returns the operation with an id or alias.
func (c *Client) GetOperation(ctx context.Context, operation string) (*apipb.Operation, error) {
	res, err := call(ctx, c.task("get operation"), apipbconnect.OperationServiceClient.Get, &apipb.GetOperationRequest{Operation: operation})
	return res.GetOperation(), err
}

// WaitOperation returns the operation when it has ended, well or not. It goes on
// whatever becomes of replicas, as long as the context lasts, and no outage is longer
// than that of the configuration.
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
			// An alias may go on to another operation.
			req.Operation = res.GetOperation().GetId()
		}
	}
}

// OperationEvents returns the steps of an operation's life.
func (c *Client) OperationEvents(ctx context.Context, operation string) ([]*apipb.OperationEvent, error) {
	res, err := call(ctx, c.task("operation events"), apipbconnect.OperationServiceClient.Events, &apipb.OperationEventsRequest{Operation: operation})
	return res.GetEvents(), err
}

// AbortOperation ends an operation with its jobs: at once, or, when interrupt is not 0,
// by interruption, with so long to leave.
func (c *Client) AbortOperation(ctx context.Context, operation, reason string, interrupt time.Duration) error {
	t := c.steer("abort operation", operation, func(op *apipb.Operation) bool {
		return isState(op, lifecycle.Aborting, lifecycle.Aborted)
	})
	return do(ctx, t, apipbconnect.OperationServiceClient.Abort, &apipb.AbortOperationRequest{Operation: operation, Reason: reason, InterruptTimeoutMillis: interrupt.Milliseconds()})
}

// SuspendOperation starts no more jobs of an operation, and ends those that run
// when abortJobs is set.
func (c *Client) SuspendOperation(ctx context.Context, operation string, abortJobs bool) error {
	t := c.steer("suspend operation", operation, (*apipb.Operation).GetSuspended)
	return do(ctx, t, apipbconnect.OperationServiceClient.Suspend, &apipb.SuspendOperationRequest{Operation: operation, AbortRunningJobs: abortJobs})
}

// ResumeOperation lets a suspended operation go on.
func (c *Client) ResumeOperation(ctx context.Context, operation string) error {
	t := c.steer("resume operation", operation, func(op *apipb.Operation) bool { return !op.GetSuspended() })
	return do(ctx, t, apipbconnect.OperationServiceClient.Resume, &apipb.ResumeOperationRequest{Operation: operation})
}

// CompleteOperation ends an operation well, with what has been done.
func (c *Client) CompleteOperation(ctx context.Context, operation string) error {
	t := c.steer("complete operation", operation, func(op *apipb.Operation) bool {
		return isState(op, lifecycle.Completing, lifecycle.Completed)
	})
	return do(ctx, t, apipbconnect.OperationServiceClient.Complete, &apipb.CompleteOperationRequest{Operation: operation})
}

// steer returns the task of a change after which the operation is as wanted.
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
