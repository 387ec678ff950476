package api

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/api/document"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/raftstore/state"
)

// resolve returns the id of an operation named by id or alias.
func (s operations) resolve(ctx context.Context, what, name string) (id string, err error) {
	err = s.read(ctx, what, func(st *state.State) error {
		op, err := reads(ctx, st, name, what)
		id = op.GetId()
		return err
	})
	return id, err
}

// steer proposes a command for an operation named by id or alias.
func (s operations) steer(ctx context.Context, what, name string, command func(id string) proto.Message) error {
	id, err := s.resolve(ctx, what, name)
	if err != nil {
		return err
	}
	_, err = s.propose(ctx, what, command(id))
	return err
}

// Abort ends an operation with its jobs, at once or by interruption.
func (s operations) Abort(ctx context.Context, req *connect.Request[apipb.AbortOperationRequest]) (*connect.Response[apipb.AbortOperationResponse], error) {
	if err := interruptTimeout("abort operation", req.Msg.GetInterruptTimeoutMillis()); err != nil {
		return nil, err
	}
	return answer(&apipb.AbortOperationResponse{}, s.steer(ctx, "abort operation", req.Msg.GetOperation(), func(id string) proto.Message {
		return &commandpb.AbortOperation{
			OperationId: id, User: userOf(ctx), Reason: req.Msg.GetReason(),
			InterruptMillis: req.Msg.GetInterruptTimeoutMillis(),
		}
	}))
}

// Suspend stops the start of further jobs of an operation.
func (s operations) Suspend(ctx context.Context, req *connect.Request[apipb.SuspendOperationRequest]) (*connect.Response[apipb.SuspendOperationResponse], error) {
	return answer(&apipb.SuspendOperationResponse{}, s.steer(ctx, "suspend operation", req.Msg.GetOperation(), func(id string) proto.Message {
		return &commandpb.SuspendOperation{
			OperationId: id, User: userOf(ctx), AbortRunningJobs: req.Msg.GetAbortRunningJobs(),
		}
	}))
}

// Resume lets a suspended operation start jobs again.
func (s operations) Resume(ctx context.Context, req *connect.Request[apipb.ResumeOperationRequest]) (*connect.Response[apipb.ResumeOperationResponse], error) {
	return answer(&apipb.ResumeOperationResponse{}, s.steer(ctx, "resume operation", req.Msg.GetOperation(), func(id string) proto.Message {
		return &commandpb.ResumeOperation{OperationId: id, User: userOf(ctx)}
	}))
}

// Complete ends an operation as completed, although some of its jobs have not completed.
func (s operations) Complete(ctx context.Context, req *connect.Request[apipb.CompleteOperationRequest]) (*connect.Response[apipb.CompleteOperationResponse], error) {
	return answer(&apipb.CompleteOperationResponse{}, s.steer(ctx, "complete operation", req.Msg.GetOperation(), func(id string) proto.Message {
		return &commandpb.CompleteOperation{OperationId: id, User: userOf(ctx)}
	}))
}

// Update changes the pool and the scheduling options of an operation in progress.
func (s operations) Update(ctx context.Context, req *connect.Request[apipb.UpdateOperationRequest]) (*connect.Response[apipb.UpdateOperationResponse], error) {
	const what = "update operation"
	var wanted []*commandpb.OperationChange
	for _, c := range req.Msg.GetChanges() {
		if _, err := document.FromStruct("options", c.GetOptions()); err != nil {
			return nil, fail(connect.CodeInvalidArgument, state.CodeInvalidSpec, "%s: %v", what, err)
		}
		wanted = append(wanted, &commandpb.OperationChange{Tree: c.GetTree(), Pool: c.Pool, Options: changesOf(c.GetOptions())})
	}
	id, err := s.resolve(ctx, what, req.Msg.GetOperation())
	if err != nil {
		return nil, err
	}
	result, err := s.propose(ctx, what, &commandpb.UpdateOperation{OperationId: id, User: userOf(ctx), Changes: wanted})
	return answer(&apipb.UpdateOperationResponse{Warnings: result.GetUpdateOperation().GetWarnings()}, err)
}
