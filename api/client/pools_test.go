package client_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// fakePools has pools that an edit was made of whose answer was lost.
type fakePools struct {
	apipbconnect.UnimplementedPoolServiceHandler
	edit func() error
}

func (r fakePools) Edit(context.Context, *connect.Request[apipb.EditTreeRequest]) (*connect.Response[apipb.EditTreeResponse], error) {
	if err := r.edit(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.EditTreeResponse{Revision: 8}), nil
}

func (fakePools) List(context.Context, *connect.Request[apipb.ListPoolsRequest]) (*connect.Response[apipb.ListPoolsResponse], error) {
	return connect.NewResponse(&apipb.ListPoolsResponse{Tree: "default", Revision: 9, Pools: []*apipb.Pool{{Name: "ads", Parent: "<Root>"}}}), nil
}

func TestALostAnswerOfAnEdit(t *testing.T) {
	for name, test := range map[string]struct {
		pool string
		want uint64
	}{
		"the pool is there: it was made":   {"ads", 9},
		"another took the name for itself": {"other", 0},
	} {
		t.Run(name, func(t *testing.T) {
			lost := true
			edit := func() error {
				if lost {
					lost = false
					return refuse(connect.CodeUnavailable, "outcome_unknown", "the leader has gone")
				}
				return refuse(connect.CodeAlreadyExists, "pool_exists", "pool already exists")
			}
			c := open(t, nil, serve(t, &fakeReplica{pools: edit}).address)
			revision, err := c.CreatePool(t.Context(), &apipb.Pool{Name: test.pool})
			if revision != test.want || (err == nil) != (test.want != 0) {
				t.Errorf("revision %d and %v, want %d", revision, err, test.want)
			}
		})
	}
}
