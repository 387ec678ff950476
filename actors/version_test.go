package actors

import (
	"testing"

	"weir/cluster"
	"weir/messages/versions"
	"weir/raftstore/state"
)

// TestFoundersVersion (V2): a new cluster begins with the newest version unless a replica that is seen is too old for it.
func TestFoundersVersion(t *testing.T) {
	old, now := cluster.Replica{ID: "r1", Live: true, Can: versions.Current - 1}, cluster.Replica{ID: "r2", Live: true, Can: versions.Current}
	unseen, gone := cluster.Replica{ID: "r3"}, cluster.Replica{ID: "r4", Can: versions.Current - 1}
	for story, test := range map[string]struct {
		seen []cluster.Replica
		want bool
	}{
		"all are new":        {[]cluster.Replica{now}, true},
		"one is too old":     {[]cluster.Replica{old, now}, false},
		"one is not seen":    {[]cluster.Replica{now, unseen}, true},
		"an old one is gone": {[]cluster.Replica{now, gone}, true},
	} {
		if got := foundsCurrent(&cluster.View{Replicas: test.seen}); got != test.want {
			t.Errorf("%s: begins with the newest version: %t, want %t", story, got, test.want)
		}
	}
	c := startCluster(t, 1, nil)
	r := c.replicas[0]
	eventually(t, "the first leader raises the version", func() bool { return r.store.Version() == versions.Current })
	r.store.View(func(s *state.State) {
		if s.Term().GetTerm() == 0 {
			t.Error("the version was raised before the first term")
		}
	})
}
