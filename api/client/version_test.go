package client_test

import (
	"errors"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/messages/apipb"
)

// TestOlderReplicasAreLeftOut (V2): a call that a replica of an older version does not know is made at another one; if
// none knows it, the caller learns that.
func TestOlderReplicasAreLeftOut(t *testing.T) {
	older := func(*apipb.StartRequest) (*apipb.StartResponse, error) {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("404 Not Found"))
	}
	first, second := serve(t, &fakeReplica{start: older}), serve(t, &fakeReplica{start: older})
	newer := serve(t, &fakeReplica{start: func(*apipb.StartRequest) (*apipb.StartResponse, error) {
		return &apipb.StartResponse{OperationId: "op"}, nil
	}})
	start := func(addresses ...string) (*apipb.StartResponse, error) {
		return open(t, nil, addresses...).StartOperation(t.Context(), &apipb.StartRequest{Spec: &structpb.Struct{}})
	}
	if got, err := start(first.address, second.address, newer.address); err != nil || got.GetOperationId() != "op" {
		t.Errorf("got %v, %v", got, err)
	}
	_, err := start(first.address, second.address)
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Kind != connect.CodeUnimplemented {
		t.Errorf("no replica knows the call: %v", err)
	}
}
