package api

import (
	"context"
	"encoding/hex"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cluster/identity"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// Revocations shows the certificates that are no longer accepted.
func (s whoAndWhat) Revocations(ctx context.Context, _ *connect.Request[apipb.RevocationsRequest]) (*connect.Response[apipb.RevocationsResponse], error) {
	out := &apipb.RevocationsResponse{}
	err := s.read(ctx, "show revocations", func(st *state.State) error {
		out.Revocations = mapped(state.RightsIn(st).Revocations(), revocationOf)
		return nil
	})
	return answer(out, err)
}

func revocationOf(r *statepb.Revocation) *apipb.Revocation {
	return &apipb.Revocation{
		Serial: r.GetSerial(), Role: r.GetRole(), Name: r.GetName(), IssuedBefore: r.GetIssuedBefore(), Reason: r.GetReason(), User: r.GetUser(), Time: r.GetTime(),
	}
}

// maxRevokeReasonBytes bounds the reason of a revocation.
const maxRevokeReasonBytes = 1024

// Revoke has certificates no longer accepted. It refuses to revoke the certificate of its caller, who
// may be the last operator.
func (s whoAndWhat) Revoke(ctx context.Context, req *connect.Request[apipb.RevokeRequest]) (*connect.Response[apipb.RevokeResponse], error) {
	const what = "revoke certificates"
	m := req.Msg
	now := timestamppb.New(s.cfg.Now())
	r := &statepb.Revocation{Serial: strings.ToLower(m.GetSerial()), Role: m.GetRole(), Name: m.GetName(), Reason: m.GetReason()}
	by := askerOf(ctx)
	switch {
	case (m.GetSerial() == "") == (m.GetRole() == "" && m.GetName() == ""), (m.GetRole() == "") != (m.GetName() == ""):
		return nil, invalid("%s: give either serial, or role and name", what)
	case len(m.GetReason()) > maxRevokeReasonBytes:
		return nil, invalid("%s: reason: it has %d bytes, the limit is %d", what, len(m.GetReason()), maxRevokeReasonBytes)
	case m.GetSerial() != "":
		if _, err := hex.DecodeString(strings.Repeat("0", len(r.GetSerial())%2) + r.GetSerial()); err != nil || len(r.GetSerial()) > 40 {
			return nil, invalid("%s: serial %q: must be at most 40 hexadecimal digits", what, m.GetSerial())
		}
		r.Serial = strings.TrimLeft(r.GetSerial(), "0")
	default:
		role, err := identity.ParseRole(m.GetRole())
		if err == nil {
			err = identity.Identity{Cluster: s.cfg.Cluster, Role: role, Name: m.GetName()}.Validate()
		}
		if err != nil {
			return nil, invalid("%s: %v", what, err)
		}
		r.Role = role.String()
	}
	if own := by.Role.String() == r.GetRole() && by.Name == r.GetName() || by.serial != "" && by.serial == r.GetSerial(); own && !m.GetLift() {
		return nil, fail(connect.CodeFailedPrecondition, state.CodeInvalidRevocation,
			"%s: it is the certificate with which you ask: let another operator revoke it, so that an operator is left", what)
	}
	_, err := s.propose(ctx, what, &commandpb.Revoke{Revocation: r, Lift: m.GetLift(), User: userOf(ctx), Time: now})
	return answer(&apipb.RevokeResponse{Revocation: revocationOf(r)}, err)
}
