package remote

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rosterCase is the streams that a roster has, and a new claim.
type rosterCase struct {
	before      []claim
	left        bool // The last of them has ended.
	claim       claim
	want        verdict
	wantRefusal string
}

// judgeAll compares the verdicts of the roster of replica/r2.
func judgeAll(t *testing.T, cases map[string]rosterCase) {
	t.Helper()
	const self = "replica/r2"
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRoster(self)
			for _, c := range tc.before {
				r.enter(c)
			}
			if tc.left {
				r.leave(tc.before[len(tc.before)-1])
			}
			got := r.judge(tc.claim)
			if tc.wantRefusal != "" {
				if got.refused == nil || !strings.Contains(got.refused.Reason, tc.wantRefusal) {
					t.Errorf("verdict %+v, want a refusal that says %q", got, tc.wantRefusal)
				}
				return
			}
			if got != tc.want {
				t.Errorf("verdict %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestRosterJudges(t *testing.T) {
	judgeAll(t, map[string]rosterCase{
		"a first stream": {
			claim: claim{stream: 1, peer: "agent/n7", incarnation: 7},
		},
		"a stream after the last has ended": {
			before: []claim{{stream: 1, peer: "agent/n7", incarnation: 7}},
			left:   true,
			claim:  claim{stream: 2, peer: "agent/n7", incarnation: 7},
		},
		"another peer": {
			before: []claim{{stream: 1, peer: "agent/n7", incarnation: 7}},
			claim:  claim{stream: 2, peer: "agent/n8", incarnation: 7},
		},
		"the same side dials again": {
			before: []claim{{stream: 1, peer: "agent/n7", incarnation: 7}},
			claim:  claim{stream: 2, peer: "agent/n7", incarnation: 7},
			want:   verdict{replaces: 1},
		},
		"both dialed, ours is there and the peer has the lesser name": {
			before: []claim{{stream: 1, peer: "replica/r1", incarnation: 7, ours: true}},
			claim:  claim{stream: 2, peer: "replica/r1", incarnation: 7},
			want:   verdict{replaces: 1},
		},
		"both dialed, the peer's is there and it has the lesser name": {
			before:      []claim{{stream: 1, peer: "replica/r1", incarnation: 7}},
			claim:       claim{stream: 2, peer: "replica/r1", incarnation: 7, ours: true},
			wantRefusal: "already connected",
		},
	})
}

// TestRosterJudgesLives has peers that started again.
func TestRosterJudgesLives(t *testing.T) {
	judgeAll(t, map[string]rosterCase{
		"a new life while the old is connected": {
			before: []claim{{stream: 1, peer: "agent/n7", incarnation: 7}},
			claim:  claim{stream: 2, peer: "agent/n7", incarnation: 8},
			want:   verdict{replaces: 1, rival: 7},
		},
		"a superseded life comes back": {
			before:      []claim{{stream: 1, peer: "agent/n7", incarnation: 7}, {stream: 2, peer: "agent/n7", incarnation: 8}},
			claim:       claim{stream: 3, peer: "agent/n7", incarnation: 7},
			wantRefusal: "incarnation 7 of agent/n7 was superseded",
		},
		"a superseded life comes back when its successor is gone": {
			before:      []claim{{stream: 1, peer: "agent/n7", incarnation: 7}, {stream: 2, peer: "agent/n7", incarnation: 8}},
			left:        true,
			claim:       claim{stream: 3, peer: "agent/n7", incarnation: 7},
			wantRefusal: "superseded",
		},
	})
}

func TestRosterForgetsPeersWithoutPast(t *testing.T) {
	r := newRoster("replica/r1")
	c := claim{stream: 1, peer: "agent/n7", incarnation: 7}
	r.enter(c)
	r.leave(c)
	if len(r.peers) != 0 {
		t.Errorf("%d peers are remembered", len(r.peers))
	}
}

// TestRosterOfTwoSidesAgree lets two replicas dial each other over and over,
// with frames that arrive in any order, and wants one stream left, the same on
// both sides.
func TestRosterOfTwoSidesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newRoster("replica/a"), newRoster("replica/b")
		type step struct {
			at *roster
			c  claim
		}
		// A side sees the streams of one dialer in order, as that dialer opens
		// the next when it knows that the last is of no use.
		var lines [4][]step
		for i, byA := range rapid.SliceOfN(rapid.Bool(), 1, 6).Draw(t, "dialed by a") {
			n, line := uint64(i+1), 0
			if byA {
				line = 2
			}
			lines[line] = append(lines[line], step{a, claim{stream: n, peer: "replica/b", incarnation: 2, ours: byA}})
			lines[line+1] = append(lines[line+1], step{b, claim{stream: n, peer: "replica/a", incarnation: 1, ours: !byA}})
		}
		var order []step
		for slices.ContainsFunc(lines[:], func(l []step) bool { return len(l) > 0 }) {
			if line := rapid.IntRange(0, 3).Draw(t, "next"); len(lines[line]) > 0 {
				order = append(order, lines[line][0])
				lines[line] = lines[line][1:]
			}
		}
		refused := make(map[uint64]bool)
		for _, s := range order {
			v := s.at.enter(s.c)
			if v.refused != nil {
				refused[s.c.stream] = true
			}
			if v.replaces != 0 {
				refused[v.replaces] = true
			}
		}
		for _, r := range []*roster{a, b} {
			for _, known := range r.peers {
				if known.current != nil && refused[known.current.stream] {
					r.leave(*known.current)
				}
			}
		}
		left := func(r *roster) uint64 {
			for _, known := range r.peers {
				if known.current != nil {
					return known.current.stream
				}
			}
			return 0
		}
		if left(a) != left(b) || left(a) == 0 {
			t.Fatalf("a keeps stream %d, b stream %d", left(a), left(b))
		}
	})
}

// TestRosterNeverLetsTwoLivesTakeTurns plays any number of lives and wants each
// to be replaced at most once.
func TestRosterNeverLetsTwoLivesTakeTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRoster("replica/r1")
		lives := rapid.SliceOfN(rapid.Uint64Range(1, rememberedLives), 1, 50).Draw(t, "lives")
		replaced := make(map[uint64]bool)
		for i, life := range lives {
			v := r.enter(claim{stream: uint64(i + 1), peer: "agent/n7", incarnation: life})
			if v.refused == nil && replaced[life] {
				t.Fatalf("life %d came back", life)
			}
			if v.rival != 0 {
				replaced[v.rival] = true
			}
		}
	})
}
