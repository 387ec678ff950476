package check

import (
	"fmt"

	"weir/chaos/history"
	"weir/scheduling/lifecycle"
)

// legal is S4.
func legal(x *index) []string {
	var out []string
	for i := range x.Operations {
		if err := legalSteps(&x.Operations[i]); err != nil {
			out = append(out, fmt.Sprintf("operation %s: %v", x.Operations[i].ID, err))
		}
	}
	return out
}

// legalSteps follows an operation's events. One that repeats a state is a note on
// it, and no step.
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
		return fmt.Errorf("it is %s, and its last event says %s", o.State, now)
	}
	return nil
}

// ended is L3.
func ended(x *index) []string {
	var out []string
	for _, o := range x.Operations {
		if state, err := lifecycle.ParseState(o.State); err != nil || !state.Terminal() {
			out = append(out, fmt.Sprintf("operation %s (%s) is still %s", o.ID, o.Mutation, o.State))
		}
	}
	for _, h := range x.Held {
		out = append(out, fmt.Sprintf("%s still has %s", h.Who, h.What))
	}
	return out
}

// nothingLeft is S20.
func nothingLeft(x *index) []string {
	var out []string
	for _, l := range x.Leftovers {
		out = append(out, fmt.Sprintf("left when %s: %s", l.When, l.What))
	}
	return out
}

// calm is S24.
func calm(x *index) []string {
	var out []string
	for _, l := range x.LogLines {
		out = append(out, fmt.Sprintf("%s: %s", l.Member, l.Text))
	}
	return out
}
