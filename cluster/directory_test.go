package cluster

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"weir/cluster/gossip"
	"weir/scheduling"
)

// script is a Membership that says what the test has it say.
type script struct {
	mu   sync.Mutex
	tell func([]gossip.Member)
}

func (s *script) Subscribe(f func([]gossip.Member)) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tell = func([]gossip.Member) {}
	}
}

func (s *script) say(members ...gossip.Member) {
	s.mu.Lock()
	tell := s.tell
	s.mu.Unlock()
	tell(members)
}

func TestDirectoryFollowsTheMembers(t *testing.T) {
	gossiped := new(script)
	d := NewDirectory(parse(t, "r1=a:1", "r2=b:1"), gossiped)
	defer d.Close()
	want := []Replica{{ID: "r1", Address: "a:1"}, {ID: "r2", Address: "b:1"}}
	if got := d.View().Replicas; !reflect.DeepEqual(got, want) {
		t.Fatalf("at first %+v, want %+v", got, want)
	}
	gossiped.say(gossip.Member{ID: "r2", Address: "moved:1", APIAddress: "moved:2", Version: "v2", Can: 2}, gossip.Member{ID: "r3", Address: "c:1"})
	want = []Replica{{ID: "r1", Address: "a:1"}, {ID: "r2", Address: "moved:1", APIAddress: "moved:2", Version: "v2", Can: 2, Live: true}, {ID: "r3", Address: "c:1", Can: 1, Live: true}}
	if got := d.View().Replicas; !reflect.DeepEqual(got, want) {
		t.Fatalf("then %+v, want %+v", got, want)
	}
	gossiped.say(gossip.Member{ID: "r3", Address: "c:1"})
	want[1].Live = false
	if got := d.View().Replicas; !reflect.DeepEqual(got, want) {
		t.Fatalf("after r2 died %+v, want %+v", got, want)
	}
	if r, ok := d.View().Replica("r2"); !ok || r != want[1] {
		t.Errorf("r2 is %+v, %v", r, ok)
	}
	if r, ok := d.View().Replica("r9"); ok {
		t.Errorf("r9 is %+v", r)
	}

	// Raft's configuration drops r1 and r2, adds r4, and keeps r3 elsewhere.
	d.ObserveVoters(parse(t, "r3=old:1", "r4=d:1"))
	want = []Replica{{ID: "r3", Address: "c:1", Can: 1, Live: true}, {ID: "r4", Address: "d:1"}}
	if got := d.View().Replicas; !reflect.DeepEqual(got, want) {
		t.Errorf("after a change of voters %+v, want %+v", got, want)
	}
}

func TestWhoLeads(t *testing.T) {
	leads := func(id scheduling.ReplicaID, term uint64) gossip.Member {
		return gossip.Member{ID: id, Leader: true, Term: term}
	}
	for name, test := range map[string]struct {
		raft    []claim
		members []gossip.Member
		want    claim
	}{
		"nobody":                            {},
		"who claims it":                     {members: []gossip.Member{{ID: "r1", Term: 3}, leads("r2", 3)}, want: claim{"r2", 3}},
		"who claims the later term":         {members: []gossip.Member{leads("r1", 3), leads("r2", 2)}, want: claim{"r1", 3}},
		"raft, of equal terms":              {raft: []claim{{"r3", 3}}, members: []gossip.Member{leads("r1", 3)}, want: claim{"r3", 3}},
		"gossip, of a later term":           {raft: []claim{{"r3", 3}}, members: []gossip.Member{leads("r1", 4)}, want: claim{"r1", 4}},
		"gossip, where raft knows nobody":   {raft: []claim{{"", 3}}, members: []gossip.Member{leads("r1", 3)}, want: claim{"r1", 3}},
		"nobody, once raft is past a claim": {raft: []claim{{"", 4}}, members: []gossip.Member{leads("r1", 3)}, want: claim{"", 4}},
		"a term without a leader by gossip": {raft: []claim{{"r3", 3}}, members: []gossip.Member{{ID: "r1", Term: 9}}, want: claim{"r3", 3}},
		"raft does not go back":             {raft: []claim{{"r3", 3}, {"r1", 2}}, want: claim{"r3", 3}},
		"raft loses its leader in one term": {raft: []claim{{"r3", 3}, {"", 3}}, want: claim{"", 3}},
	} {
		t.Run(name, func(t *testing.T) {
			gossiped := new(script)
			d := NewDirectory(nil, gossiped)
			defer d.Close()
			gossiped.say(test.members...)
			for _, said := range test.raft {
				d.ObserveLeader(said.leader, said.term)
			}
			if got := (claim{d.View().Leader, d.View().Term}); got != test.want {
				t.Errorf("leader %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestWatchHoldsTheLatestView(t *testing.T) {
	gossiped := new(script)
	d := NewDirectory(nil, gossiped)
	views, cancel := d.Watch()
	for term := range uint64(5) {
		d.ObserveLeader("r1", term+1)
	}
	if view := <-views; view.Term != 5 {
		t.Errorf("a slow watcher gets term %d, want the last, 5", view.Term)
	}
	d.ObserveLeader("r1", 5) // No change.
	select {
	case view := <-views:
		t.Errorf("told of %+v when nothing has changed", view)
	default:
	}
	cancel()
	cancel()
	if _, open := <-views; open {
		t.Error("a cancelled watch goes on")
	}
	views, cancel = d.Watch()
	<-views
	d.Close()
	if _, open := <-views; open {
		t.Error("a watch outlives its directory")
	}
	cancel()
	views, _ = d.Watch()
	if view := <-views; view.Term != 5 {
		t.Errorf("after Close the view is %+v", view)
	}
}

func TestDirectoryUnderConcurrency(t *testing.T) {
	gossiped := new(script)
	d := NewDirectory(nil, gossiped)
	views, _ := d.Watch()
	var work sync.WaitGroup
	const last = 200
	work.Go(func() {
		for term := range uint64(last) {
			d.ObserveLeader("r1", term+1)
		}
	})
	work.Go(func() {
		for i := range last {
			gossiped.say(gossip.Member{ID: "r1", Version: fmt.Sprint(i)})
		}
	})
	highest := uint64(0)
	for highest < last {
		view := <-views
		if view.Term < highest {
			t.Fatalf("term %d after %d", view.Term, highest)
		}
		highest = view.Term
	}
	work.Wait()
	d.Close()
}
