package cluster

import (
	"errors"
	"strings"
	"testing"

	"weir/cluster/gossip"
)

func TestAgree(t *testing.T) {
	three := parse(t, "r1=a:1", "r2=b:1", "r3=c:1")
	moved := parse(t, "r1=a:1", "r2=elsewhere:1", "r3=c:1")
	wrong := parse(t, "r1=a:1", "r2=b:1", "r4=d:1")
	five := parse(t, "r1=a:1", "r2=b:1", "r3=c:1", "r4=d:1", "r5=e:1")
	startedWith := func(list Peers) []gossip.Member {
		return []gossip.Member{{ID: "r1", PeerList: "its own"}, {ID: "r2", PeerList: list.Fingerprint(), Initialized: true}}
	}
	for name, test := range map[string]struct {
		peers, founding, committed Peers
		members                    []gossip.Member
		wantErr                    bool
		wantReason                 string
	}{
		"the list of the cluster":             {peers: three, committed: three, members: startedWith(three)},
		"no list":                             {committed: three, members: startedWith(three)},
		"no members known yet":                {peers: wrong, members: startedWith(three)},
		"a replica has moved":                 {peers: moved, committed: three, members: startedWith(three)},
		"another list than the others":        {peers: wrong, committed: three, members: startedWith(three), wantErr: true},
		"more than the cluster has":           {peers: five, committed: three, members: startedWith(three), wantErr: true},
		"another than it began with, alone":   {peers: wrong, founding: three, committed: three, wantErr: true},
		"replicas added, list as it was":      {peers: three, founding: three, committed: five, wantReason: "are now"},
		"replicas added, all have the old":    {peers: three, committed: five, members: startedWith(three), wantReason: "are now"},
		"replicas added, list brought up":     {peers: five, founding: three, committed: five, members: startedWith(three)},
		"replicas added, the others' is new":  {peers: three, founding: three, committed: five, members: startedWith(five), wantReason: "are now"},
		"replicas added, a list of its own":   {peers: wrong, founding: three, committed: five, members: startedWith(three), wantReason: "have changed"},
		"replicas removed, list as it was":    {peers: five, founding: five, committed: three, members: startedWith(five), wantReason: "are now"},
		"not yet begun others have no say":    {peers: wrong, committed: three, members: []gossip.Member{{ID: "r2", PeerList: wrong.Fingerprint()}}, wantReason: "have changed"},
		"replicas added, new to the old list": {peers: wrong, committed: five, members: startedWith(five), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			reason, err := Agree("r1", test.peers, test.founding.Fingerprint(), test.committed, test.members)
			if got := errors.Is(err, ErrPeerListsDiffer); got != test.wantErr || err != nil != test.wantErr {
				t.Fatalf("got %v, want an error: %t", err, test.wantErr)
			}
			if err != nil && (!strings.Contains(err.Error(), test.peers.String()) || !strings.Contains(err.Error(), test.committed.String())) {
				t.Errorf("%v does not show both lists", err)
			}
			if (reason == "") != (test.wantReason == "") || !strings.Contains(reason, test.wantReason) {
				t.Errorf("reason %q, want %q", reason, test.wantReason)
			}
		})
	}
}
