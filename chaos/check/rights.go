package check

import (
	"cmp"
	"math"
	"slices"

	"weir/chaos/history"
	"weir/raftstore/events"
)

// entitled checks invariant S23. Nobody is judged for a moment at which the right may have been
// given or taken away.
func entitled(x *index, say report) {
	held := holdingsOf(x.Turns)
	made := make(map[string]string)
	for _, o := range x.Operations {
		made[o.Mutation] = o.ID
	}
	for _, a := range x.Asks {
		switch {
		case a.Outcome == history.OK && !held.maybe(a.User, a.Right, a.Pool, span{a.Called, a.Returned}):
			say("replica %s did what user %s asked for without the right %s%s: %s %s", a.Replica, a.User, a.Right, onPool(a.Pool), a.What, cmp.Or(a.On, a.Mutation, a.Pool))
		case a.Outcome == history.Refused && made[a.Mutation] != "" && a.Mutation != "":
			say("replica %s refused submission %s of user %s, but it became operation %s", a.Replica, a.Mutation, a.User, made[a.Mutation])
		}
	}
	if !x.Complete() {
		// Whose the operations are is not known.
		return
	}
	clock := x.clock()
	for _, d := range x.Deeds {
		right, pool := x.needed(d)
		if right != "" && !held.maybe(d.User, right, pool, clock.when(d.Index)) {
			say("event %s at index %d, about %s, names user %s, who did not have the right %s%s then",
				d.Kind, d.Index, cmp.Or(d.On, d.Operation, d.Pool), d.User, right, onPool(pool))
		}
	}
}

func onPool(pool string) string {
	if pool == "" {
		return ""
	}
	return " on pool " + pool
}

// needed returns the right that the cause of an event needs, and on which pool; "" if it needs none,
// because the operation is the user's own.
func (x *index) needed(d history.Deed) (right, pool string) {
	switch {
	case d.Kind == events.OperationAccepted:
		return history.MayUse, d.Pool
	case d.Operation == "":
		// In a run, only operators change pools, trees and nodes.
		return history.MayOperate, ""
	}
	if o := x.operations[d.Operation]; o != nil && o.User == d.User {
		return "", ""
	}
	return history.MayManage, d.Pool
}

// span is a time with its begin and its end.
type span struct{ from, to int64 }

// holding is a right of a user on a pool.
type holding struct{ user, right, pool string }

// holdings are the times in which users may have rights.
type holdings map[holding][]span

// maybe reports whether a user may have had a right at a moment of a time.
func (h holdings) maybe(user, right, pool string, at span) bool {
	has := func(key holding) bool {
		return slices.ContainsFunc(h[key], func(s span) bool { return s.from <= at.to && at.from <= s.to })
	}
	return has(holding{user, right, pool}) || has(holding{user, history.MayOperate, ""})
}

// holdingsOf follows the changes of rights. A user may have a right from the call that gives it to
// the answer of the first later call that takes it away. If the call that gives it had no answer, it
// may take effect at any later time, but not after a change that is final.
func holdingsOf(turns []history.Turn) holdings {
	h := make(holdings)
	type way struct {
		holding
		name string
	}
	// open are the times that have no end yet; certain says that the call that began one was
	// answered.
	type began struct {
		at      int64
		certain bool
	}
	open := make(map[way][]began)
	for _, turn := range turns {
		for _, right := range turn.Rights {
			key := holding{turn.User, right, turn.Pool}
			w := way{key, turn.Way}
			switch {
			case turn.Outcome == history.Refused:
			case turn.Give:
				open[w] = append(open[w], began{turn.Called, turn.Outcome == history.OK})
			case turn.Outcome == history.OK:
				open[w] = slices.DeleteFunc(open[w], func(b began) bool {
					if over := b.certain || turn.Final; !over {
						return false
					}
					h[key] = append(h[key], span{b.at, turn.Returned})
					return true
				})
			}
		}
	}
	for w, list := range open {
		for _, b := range list {
			h[w.holding] = append(h[w.holding], span{b.at, math.MaxInt64})
		}
	}
	return h
}

// clock tells when log entries were applied, from submissions whose entry is known: one was applied
// between its first call and its first answer.
type clock []tick

// tick says that the entry at an index was applied after a time, and before another. Both are of
// this entry or of others that tell more.
type tick struct {
	index  uint64
	within span
}

// clock returns the clock of a run.
func (x *index) clock() clock {
	calls := make(map[string]span)
	saw := func(mutation string, called, returned int64, outcome history.Outcome) {
		s, known := calls[mutation]
		if !known {
			s = span{called, math.MaxInt64}
		}
		s.from = min(s.from, called)
		if outcome == history.OK {
			s.to = min(s.to, returned)
		}
		calls[mutation] = s
	}
	for _, c := range x.Calls {
		if c.What == history.Submit {
			saw(c.Mutation, c.Called, c.Returned, c.Outcome)
		}
	}
	for _, a := range x.Asks {
		if a.Mutation != "" {
			saw(a.Mutation, a.Called, a.Returned, a.Outcome)
		}
	}
	var c clock
	for _, d := range x.Deeds {
		if o := x.operations[d.Operation]; d.Kind == events.OperationAccepted && o != nil {
			if s, known := calls[o.Mutation]; known {
				c = append(c, tick{d.Index, s})
			}
		}
	}
	slices.SortFunc(c, func(a, b tick) int { return int(a.index) - int(b.index) })
	for i := 1; i < len(c); i++ {
		c[i].within.from = max(c[i].within.from, c[i-1].within.from)
	}
	for i := len(c) - 2; i >= 0; i-- {
		c[i].within.to = min(c[i].within.to, c[i+1].within.to)
	}
	return c
}

// when returns the time within which the entry at an index was applied.
func (c clock) when(index uint64) span {
	s := span{0, math.MaxInt64}
	at, found := slices.BinarySearchFunc(c, index, func(t tick, index uint64) int { return int(t.index) - int(index) })
	if at < len(c) {
		s.to = c[at].within.to
	}
	if !found {
		at--
	}
	if at >= 0 && at < len(c) {
		s.from = c[at].within.from
	}
	return s
}
