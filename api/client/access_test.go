package client_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// fakeAccess has revocations that are lifted by a call whose answer is lost.
type fakeAccess struct {
	apipbconnect.UnimplementedAccessServiceHandler
	revoke func() error
	left   func() []*apipb.Revocation
}

func (r fakeAccess) Revoke(context.Context, *connect.Request[apipb.RevokeRequest]) (*connect.Response[apipb.RevokeResponse], error) {
	if err := r.revoke(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.RevokeResponse{}), nil
}

func (r fakeAccess) Revocations(context.Context, *connect.Request[apipb.RevocationsRequest]) (*connect.Response[apipb.RevocationsResponse], error) {
	return connect.NewResponse(&apipb.RevocationsResponse{Revocations: r.left()}), nil
}

func TestALostAnswerOfLifting(t *testing.T) {
	const unknown = "unknown_revocation"
	ann, bob := &apipb.Revocation{Role: "user", Name: "ann"}, &apipb.Revocation{Role: "user", Name: "bob"}
	serial := &apipb.Revocation{Serial: "ab12"}
	for name, test := range map[string]struct {
		request  *apipb.RevokeRequest
		left     []*apipb.Revocation
		wantCode string
	}{
		"the first try has done it":           {request: &apipb.RevokeRequest{Role: "user", Name: "ann", Lift: true}, left: []*apipb.Revocation{bob, serial}},
		"by serial":                           {request: &apipb.RevokeRequest{Serial: "00AB12", Lift: true}, left: []*apipb.Revocation{ann}},
		"it is revoked":                       {request: &apipb.RevokeRequest{Role: "user", Name: "ann", Lift: true}, left: []*apipb.Revocation{ann}, wantCode: unknown},
		"by serial: it is revoked":            {request: &apipb.RevokeRequest{Serial: "00AB12", Lift: true}, left: []*apipb.Revocation{serial}, wantCode: unknown},
		"a refused revocation is not settled": {request: &apipb.RevokeRequest{Role: "user", Name: "ann"}, left: []*apipb.Revocation{bob}, wantCode: unknown},
	} {
		t.Run(name, func(t *testing.T) {
			lost := true
			access := fakeAccess{left: func() []*apipb.Revocation { return test.left }, revoke: func() error {
				if lost {
					lost = false
					return unavailable("")
				}
				return refuse(connect.CodeNotFound, unknown, "nothing is revoked")
			}}
			c := open(t, nil, serve(t, &fakeReplica{access: access}).address)
			if _, err := c.Revoke(t.Context(), test.request); client.CodeOf(err) != test.wantCode {
				t.Errorf("revoke: %v, want code %q", err, test.wantCode)
			}
		})
	}
}
