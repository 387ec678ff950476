package api

import (
	"context"

	"connectrpc.com/connect"

	"weir/api/document"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/raftstore/state"
)

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
