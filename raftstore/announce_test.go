package raftstore

import (
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// told is what an announcer says.
type told struct {
	to          raft.ServerID
	term, index uint64
}

// TestAnnounce shows who is told of a commit, and who is not.
func TestAnnounce(t *testing.T) {
	for name, test := range map[string]struct {
		deaf bool
		do   func(a *announcer)
		want []told
	}{
		"a follower that has the entry": {do: func(a *announcer) {
			a.stored("r2", 3, 7, 6)
			a.committed(3, 7)
		}, want: []told{{"r2", 3, 7}}},
		"one that gets it later": {do: func(a *announcer) {
			a.stored("r2", 3, 6, 6)
			a.committed(3, 7)
			a.stored("r2", 3, 7, 6)
		}, want: []told{{"r2", 3, 7}}},
		"one that lacks it is left to raft": {do: func(a *announcer) {
			a.stored("r2", 3, 6, 5)
			a.committed(3, 7)
		}},
		"one that has heard of it": {do: func(a *announcer) {
			a.stored("r2", 3, 7, 7)
			a.committed(3, 7)
		}},
		"a commit index beyond a follower's log says nothing of the rest": {do: func(a *announcer) {
			a.stored("r2", 3, 6, 9)
			a.committed(3, 7)
			a.stored("r2", 3, 7, 0)
		}, want: []told{{"r2", 3, 7}}},
		"what a follower had in an earlier term it may have lost": {do: func(a *announcer) {
			a.stored("r2", 3, 7, 6)
			a.committed(4, 7)
		}},
		"news of an earlier term": {do: func(a *announcer) {
			a.stored("r2", 4, 7, 6)
			a.committed(3, 7)
			a.stored("r3", 3, 7, 6)
		}},
		"one that does not take it is not told again by itself": {deaf: true, do: func(a *announcer) {
			a.stored("r2", 3, 7, 6)
			a.committed(3, 7)
		}, want: []told{{"r2", 3, 7}}},
		"nobody once it is closed": {do: func(a *announcer) {
			a.stored("r2", 3, 7, 6)
			a.close()
			a.committed(3, 7)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			said := make(chan told, 10)
			a := newAnnouncer(func(to raft.ServerID, term, index uint64) bool {
				said <- told{to, term, index}
				return !test.deaf
			})
			test.do(a)
			a.close()
			close(said)
			var got []told
			for s := range said {
				got = append(got, s)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("told %v, want %v", got, test.want)
			}
		})
	}
}

// TestAnnounceAgain shows that what is committed while a follower is being told is
// told next.
func TestAnnounceAgain(t *testing.T) {
	said := make(chan uint64, 10)
	var a *announcer
	a = newAnnouncer(func(_ raft.ServerID, term, index uint64) bool {
		if index == 7 {
			a.stored("r2", term, 9, 6)
			a.committed(term, 9)
		}
		said <- index
		return true
	})
	a.stored("r2", 3, 7, 6)
	a.committed(3, 7)
	if first, second := <-said, <-said; first != 7 || second != 9 {
		t.Errorf("told %d, then %d, want 7, then 9", first, second)
	}
	a.close()
}
