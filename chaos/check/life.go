package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/chaos/history"
	"weir/scheduling/lifecycle"
)

// legal checks invariant S4.
func legal(x *index, say report) {
	for i := range x.Operations {
		if err := legalSteps(&x.Operations[i]); err != nil {
			say("operation %s: %v", x.Operations[i].ID, err)
		}
	}
}

// legalSteps follows an operation's events. An event with the same state as before is a note,
// not a transition.
func legalSteps(o *history.Operation) error {
	now, last := lifecycle.None, uint64(0)
	for _, e := range o.Events {
		next, err := lifecycle.ParseState(e.State)
		switch {
		case err != nil:
			return err
		case e.Index < last:
			return fmt.Errorf("event %q has index %d after one with %d", e.State, e.Index, last)
		case now.Terminal():
			return fmt.Errorf("it went on to %s after it was %s", next, now)
		case next != now && !lifecycle.CanGo(now, next):
			return fmt.Errorf("it went from %s to %s", now, next)
		}
		now, last = next, e.Index
	}
	if now.String() != o.State {
		return fmt.Errorf("it is %s, but its last event says %s", o.State, now)
	}
	return nil
}

// ended checks invariant L3.
func ended(x *index, say report) {
	for _, o := range x.Operations {
		if state, err := lifecycle.ParseState(o.State); err != nil || !state.Terminal() {
			say("operation %s (%s) is still %s", o.ID, o.Mutation, o.State)
		}
	}
	for _, h := range x.Held {
		say("%s still has %s", h.Who, h.What)
	}
}

// nothingLeft checks invariant S20.
func nothingLeft(x *index, say report) {
	for _, l := range x.Leftovers {
		say("left when %s: %s", l.When, l.What)
	}
}

// differs is what a replica says when it ends because its state is not that of the others: the text of
// raftstore.ErrDiverged.
const differs = "replica's state differs"

// alike checks invariant S25.
func alike(x *index, say report) {
	for _, l := range x.LogLines {
		if strings.Contains(l.Text, differs) {
			say("%s stopped because its state was not that of the others", l.Member)
		}
	}
	first := make(map[uint64]history.StateHash)
	told := make(map[string]map[uint64]bool)
	for _, h := range x.Hashes {
		if told[h.Replica] == nil {
			told[h.Replica] = make(map[uint64]bool)
		}
		if h.Index == 0 {
			continue
		}
		told[h.Replica][h.Index] = true
		if other, known := first[h.Index]; !known {
			first[h.Index] = h
		} else if other.Hash != h.Hash {
			say("at index %d the state of %s has hash %s, that of %s %s", h.Index, other.Replica, other.Hash, h.Replica, h.Hash)
		}
	}
	best := uint64(0)
	count := func(at uint64) (n int) {
		for _, indexes := range told {
			if indexes[at] {
				n++
			}
		}
		return n
	}
	for at := range first {
		if n := count(at); n > count(best) || n == count(best) && at > best {
			best = at
		}
	}
	for _, replica := range slices.Sorted(maps.Keys(told)) {
		if best > 0 && !told[replica][best] {
			say("replica %s has no hash of its state at index %d, at which others have", replica, best)
		}
	}
}

// calm checks invariant S24.
func calm(x *index, say report) {
	for _, l := range x.LogLines {
		say("%s: %s", l.Member, l.Text)
	}
}
