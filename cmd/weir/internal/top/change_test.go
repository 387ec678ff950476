package top

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestChangesAskFirst (W3) shows that a change needs --write, the right to it, its loss on the screen and y,
// and goes to what was selected when it was asked.
func TestChangesAskFirst(t *testing.T) {
	abort := Change{Verb: Abort, Operation: id(1), Title: "operation “train resnet” (" + id(1) + ")"}
	t.Run("read-only", func(t *testing.T) {
		d := newDesk(t, Config{}, 100, 24)
		d.press("2", "A", "y")
		d.lacks("Abort operation", "A abort")
		if d.made != nil {
			t.Errorf("made %v", d.made)
		}
	})
	t.Run("without the right", func(t *testing.T) {
		d := newDesk(t, Config{Write: true}, 100, 24)
		d.cluster = func(q Question) (Answer, error) {
			a, err := contended(q)
			a.Allowed, a.Cluster.Operator = false, false
			return a, err
		}
		d.after(4 * time.Second)
		d.press("2")
		d.lacks("A abort")
		d.press("A", "y", "3")
		d.lacks("D drain")
		d.press("D", "y")
		if d.made != nil {
			t.Errorf("made %v", d.made)
		}
	})
	t.Run("with a right given later", func(t *testing.T) {
		d := newDesk(t, Config{Write: true}, 100, 24)
		allowed := false
		d.cluster = func(q Question) (Answer, error) {
			a, err := contended(q)
			a.Allowed = allowed
			return a, err
		}
		d.press("2")
		d.lacks("A abort")
		allowed = true
		d.after(12 * time.Second)
		d.has("A abort")
	})
	t.Run("while rights are not told", func(t *testing.T) {
		d := newDesk(t, Config{Write: true}, 100, 24)
		d.silent = true
		d.press("2")
		d.send(Answer{Question: Question{About: aboutOperations, page: d.model.top().number()}, Time: d.now, Operations: contendedOperations()})
		rights := func(q Question) bool { return q.About == aboutRights }
		i := slices.IndexFunc(d.waiting, rights)
		for _, unreachable := range []bool{true, false} {
			q := d.waiting[i]
			d.waiting = nil
			d.send(Answer{Question: q, Time: d.now, Err: errAway, Unreachable: unreachable})
			if slices.ContainsFunc(d.waiting, rights) {
				t.Fatal("asked again without a pause")
			}
			d.after(4 * time.Second)
			if i = slices.IndexFunc(d.waiting, rights); i < 0 {
				t.Fatal("not asked again")
			}
		}
	})
	t.Run("another key", func(t *testing.T) {
		d := newDesk(t, Config{Write: true}, 100, 24)
		d.press("2", "A", "enter")
		d.has("left as it is")
		d.press("y")
		if d.made != nil {
			t.Errorf("made %v", d.made)
		}
	})
	t.Run("confirmed", func(t *testing.T) {
		d := newDesk(t, Config{Write: true}, 100, 24)
		d.press("2")
		d.has("A abort")
		d.silent = true
		d.press("A")
		d.has("counting what it would end")
		d.press("y")
		if d.made != nil {
			t.Fatalf("made %v before the loss was known", d.made)
		}
		// The list changes meanwhile, and with it what is selected.
		d.send(Answer{Question: Question{About: aboutOperations, page: d.model.top().number()}, Time: d.now, Operations: contendedOperations()[1:]})
		i := slices.IndexFunc(d.waiting, func(q Question) bool { return q.About == aboutLoss })
		d.send(d.answer(d.waiting[i]))
		d.has("Abort operation “train resnet”", "5 running jobs of ann: killed at once", "run for 3h20m in all; that work is lost")
		d.press("y")
		if !slices.Equal(d.made, []Change{abort}) {
			t.Errorf("made %v, want %v", d.made, abort)
		}
		d.send(Done{Change: abort, Err: errors.New("operation has ended")})
		d.has("abort operation “train resnet”", "operation has ended")
	})
}
