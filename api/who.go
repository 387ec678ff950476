package api

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
)

// whoAndWhat implements AccessService.
type whoAndWhat struct{ *server }

// WhoAmI shows who the caller is, and the rights that pools give to the caller.
func (s whoAndWhat) WhoAmI(ctx context.Context, _ *connect.Request[apipb.WhoAmIRequest]) (*connect.Response[apipb.WhoAmIResponse], error) {
	by := askerOf(ctx)
	out := &apipb.WhoAmIResponse{User: by.Name, Role: by.Role.String(), Gateway: by.gateway}
	err := s.read(ctx, "who am I", func(st *state.State) error {
		rights := state.RightsIn(st)
		who := rights.Who(by.subject())
		out.Groups = who.Groups
		for giver, list := range rights.Given() {
			given := &apipb.PoolRights{Tree: string(giver.Tree), Pool: string(giver.Pool)}
			for _, right := range access.Rights() {
				if list.Gives(right, who) {
					given.Rights = append(given.Rights, string(right))
				}
			}
			if len(given.GetRights()) > 0 {
				out.Rights = append(out.Rights, given)
			}
		}
		return nil
	})
	return answer(out, err)
}

// MayI says whether the caller has a right on a pool or an operation.
func (s whoAndWhat) MayI(ctx context.Context, req *connect.Request[apipb.MayIRequest]) (*connect.Response[apipb.MayIResponse], error) {
	m := req.Msg
	right, err := access.ParseRight(m.GetRight())
	if err != nil {
		return nil, invalid("may I: %v", err)
	}
	if (m.GetPool() == "") == (m.GetOperation() == "") {
		return nil, invalid("may I: give exactly one of pool and operation")
	}
	out := &apipb.MayIResponse{}
	err = s.read(ctx, "may I", func(st *state.State) error {
		rights := state.RightsIn(st)
		who := rights.Who(askerOf(ctx).subject())
		var missing error
		if m.GetOperation() != "" {
			op, err := find(st, m.GetOperation())
			if err != nil {
				return err
			}
			missing = rights.Operation(who, right, op, string(right))
		} else {
			t, err := findTree(st, "may I", m.GetTree())
			if err != nil {
				return err
			}
			pool := scheduling.PoolName(m.GetPool())
			if !t.pools.Has(pool) {
				return fail(connect.CodeNotFound, state.CodeUnknownPool, "may I: tree %q has no pool %q", t.name, pool)
			}
			missing = rights.Pool(who, right, t.name, pool, fmt.Sprintf("%s pool %q", right, pool))
		}
		out.Allowed = missing == nil
		if missing != nil {
			out.Reason = missing.Error()
		}
		return nil
	})
	return answer(out, err)
}

// Groups shows groups, by name.
func (s whoAndWhat) Groups(ctx context.Context, req *connect.Request[apipb.GroupsRequest]) (*connect.Response[apipb.GroupsResponse], error) {
	out := &apipb.GroupsResponse{}
	err := s.read(ctx, "show groups", func(st *state.State) error {
		for _, group := range state.RightsIn(st).Groups() {
			if req.Msg.GetName() == "" || req.Msg.GetName() == group.GetName() {
				out.Groups = append(out.Groups, groupOf(group))
			}
		}
		if name := req.Msg.GetName(); name != "" && len(out.GetGroups()) == 0 {
			return fail(connect.CodeNotFound, state.CodeUnknownGroup, "show groups: there is no group %q", name)
		}
		return nil
	})
	return answer(out, err)
}

func groupOf(g *statepb.Group) *apipb.Group {
	return &apipb.Group{Name: g.GetName(), Users: g.GetUsers(), ModifiedTime: g.GetModifiedTime()}
}

// EditGroup changes the users of a group.
func (s whoAndWhat) EditGroup(ctx context.Context, req *connect.Request[apipb.EditGroupRequest]) (*connect.Response[apipb.EditGroupResponse], error) {
	m := req.Msg
	_, err := s.propose(ctx, "edit group", &commandpb.EditGroup{
		Group: m.GetGroup(), Add: m.GetAdd(), Remove: m.GetRemove(), Delete: m.GetDelete(), User: userOf(ctx), Time: timestamppb.New(s.cfg.Now()),
	})
	return answer(&apipb.EditGroupResponse{}, err)
}
