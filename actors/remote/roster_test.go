package remote

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestWhichStreamCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		now, claim claim
		want       bool
	}{
		"the same side dials again":                                   {claim{"agent/n7", 7, false}, claim{"agent/n7", 7, false}, true},
		"both dialed, ours is there and the peer has the lesser name": {claim{"replica/r1", 7, true}, claim{"replica/r1", 7, false}, true},
		"both dialed, the peer's is there and it has the lesser name": {claim{"replica/r1", 7, false}, claim{"replica/r1", 7, true}, false},
		"a new life while the old is connected":                       {claim{"agent/n7", 7, false}, claim{"agent/n7", 8, false}, true},
		"a new life that this side has dialed":                        {claim{"replica/r1", 7, false}, claim{"replica/r1", 8, true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.claim.replaces(tc.now, "replica/r2"); got != tc.want {
				t.Errorf("it replaces the other: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestRosterOfTwoSidesAgree lets two replicas dial each other over and over,
// with frames that arrive in any order, and wants one stream left, the same on
// both sides.
func TestRosterOfTwoSidesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type side struct {
			name   string
			stream uint64 // 0: none
			claim  claim
		}
		a, b := &side{name: "replica/a"}, &side{name: "replica/b"}
		type step struct {
			at     *side
			stream uint64
			claim  claim
		}
		// A side sees the streams of one dialer in order, as that dialer opens
		// the next when it knows that the last is of no use.
		var lines [4][]step
		for i, byA := range rapid.SliceOfN(rapid.Bool(), 1, 6).Draw(t, "dialed by a") {
			n, line := uint64(i+1), 0
			if byA {
				line = 2
			}
			lines[line] = append(lines[line], step{a, n, claim{"replica/b", 2, byA}})
			lines[line+1] = append(lines[line+1], step{b, n, claim{"replica/a", 1, !byA}})
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
			if s.at.stream != 0 && !s.claim.replaces(s.at.claim, s.at.name) {
				refused[s.stream] = true
				continue
			}
			refused[s.at.stream] = true
			s.at.stream, s.at.claim = s.stream, s.claim
		}
		for _, at := range []*side{a, b} {
			if refused[at.stream] {
				at.stream = 0
			}
		}
		if a.stream != b.stream || a.stream == 0 {
			t.Fatalf("a keeps stream %d, b stream %d", a.stream, b.stream)
		}
	})
}
