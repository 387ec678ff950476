package explain

import (
	"testing"
	"time"
)

// TestHeldRoomIsOverdue: jobs that were told to leave may be gone later than they must, as on a node that is lost. A
// start is told for now then, not for the past.
func TestHeldRoomIsOverdue(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	q := &Case{Now: now}
	for _, until := range []time.Duration{-time.Minute, time.Minute} {
		e := q.byHeldRoom(&Asked{Held: []Fact{{Code: FactVictims, Node: "n1", Count: 1, Until: now.Add(until)}}})
		if want := now.Add(max(until, 0)); !e.at.Equal(want) || e.earliest.Before(now) || e.earliest.After(e.at) || e.latest.Before(e.at) {
			t.Errorf("until %v: a start is told for %v, from %v to %v, want %v", until, e.at, e.earliest, e.latest, want)
		}
	}
}
