package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/cluster/gossip"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// upgrading is a site whose replicas and agents can what they are given.
type upgrading struct{ *site }

func newUpgrade(t *testing.T) upgrading {
	u := upgrading{newSite(t)}
	u.replicas("v2 2", "v2 2", "v2 2")
	return u
}

// replicas sets the version of r1, r2 and r3 and what it can; "" is a replica that is down.
func (u upgrading) replicas(programs ...string) {
	var members []gossip.Member
	for i, program := range programs {
		m := gossip.Member{ID: scheduling.ReplicaID(replicaIDs[i]), Address: replicaIDs[i] + ".example:7701"}
		if _, err := fmt.Sscan(program, &m.Version, &m.Can); err == nil {
			members = append(members, m)
		}
	}
	u.gossip(members)
}

// agent registers the agent of a node, and tells what it can unless that is 0.
func (u upgrading) agent(node, version string, can uint32, online bool) {
	u.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
		Id: node, Incarnation: 1, Version: version, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1},
	}})
	if !online {
		u.must(&commandpb.SetNodeOffline{Term: 1, Node: node, Incarnation: 1, Reason: "gone"})
	}
	if can > 0 {
		u.agents = append(u.agents, &actorpb.AgentProgram{Node: node, Can: can})
	}
}

func (u upgrading) version() (version uint32) {
	u.View(func(st *state.State) { version = st.Version() })
	return version
}

