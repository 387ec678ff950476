package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Search looks for the jobs that would have to leave for a job of an operation, by the
// rule by which they are chosen when it comes to that.
type Search struct {
	Needs resource.Amounts
	Hopes [preemption.StageCount]Hope
	// Thorough searches go on when victims were found, to count those that are let stay.
	Thorough bool
	Backoff  time.Duration
	Now      time.Time

	Stage preemption.Stage
	// Nodes are those that could hold the job, Next the first that was not looked at.
	Nodes []scheduling.NodeID
	Next  int
	Over  bool
	Found []Find
	// Spared are the jobs that are let stay.
	Spared map[Stay]int64
}

// Find is a node on which victims make room, and when it is looked at for that at the
// soonest.
type Find struct {
	At      time.Time
	Node    scheduling.NodeID
	Victims []Victim
	// Timeout is how long they may stay.
	Timeout time.Duration
	// All is how many they are: a few are named.
	All int
	// Places is how many such jobs have room when all have left the node that can.
	Places int64
}

// Stay is why jobs of a pool are let stay.
type Stay struct {
	Block preemption.Block
	Pool  scheduling.PoolName
}

// worthSearch reports whether others could leave for what has been judged.
func (v verdict) worthSearch(a *Asked) bool {
	return a.gatheringOf(v).seeks() || slices.Contains([]string{FactLacking, FactBackoff, FactNoVictims, FactTurn, FactFIFO}, v.cause.Code)
}

// newSearch returns the search for the victims of an operation's task that is nearest to a
// start; nil: nobody will starve for it.
func (q *Case) newSearch(a *Asked, v verdict) *Search {
	t := &a.Tasks[v.near]
	s := &Search{
		Needs: t.PerJob, Hopes: a.Hopes, Backoff: a.Backoff, Now: q.Now, Stage: preemption.NormalStage,
		Thorough: v.cause.Code == FactBackoff || v.cause.Code == FactNoVictims || a.gatheringOf(v) != nil, Spared: map[Stay]int64{},
	}
	if a.Hopes == [preemption.StageCount]Hope{} {
		return nil
	}
	if s.Hopes[s.Stage] == (Hope{}) {
		s.Stage = preemption.AggressiveStage
	}
	q.Survey.reach(a.Gates, t.PerJob, func(r *Row) { s.Nodes = append(s.Nodes, r.Node) })
	return s
}

// Proceed goes on after some nodes: to more of them, and if there is nothing on any in the
// normal stage, to the aggressive one.
func (s *Search) Proceed() {
	switch {
	case s.Next < len(s.Nodes):
		s.Over = len(s.Found) > 0 && !s.Thorough
	case len(s.Found) == 0 && s.Stage == preemption.NormalStage && !s.Hopes[preemption.AggressiveStage].At.IsZero():
		s.Stage, s.Next = preemption.AggressiveStage, 0
		clear(s.Spared)
	default:
		s.Over = true
	}
}

// Due is when victims are looked for at the soonest on a node where that was done last at a time.
func (s *Search) Due(attempted time.Time) time.Time {
	at := later(s.Now, s.Hopes[s.Stage].At)
	if !attempted.IsZero() {
		at = later(at, attempted.Add(s.Backoff))
	}
	return at
}

// MaxVictims bounds those of a Find that are named.
const MaxVictims = 10

// likely is the node on which victims have to leave for the operation, if so many others
// have their turn before it, one on a node in each backoff: the one that is looked at
// first, and of several the one with the fewest.
func (s *Search) likely() (Find, bool) {
	rivals := s.Hopes[s.Stage].Rivals
	if len(s.Found) == 0 {
		return Find{}, false
	}
	slices.SortFunc(s.Found, func(a, b Find) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.All, b.All), cmp.Compare(a.Node, b.Node))
	})
	f := s.Found[rivals%len(s.Found)]
	f.At = f.At.Add(time.Duration(rivals/len(s.Found)) * s.Backoff)
	return f, true
}

// last is the node on which victims leave for the last of so many jobs of the operation, one
// on a node in each backoff; false: there are not so many.
func (s *Search) last(jobs int) (Find, bool) {
	var all []Find
	for _, f := range s.Found {
		for range min(f.Places, int64(jobs)) {
			all = append(all, f)
			f.At = f.At.Add(s.Backoff)
		}
	}
	if len(all) < jobs {
		return Find{}, false
	}
	slices.SortFunc(all, func(a, b Find) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Node, b.Node)) })
	return all[jobs-1], true
}

// sparedFacts count the jobs that could go for an operation, but for an option or the
// state of theirs: one fact for each of these and each of their pools.
func (s *Search) sparedFacts() (facts []Fact) {
	for c, n := range s.Spared {
		facts = append(facts, Fact{Code: FactSpared, Setting: c.Block.String(), Pool: c.Pool, Count: n,
			Text: fmt.Sprintf("%s in pool %q could have to leave for it, and %s let stay: %s", counted(n, "job"), c.Pool, plural(n, "is", "are"), c.Block)})
	}
	slices.SortFunc(facts, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Setting, b.Setting))
	})
	return facts
}
