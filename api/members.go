package api

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"weir/cluster"
	"weir/messages/apipb"
	"weir/raftstore"
)

// backupPart is how much of a backup goes into one message.
const backupPart = 256 << 10

// Add makes a replica a member.
func (s clusters) Add(ctx context.Context, req *connect.Request[apipb.AddReplicaRequest]) (*connect.Response[apipb.AddReplicaResponse], error) {
	id, address := req.Msg.GetId(), req.Msg.GetAddress()
	if _, err := cluster.ParsePeers([]string{id + "=" + address}); err != nil {
		return nil, invalid("add replica: %v", err)
	}
	if err := s.tooOld("add replica", id); err != nil {
		return nil, err
	}
	return answer(&apipb.AddReplicaResponse{}, s.membership(s.cfg.Store.AddReplica(ctx, id, address)))
}

// Remove ends a replica's membership.
func (s clusters) Remove(ctx context.Context, req *connect.Request[apipb.RemoveReplicaRequest]) (*connect.Response[apipb.RemoveReplicaResponse], error) {
	if err := s.named("remove", req.Msg.GetId()); err != nil {
		return nil, err
	}
	id := req.Msg.GetId()
	before, err := s.cfg.Store.Members()
	if err != nil {
		return nil, s.membership(err)
	}
	// Only the leader knows for sure which replicas are members, so ask it before
	// rejecting an unknown id.
	if err := s.cfg.Store.RemoveReplica(ctx, id, req.Msg.GetForce()); err != nil {
		return nil, s.membership(err)
	}
	if slices.ContainsFunc(before, func(m raftstore.Member) bool { return m.ID == id }) {
		s.removed.Store(id, true)
	} else if _, again := s.removed.Load(id); !again {
		return nil, fail(connect.CodeNotFound, apipb.CodeUnknownReplica, "remove replica: %q is not a member: the members are %s", id, memberNames(before))
	}
	return connect.NewResponse(&apipb.RemoveReplicaResponse{}), nil
}

func memberNames(members []raftstore.Member) string {
	names := mapped(members, func(m raftstore.Member) string { return m.ID })
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Promote gives a member a vote.
func (s clusters) Promote(ctx context.Context, req *connect.Request[apipb.PromoteReplicaRequest]) (*connect.Response[apipb.PromoteReplicaResponse], error) {
	if err := s.named("promote", req.Msg.GetId()); err != nil {
		return nil, err
	}
	if err := s.tooOld("promote replica", req.Msg.GetId()); err != nil {
		return nil, err
	}
	return answer(&apipb.PromoteReplicaResponse{}, s.membership(s.cfg.Store.PromoteReplica(ctx, req.Msg.GetId())))
}

// Demote makes a voting member a nonvoter.
func (s clusters) Demote(ctx context.Context, req *connect.Request[apipb.DemoteReplicaRequest]) (*connect.Response[apipb.DemoteReplicaResponse], error) {
	if err := s.named("demote", req.Msg.GetId()); err != nil {
		return nil, err
	}
	return answer(&apipb.DemoteReplicaResponse{}, s.membership(s.cfg.Store.DemoteReplica(ctx, req.Msg.GetId(), req.Msg.GetForce())))
}

// Join admits a replica that starts, and answers with its suffrage and the members.
func (s clusters) Join(ctx context.Context, req *connect.Request[apipb.JoinRequest]) (*connect.Response[apipb.JoinResponse], error) {
	m := req.Msg
	if who := userOf(ctx); who != m.GetId() {
		return nil, fail(connect.CodePermissionDenied, apipb.CodePermissionDenied, "join: replica %q cannot act for %q", who, m.GetId())
	}
	suffrage, err := s.cfg.Store.Admit(ctx, raftstore.Applicant{ID: m.GetId(), Address: m.GetAddress(), Empty: m.GetEmpty(), Votes: m.GetVotes(), Can: m.GetCan()})
	if err != nil {
		return nil, s.membership(err)
	}
	members, err := s.cfg.Store.Members()
	return answer(&apipb.JoinResponse{
		Suffrage: string(suffrage), Leader: s.cfg.Replica,
		Members: mapped(members, func(m raftstore.Member) *apipb.Member {
			return &apipb.Member{Id: m.ID, Address: m.Address, Suffrage: string(m.Suffrage)}
		}),
	}, s.membership(err))
}

// Backup streams the state of this replica. The state includes every write that was
// answered before the call.
func (s clusters) Backup(ctx context.Context, _ *connect.Request[apipb.BackupRequest], stream *connect.ServerStream[apipb.BackupPart]) error {
	if err := s.cfg.Log.ReadBarrier(ctx); err != nil {
		return s.unavailable("cluster backup", err)
	}
	out := bufio.NewWriterSize(backupStream{stream}, backupPart)
	if err := errors.Join(s.cfg.Store.Backup(out), out.Flush()); err != nil {
		return s.unavailable("cluster backup", err)
	}
	return nil
}

// backupStream is a writer that sends each write in messages of at most backupPart bytes.
type backupStream struct {
	stream *connect.ServerStream[apipb.BackupPart]
}

// Write implements io.Writer.
func (b backupStream) Write(data []byte) (int, error) {
	sent := 0
	for part := range slices.Chunk(data, backupPart) {
		if err := b.stream.Send(&apipb.BackupPart{Data: part}); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return sent, nil
}

// named returns an error if the id of the replica is empty.
func (s clusters) named(what, id string) error {
	if id == "" {
		return invalid("%s replica: its id is missing: see weir cluster members", what)
	}
	return nil
}

// membership converts an error of a membership change into one for clients.
func (s clusters) membership(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raftstore.ErrNotLeader):
		refused := fail(connect.CodeUnavailable, apipb.CodeNotLeader, "%v", err)
		s.hint(refused.Meta().Set)
		return refused
	case errors.Is(err, raftstore.ErrMembership):
		return fail(connect.CodeFailedPrecondition, apipb.CodeMembersNotChanged, "%v", err)
	default:
		return s.unavailable("members", err)
	}
}