// TestUpgradeStatus (V2): replicas one by one and agents that are alike together, with what they can.
func TestUpgradeStatus(t *testing.T) {
	u := newUpgrade(t)
	u.replicas("v2 2", "v1 0", "")
	u.agent("n1", "v2", 2, true)
	u.agent("n2", "v2", 2, true)
	u.agent("n3", "v1", 1, true)
	u.agent("n4", "v1", 0, false)
	u.agent("n5", "v9", 0, true)
	var got []string
	for _, p := range at(t, u.get("ClusterService/UpgradeStatus", `{}`), "processes").([]any) {
		p := p.(map[string]any)
		got = append(got, fmt.Sprint(p["role"], p["names"], " ", p["version"], " can ", p["can"], ", ", p["state"], ": ", p["in_the_way"]))
	}
	want := []string{
		"replica[r1] v2 can 2, leader: ",
		"replica[r2] v1 can 1, voter: its program is too old",
		"replica[r3] v2 can 0, down: it is down, so nobody knows with which program it comes back",
		"agent[n1 n2] v2 can 2, online: ",
		"agent[n3] v1 can 1, online: its program is too old",
		"agent[n4] v1 can 0, offline: offline, and its last program was too old",
		"agent[n5] v9 can 0, online: the leader does not know yet",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(strings.ReplaceAll(got[i], "<nil>", ""), want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

// TestFinishUpgrade (V2): refused with the name of each process that is in the way, and by whom it may not be asked.
func TestFinishUpgrade(t *testing.T) {
	for story, test := range map[string]struct {
		given func(u upgrading)
		body  string
		as    string
		want  []string
	}{
		"all can":               {func(upgrading) {}, `{"version": 2}`, "operator/oda", nil},
		"asked only":            {func(upgrading) {}, `{"version": 2, "dry_run": true}`, "operator/oda", nil},
		"a follower is asked":   {func(u upgrading) { u.lead("r2") }, `{"version": 2}`, "operator/oda", nil},
		"an agent of this":      {func(u upgrading) { u.agent("n1", "v2", 0, true) }, `{"version": 2}`, "operator/oda", nil},
		"an agent that was new": {func(u upgrading) { u.agent("n1", "v2", 0, false) }, `{"version": 2}`, "operator/oda", nil},
		"by a user":             {func(upgrading) {}, `{"version": 2}`, "user/ann", []string{"is for operators"}},
		"another version":       {func(upgrading) {}, `{"version": 3}`, "operator/oda", []string{"raises the cluster to version 2, not 3"}},
		"no version":            {func(upgrading) {}, `{}`, "operator/oda", []string{"not 0"}},
		"replicas that lag": {func(u upgrading) { u.replicas("v2 2", "v1 1", "") }, `{"version": 2}`, "operator/oda",
			[]string{"replica r2 (weir v1): its program is too old: install weir 0.2.0 or later there", "replica r3 (weir v2): it is down", "weir cluster remove r3"}},
		"agents that lag": {func(u upgrading) {
			u.agent("n1", "v1", 1, true)
			u.agent("n2", "v1", 1, true)
			u.agent("n3", "v8", 0, true)
		}, `{"version": 2, "without_offline_agents": true}`, "operator/oda",
			[]string{"agent n1, n2 (weir v1): its program is too old", "agent n3 (weir v8): the leader does not know yet"}},
		"a leader that lags": {func(u upgrading) {
			u.replicas("v2 2", "v1 1", "v2 2")
			u.lead("r2")
			u.agent("n1", "v1", 0, true)
		}, `{"version": 2}`, "operator/oda",
			[]string{"replica r2 (weir v1): its program is too old", "agent n1 (weir v1): the leader is too old to know what its program can: upgrade the replicas first"}},
		"agents that are away": {func(u upgrading) { u.agent("n1", "v1", 1, false) }, `{"version": 2}`, "operator/oda",
			[]string{"agent n1 (weir v1): offline, and its last program was too old", "--without-offline-agents"}},
		"without them": {func(u upgrading) { u.agent("n1", "v1", 1, false) }, `{"version": 2, "without_offline_agents": true}`, "operator/oda", nil},
	} {
		t.Run(story, func(t *testing.T) {
			u := newUpgrade(t)
			test.given(u)
			got := u.post("ClusterService/FinishUpgrade", test.body, roleHeader, test.as)
			raised := u.version() == 2
			if wants := len(test.want) == 0 && !strings.Contains(test.body, "dry_run"); raised != wants || (got.status == http.StatusOK) != (len(test.want) == 0) {
				t.Errorf("raised: %t; %d %s", raised, got.status, got.raw)
			}
			for _, want := range test.want {
				if !strings.Contains(got.raw, want) {
					t.Errorf("got %s, want %q", got.raw, want)
				}
			}
			if len(test.want) > 0 && test.as != "user/ann" && got.header.Get(apipb.HeaderCode) != apipb.CodeUpgradeBlocked {
				t.Errorf("code %q", got.header.Get(apipb.HeaderCode))
			}
			if raised {
				if again := u.post("ClusterService/FinishUpgrade", test.body, roleHeader, test.as); again.status != http.StatusOK {
					t.Errorf("again: %s", again.raw)
				}
			}
		})
	}
}

// TestReplicasThatAreTooOld (V2): a replica whose program does not know the version is neither added nor promoted.
func TestReplicasThatAreTooOld(t *testing.T) {
	u := newUpgrade(t)
	u.replicas("v2 2", "v2 2", "v1 1")
	ask := func(call string) reply { return u.post("ClusterService/"+call, `{"id": "r3", "address": "h3:7701"}`) }
	if got := u.post("ClusterService/Promote", `{"id": "r3"}`); got.status != http.StatusOK {
		t.Errorf("at version 1: %s", got.raw)
	}
	u.must(&commandpb.RaiseVersion{Version: 2})
	if got := fmt.Sprint(u.get("ClusterService/Status", "{}")["problems"]); !strings.Contains(got, "replica r3 runs version v1, r1 runs v2; it is too old") || strings.Count(got, "too old") != 1 {
		t.Errorf("problems of the status: %s", got)
	}
	for _, got := range []reply{ask("Add"), u.post("ClusterService/Promote", `{"id": "r3"}`)} {
		if got.header.Get(apipb.HeaderCode) != apipb.CodeMembersNotChanged || !strings.Contains(got.raw, "replica r3 is too old: its program works with cluster version 1, but the cluster has version 2: install weir 0.2.0 or later there") {
			t.Errorf("got %s", got.raw)
		}
	}
}

// TestUnfinishedUpgradesAreTold (V2): by the status, with since when the replica has seen it.
func TestUnfinishedUpgradesAreTold(t *testing.T) {
	u := newUpgrade(t)
	problems := func() string { return fmt.Sprint(u.get("ClusterService/Status", "{}")["problems"]) }
	if got := problems(); strings.Contains(got, "weir cluster upgrade") {
		t.Errorf("nothing has been seen: %s", got)
	}
	since := time.Now().Add(-2 * time.Hour)
	u.health.Store(&Health{MixedSince: since, SharesFound: time.Now().Add(patience)})
	seen := "(since " + since.UTC().Format(time.DateTime) + " UTC, as r1 has seen it): see weir cluster upgrade status"
	if got := problems(); !strings.Contains(got, "the upgrade to cluster version 2 is not finished, for 2h0m") || !strings.Contains(got, seen) {
		t.Errorf("before it is finished: %s", got)
	}
	u.must(&commandpb.RaiseVersion{Version: 2})
	if got := problems(); !strings.Contains(got, "processes have different versions, for 2h0m") || !strings.Contains(got, seen) {
		t.Errorf("mixed: %s", got)
	}
}

// TestMixed (V2): replicas that live and agents that are online count, and a version that could be raised.
func TestMixed(t *testing.T) {
	for story, test := range map[string]struct {
		given func(u upgrading)
		want  bool
	}{
		"all alike":              {func(u upgrading) { u.agent("n1", "v2", 2, true) }, false},
		"another replica":        {func(u upgrading) { u.replicas("v2 2", "v3 2", "v2 2") }, true},
		"another agent":          {func(u upgrading) { u.agent("n1", "v1", 1, true) }, true},
		"an agent that is gone":  {func(u upgrading) { u.agent("n1", "v1", 1, false) }, false},
		"a replica that is gone": {func(u upgrading) { u.replicas("v2 2", "v3 2", ""); u.replicas("v2 2", "", "") }, false},
		"a version to be raised": {nil, true},
	} {
		t.Run(story, func(t *testing.T) {
			u := newUpgrade(t)
			if test.given != nil {
				u.must(&commandpb.RaiseVersion{Version: 2})
				test.given(u)
			}
			u.View(func(st *state.State) {
				if got := Mixed(u.handler.server.cfg.Directory.View(), st); got != test.want {
					t.Errorf("mixed: %t, want %t", got, test.want)
				}
			})
		})
	}
}
