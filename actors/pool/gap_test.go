package pool

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/messages/actorpb"
	"weir/scheduling"
)

// fillFrom has one ask another for all that it lacks, and returns how often it asked.
func fillFrom(h, other *Histories) (asked int) {
	lacks := h.Lacks("default")
	for m := lacks; m != nil && asked < 1000; asked++ {
		m = h.Fill(m, other.Answer(m))
	}
	if lacks != nil {
		h.Filled(lacks)
	}
	return asked
}

// TestWhoHasJustStartedAsksTheOthers: a replica starts, leads before it has followed anybody,
// and knows what the others know.
func TestWhoHasJustStartedAsksTheOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.IntRange(1, 9000).Draw(t, "seconds before")
		knew := rapid.IntRange(0, before).Draw(t, "seconds that it knew")
		begins := before + rapid.IntRange(0, 200).Draw(t, "without a leader")
		until := begins + rapid.IntRange(1, 100).Draw(t, "seconds of its own")
		follower, leader := NewHistories(), NewHistories()
		record(follower, 0, knew, "ads", "web")
		for more := knew > 0; more; {
			more = leader.Follow("default", follower.Answer(leader.Missing("default")))
		}
		record(follower, knew, before, "ads", "web")
		record(leader, begins, until, "ads", "web")
		asked := fillFrom(leader, follower)
		if lacked := begins > knew; lacked != (asked > 0) || asked == 1000 {
			t.Fatalf("asked %d times", asked)
		}
		want, wantMinutes := seen(follower, "ads")
		for at := range int64(until) {
			if at >= int64(begins) {
				want[at] = float32(at)
			}
			if at < int64(until-KeptSeconds) {
				delete(want, at)
			}
		}
		got, minutes := seen(leader, "ads")
		if !maps.Equal(got, want) {
			t.Fatalf("%d seconds are known, want %d", len(got), len(want))
		}
		for at, share := range wantMinutes {
			if minutes[at] != share {
				t.Fatalf("minute %d: %v, want %v", at, minutes[at], share)
			}
		}
		if leader.Lacks("default") != nil {
			t.Fatal("it asks again")
		}
	})
}

// TestOwnPointsCount more than what others tell of the same time, and a pool that was made
// again under a name has nothing of the one before.
func TestOwnPointsCount(t *testing.T) {
	at := func(h *Histories, second int, id scheduling.PoolID, share float32) {
		h.Record("default", epoch.Add(time.Duration(second)*time.Second), map[scheduling.PoolName]Sample{"ads": {id, Point{FairShare: share}}})
	}
	leader, same, other := NewHistories(), NewHistories(), NewHistories()
	at(leader, 5, 1, 0.5)
	at(same, 4, 1, 0.4)
	at(same, 5, 1, 0.9)
	at(other, 3, 2, 0.3)
	lacks := leader.Lacks("default")
	for _, follower := range []*Histories{same, other} {
		leader.Fill(lacks, follower.Answer(lacks))
	}
	if seconds, _ := seen(leader, "ads"); !maps.Equal(seconds, map[int64]float32{4: 0.4, 5: 0.5}) {
		t.Errorf("known is %v", seconds)
	}
}

// TestGapsAreAskedForUntilAllHaveTold, and who follows has none.
func TestGapsAreAskedForUntilAllHaveTold(t *testing.T) {
	h := NewHistories()
	if h.Lacks("default") != nil {
		t.Error("a tree that is not recorded lacks something")
	}
	record(h, 0, 3, "ads")
	first := h.Lacks("default")
	if first == nil || first.GetSecondsAfter() != 0 || !first.GetOfFollower() {
		t.Fatalf("asks %v, want all from the beginning", first)
	}
	h.Filled(first)
	record(h, 3, 5, "ads")
	if got := h.Lacks("default"); got != nil {
		t.Errorf("asks %v of seconds in a row", got)
	}
	record(h, 9, 10, "ads")
	if got := h.Lacks("default"); got.GetSecondsAfter() != epoch.Unix()+4 {
		t.Errorf("asks %v, want what comes after the 4th second", got)
	}
	h.Filled(first)
	if h.Lacks("default") == nil {
		t.Error("an answer to an older question counts")
	}
	other := NewHistories()
	record(other, 0, 20, "ads")
	h.Follow("default", other.Answer(&actorpb.PoolHistoryRequest{Tree: "default"}))
	if got := h.Lacks("default"); got != nil {
		t.Errorf("a follower asks %v", got)
	}
}
