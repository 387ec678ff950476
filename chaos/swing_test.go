package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"weir/chaos/history"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/raftstore/state"
)

// registry is a replica that keeps groups and the rights of one pool. It answers some calls with
// errors: those whose number is in the map failing.
type registry struct {
	apipbconnect.PoolServiceClient
	apipbconnect.AccessServiceClient

	calls    int
	failing  map[int]error
	revision uint64
	acl      *apipb.Pool
	members  map[string][]string
}

func (r *registry) fail() error {
	r.calls++
	return r.failing[r.calls]
}

func (r *registry) List(context.Context, *connect.Request[apipb.ListPoolsRequest]) (*connect.Response[apipb.ListPoolsResponse], error) {
	if err := r.fail(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.ListPoolsResponse{Revision: r.revision, Pools: []*apipb.Pool{r.acl}}), nil
}

func (r *registry) Edit(_ context.Context, req *connect.Request[apipb.EditTreeRequest]) (*connect.Response[apipb.EditTreeResponse], error) {
	if req.Msg.GetExpectedRevision() != r.revision {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("revision"))
	}
	change := req.Msg.GetEdits()[0].GetChange()
	r.acl, r.revision = &apipb.Pool{Name: change.GetName(), Options: change.GetOptions()}, r.revision+1
	// An answer that is lost: the edit is done.
	if err := r.fail(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.EditTreeResponse{Revision: r.revision}), nil
}

func (r *registry) EditGroup(_ context.Context, req *connect.Request[apipb.EditGroupRequest]) (*connect.Response[apipb.EditGroupResponse], error) {
	m := req.Msg
	if err := r.fail(); err != nil {
		if len(m.GetRemove()) > 0 {
			// An answer that is lost: the user is removed.
			delete(r.members, m.GetGroup())
		}
		return nil, err
	}
	for _, user := range m.GetRemove() {
		if !slices.Contains(r.members[m.GetGroup()], user) {
			err := connect.NewError(connect.CodeInvalidArgument, errors.New("not in it"))
			err.Meta().Set(apipb.HeaderCode, state.CodeInvalidGroup)
			return nil, err
		}
	}
	r.members[m.GetGroup()] = m.GetAdd()
	return connect.NewResponse(&apipb.EditGroupResponse{}), nil
}

// errLost is an answer that did not come.
var errLost = connect.NewError(connect.CodeUnavailable, errors.New("lost"))

// turns lets a user swing some times, with calls that fail, and returns what was recorded.
func turns(t *testing.T, byGroup bool, times int, failing map[int]error) (recorded []string, r *registry) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		journal, err := history.Create(filepath.Join(dir, history.RightsFile))
		if err != nil {
			t.Fatal(err)
		}
		r = &registry{revision: 7, failing: failing, members: make(map[string][]string)}
		c := &changer{
			load: &load{turns: journal}, user: "swing", pool: groupSwingsIn, random: rand.New(rand.NewPCG(1, 1)), doors: []door{{replica: "r1", pools: r, access: r}},
		}
		swing := c.turnByACL
		if byGroup {
			c.crew, swing = 1, c.turnByGroup
		}
		for range times {
			if err := swing(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := journal.Close(); err != nil {
			t.Fatal(err)
		}
	})
	run, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range run.Turns {
		recorded = append(recorded, fmt.Sprintf("%s %v %s %v", turn.Way, turn.Give, turn.Outcome, turn.Final))
	}
	return recorded, r
}

// TestSwings (T1) gives rights and takes them away, also when answers do not come.
func TestSwings(t *testing.T) {
	for name, test := range map[string]struct {
		byGroup bool
		times   int
		failing map[int]error
		want    []string
	}{
		"by list":                      {times: 2, want: []string{"acl true ok true", "acl false ok true"}},
		"by list, with a lost answer":  {times: 2, failing: map[int]error{2: errLost}, want: []string{"acl true ok true", "acl false ok true"}},
		"by group":                     {byGroup: true, times: 3, want: []string{"crew1 true ok false", "crew1 false ok false", "crew1 true ok false"}},
		"by group, with a lost taking": {byGroup: true, times: 3, failing: map[int]error{2: errLost}, want: []string{"crew1 true ok false", "crew1 false unknown false", "crew1 false ok false"}},
		"by group, with a lost giving": {
			byGroup: true, times: 2, failing: map[int]error{1: errLost, 2: errLost}, want: []string{"crew1 true unknown false", "crew1 false ok true", "crew2 true ok false"},
		},
		"by group, with a giving that was refused": {
			byGroup: true, times: 2, failing: map[int]error{1: connect.NewError(connect.CodePermissionDenied, errors.New("no"))},
			want: []string{"crew1 true refused false", "crew1 true ok false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, r := turns(t, test.byGroup, test.times, test.failing)
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q\nwant %q", got, test.want)
			}
			if name == "by group, with a lost giving" {
				wants := rights{use: []string{"group:clients2"}}.with("group:crew2")
				if given := r.acl.GetOptions().AsMap()["acl"]; fmt.Sprint(given) != fmt.Sprint(wants.option()) {
					t.Errorf("the pool gives %v, want %v", given, wants.option())
				}
			}
		})
	}
}

func TestTargets(t *testing.T) {
	var all targets
	random := rand.New(rand.NewPCG(1, 1))
	if _, found := all.pick(random, false, ""); found {
		t.Error("there is a target before there is one")
	}
	for i := range 2 * latest {
		all.add(fmt.Sprint("o", i), pool(1+i%2))
	}
	all.addJob("j0", "o0")
	if _, found := all.pick(random, true, ""); found {
		t.Error("a job of an old operation is a target")
	}
	all.addJob("j1", fmt.Sprint("o", 2*latest-1))
	if got, found := all.pick(random, true, pool(2)); !found || got.job != "j1" {
		t.Errorf("job %+v, %v", got, found)
	}
	if got, found := all.pick(random, false, pool(1)); !found || got.pool != pool(1) || len(all.operations) != latest {
		t.Errorf("operation %+v, %v of %d", got, found, len(all.operations))
	}
}
