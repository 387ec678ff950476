package api

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
	"weir/messages/commandpb"
)

// Update changes what holds for an operation while it is in progress.
func (s operations) Update(ctx context.Context, req *connect.Request[apipb.UpdateOperationRequest]) (*connect.Response[apipb.UpdateOperationResponse], error) {
	var wanted []*commandpb.OperationChange
	for _, c := range req.Msg.GetChanges() {
		wanted = append(wanted, &commandpb.OperationChange{Tree: c.GetTree(), Pool: c.Pool, Options: changesOf(c.GetOptions())})
	}
	const what = "update operation"
	id, err := s.resolve(ctx, what, req.Msg.GetOperation())
	if err != nil {
		return nil, err
	}
	result, err := s.propose(ctx, what, &commandpb.UpdateOperation{OperationId: id, User: caller(ctx).Name, Changes: wanted, Time: timestamppb.New(s.cfg.Now())})
	return answer(&apipb.UpdateOperationResponse{Warnings: result.GetUpdateOperation().GetWarnings()}, err)
}
