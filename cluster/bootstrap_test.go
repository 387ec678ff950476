package cluster

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/cluster/gossip"
	"weir/scheduling"
)

func TestBootstrap(t *testing.T) {
	three := parse(t, "r1=a:1", "r2=b:1", "r3=c:1")
	other := parse(t, "r1=a:1", "r2=b:1", "r3=d:1")
	fresh := func(id scheduling.ReplicaID) gossip.Member {
		return gossip.Member{ID: id, PeerList: three.Fingerprint()}
	}
	begun := func(id scheduling.ReplicaID) gossip.Member {
		return gossip.Member{ID: id, PeerList: three.Fingerprint(), Initialized: true}
	}
	for name, test := range map[string]struct {
		self        scheduling.ReplicaID
		peers       Peers
		initialized bool
		members     []gossip.Member
		want        Action
		wantReason  string
		wantErr     []string
	}{
		"alone in its list":                    {peers: parse(t, "r1=a:1"), want: Begin},
		"first of three":                       {peers: three, want: Wait, wantReason: "sees 1 of 3 initial peers, but needs 2"},
		"only itself in gossip":                {peers: three, members: []gossip.Member{fresh("r1")}, want: Wait, wantReason: "sees 1 of 3"},
		"a majority agrees":                    {peers: three, members: []gossip.Member{fresh("r1"), fresh("r3")}, want: Begin},
		"all agree":                            {peers: three, members: []gossip.Member{fresh("r1"), fresh("r2"), fresh("r3")}, want: Begin},
		"a stranger is no peer":                {peers: three, members: []gossip.Member{fresh("r9")}, want: Wait},
		"a peer without a list has no say":     {peers: three, members: []gossip.Member{{ID: "r2"}}, want: Wait, wantReason: "sees 1 of 3"},
		"another has begun":                    {peers: three, members: []gossip.Member{fresh("r2"), begun("r3")}, want: Wait, wantReason: "already exists, according to r3"},
		"it has begun itself":                  {peers: three, initialized: true, want: Resume},
		"not in its list":                      {self: "r4", peers: three, members: []gossip.Member{begun("r2"), begun("r3")}, want: Wait, wantReason: "waiting to be added"},
		"no list":                              {members: []gossip.Member{begun("r2")}, want: Wait, wantReason: "waiting to be added"},
		"another list":                         {peers: three, members: []gossip.Member{fresh("r2"), {ID: "r3", Address: "d:1", PeerList: other.Fingerprint()}}, wantErr: []string{"r3 at d:1", three.Fingerprint(), three.String(), other.Fingerprint()}},
		"another list, of the log's past only": {peers: three, initialized: true, members: []gossip.Member{{ID: "r3", PeerList: other.Fingerprint()}}, want: Resume},
	} {
		t.Run(name, func(t *testing.T) {
			self := test.self
			if self == "" {
				self = "r1"
			}
			got, err := Bootstrap(self, test.peers, test.initialized, test.members)
			if test.wantErr != nil {
				if !errors.Is(err, ErrPeerListsDiffer) {
					t.Fatalf("%v, %v; want ErrPeerListsDiffer", got, err)
				}
				for _, text := range test.wantErr {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("error %q does not say %q", err, text)
					}
				}
				return
			}
			if err != nil || got.Action != test.want || !strings.Contains(got.Reason, test.wantReason) {
				t.Fatalf("%v %q, %v; want %v %q", got.Action, got.Reason, err, test.want, test.wantReason)
			}
			if want := got.Action == Begin; (len(got.Voters) > 0) != want || want && got.Voters.String() != test.peers.String() {
				t.Errorf("voters %v of %v", got.Voters, test.peers)
			}
		})
	}
}

// TestBootstrapInAnyOrder starts, stops, wipes and restarts the replicas of
// one list at random, then all of them: whoever begins begins with the list,
// and in the end somebody has.
func TestBootstrapInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := drawPeers(t)
		up := make(map[scheduling.ReplicaID]bool)
		begun := make(map[scheduling.ReplicaID]bool)
		members := func() (members []gossip.Member) {
			for _, peer := range peers {
				if up[peer.ID] {
					members = append(members, gossip.Member{ID: peer.ID, PeerList: peers.Fingerprint(), Initialized: begun[peer.ID]})
				}
			}
			return members
		}
		ask := func(id scheduling.ReplicaID) {
			decision, err := Bootstrap(id, peers, begun[id], members())
			if err != nil {
				t.Fatal(err)
			}
			if decision.Action == Begin {
				if decision.Voters.String() != peers.String() {
					t.Fatalf("%s begins with %v", id, decision.Voters)
				}
				begun[id] = true
			}
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			id := rapid.SampledFrom(peers).Draw(t, "replica").ID
			switch rapid.SampledFrom([]string{"start", "stop", "ask", "wipe"}).Draw(t, "step") {
			case "start":
				up[id] = true
			case "stop":
				delete(up, id)
			case "wipe":
				delete(begun, id)
			case "ask":
				if up[id] {
					ask(id)
				}
			}
		}
		for _, peer := range peers {
			up[peer.ID] = true
		}
		for _, peer := range peers {
			ask(peer.ID)
		}
		if len(begun) == 0 {
			t.Fatal("all are up and nobody has begun")
		}
	})
}

// TestUnequalListsFoundOneClusterAtMost gives each replica one of two lists of
// the same replicas: they never begin with both while all see each other.
func TestUnequalListsFoundOneClusterAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := []Peers{drawPeers(t), drawPeers(t)}
		var members []gossip.Member
		for _, peer := range append(lists[0][:len(lists[0]):len(lists[0])], lists[1]...) {
			list := rapid.SampledFrom(lists).Draw(t, "list of "+string(peer.ID))
			members = append(members, gossip.Member{ID: peer.ID, PeerList: list.Fingerprint()})
		}
		begun := make(map[string]bool)
		for _, member := range members {
			for _, list := range lists {
				if list.Fingerprint() == member.PeerList {
					if decision, err := Bootstrap(member.ID, list, false, members); err == nil && decision.Action == Begin {
						begun[list.String()] = true
					}
				}
			}
		}
		if len(begun) > 1 {
			t.Fatalf("begun with %v", begun)
		}
	})
}
