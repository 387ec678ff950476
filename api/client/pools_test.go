package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// fakePools has pools that an edit was made of whose answer was lost.
type fakePools struct {
	apipbconnect.UnimplementedPoolServiceHandler
	edit func() error
	list func(*apipb.ListPoolsRequest) (*apipb.ListPoolsResponse, error)
}

func (r fakePools) Edit(context.Context, *connect.Request[apipb.EditTreeRequest]) (*connect.Response[apipb.EditTreeResponse], error) {
	if err := r.edit(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.EditTreeResponse{Revision: 8}), nil
}

func (r fakePools) List(_ context.Context, req *connect.Request[apipb.ListPoolsRequest]) (*connect.Response[apipb.ListPoolsResponse], error) {
	if r.list != nil {
		out, err := r.list(req.Msg)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(out), nil
	}
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

// TestListPoolsInParts (T4) has a tree whose pools come in two answers, and which changes between them:
// the client asks for the rest, and begins again if the tree has changed.
func TestListPoolsInParts(t *testing.T) {
	for name, test := range map[string]struct {
		// changes is how often the tree changes before its second part is listed.
		changes int
		// gone has the pool removed after which the list goes on.
		gone    bool
		want    string
		wantErr string
	}{
		"a tree that stays as it is":                {want: "a b c"},
		"one that changes once":                     {changes: 1, want: "a b c"},
		"one whose next pool is removed":            {changes: 1, gone: true, want: "a b c"},
		"one that changes faster than it is listed": {changes: 100, wantErr: "changes faster than its pools can be listed"},
	} {
		t.Run(name, func(t *testing.T) {
			revision, left := uint64(1), test.changes
			c := open(t, nil, serve(t, &fakeReplica{listPools: func(m *apipb.ListPoolsRequest) (*apipb.ListPoolsResponse, error) {
				if m.GetAfter() == "" {
					return &apipb.ListPoolsResponse{Tree: "t", Revision: revision, Next: "b", LeftOut: 1, Alerts: []string{"root"}, Pools: []*apipb.Pool{{Name: "a"}, {Name: "b"}}}, nil
				}
				if left > 0 {
					left, revision = left-1, revision+1
					if test.gone {
						return nil, refuse(connect.CodeNotFound, "unknown_pool", "there is no pool b any more")
					}
				}
				return &apipb.ListPoolsResponse{Tree: "t", Revision: revision, Alerts: []string{"root"}, Pools: []*apipb.Pool{{Name: "c"}}}, nil
			}}).address)
			all, err := c.ListPools(t.Context(), "")
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("got %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range all.GetPools() {
				names = append(names, p.GetName())
			}
			if got := strings.Join(names, " "); got != test.want || len(all.GetAlerts()) != 1 || all.GetLeftOut() != 0 {
				t.Errorf("got %s, %v, %d left out", got, all.GetAlerts(), all.GetLeftOut())
			}
		})
	}
}

// TestListNodesInParts (T4) has nodes come in three answers: the client asks for the rest, in the state that is
// wanted.
func TestListNodesInParts(t *testing.T) {
	c := open(t, nil, serve(t, &fakeReplica{listNodes: func(m *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
		if m.GetState() != "online" {
			return nil, refuse(connect.CodeInvalidArgument, "invalid_argument", "the state is forgotten")
		}
		parts := map[string]*apipb.ListNodesResponse{
			"":   {Nodes: []*apipb.Node{{Id: "n1"}, {Id: "n2"}}, Next: "n2", LeftOut: 2},
			"n2": {Nodes: []*apipb.Node{{Id: "n3"}}, Next: "n3", LeftOut: 1},
			"n3": {Nodes: []*apipb.Node{{Id: "n4"}}},
		}
		return parts[m.GetAfter()], nil
	}}).address)
	all, err := c.ListNodes(t.Context(), "online")
	var names []string
	for _, n := range all {
		names = append(names, n.GetId())
	}
	if got := strings.Join(names, " "); err != nil || got != "n1 n2 n3 n4" {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestNodesOfARequest has a request for some nodes go to a replica that answers in parts, and to one that is too old
// for it: of that one all nodes would come, so it counts as refused; a limit is kept nevertheless.
func TestNodesOfARequest(t *testing.T) {
	four := []*apipb.Node{{Id: "n1"}, {Id: "n2"}, {Id: "n3"}, {Id: "n4"}}
	var asked []string
	newer := open(t, nil, serve(t, &fakeReplica{listNodes: func(m *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
		asked = append(asked, fmt.Sprintf("%s %d after %s", m.GetPrefix(), m.GetLimit(), m.GetAfter()))
		if m.GetAfter() == "" {
			return &apipb.ListNodesResponse{Nodes: four[:2], Next: "n2", LeftOut: 2, Sums: &apipb.NodeSums{Nodes: 4}, Refused: []*apipb.RefusedAgent{{Node: "x"}}}, nil
		}
		return &apipb.ListNodesResponse{Nodes: four[2:3], Next: "n3", LeftOut: 1, Sums: &apipb.NodeSums{Nodes: 4}}, nil
	}}).address)
	got, err := newer.Nodes(t.Context(), &apipb.ListNodesRequest{Prefix: "n", Limit: 3})
	if err != nil || len(got.GetNodes()) != 3 || got.GetNext() != "n3" || got.GetLeftOut() != 1 || len(got.GetRefused()) != 1 || !slices.Equal(asked, []string{"n 3 after ", "n 1 after n2"}) {
		t.Errorf("got %v, %v by %q", got, err, asked)
	}
	older := open(t, nil, serve(t, &fakeReplica{listNodes: func(*apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
		return &apipb.ListNodesResponse{Nodes: four}, nil
	}}).address)
	if _, err := older.Nodes(t.Context(), &apipb.ListNodesRequest{Drained: true}); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("got %v, want that the replica is too old", err)
	}
	if got, err := older.Nodes(t.Context(), &apipb.ListNodesRequest{Limit: 3}); err != nil || len(got.GetNodes()) != 3 || got.GetNext() != "n3" || got.GetLeftOut() != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
