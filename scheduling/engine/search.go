package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

const (
	// nodesPerSearch and holdingsPerSearch bound for how many nodes, and jobs on them, the
	// engine is held up at once by a search for victims.
	nodesPerSearch, holdingsPerSearch = 128, 1024
)

// search looks for the jobs that would have to leave for a job of an operation, by the
// rule by which they are chosen when it comes to that.
type search struct {
	op    *operation
	id    scheduling.OperationID
	task  allocation.TaskID
	needs resource.Amounts
	hopes [stageCount]hope
	// thorough searches go on when victims were found, to count those that are let stay.
	thorough bool
	backoff  time.Duration
	now      time.Time

	stage preemption.Stage
	// nodes are those that could hold the job, next the first that was not looked at.
	nodes []*node
	next  int
	over  bool
	found []find
	// spared are the jobs that are let stay.
	spared map[stay]int64
}

// find is a node on which victims make room, and when it is looked at for that at the
// soonest.
type find struct {
	at      time.Time
	node    scheduling.NodeID
	victims []Victim
	// timeout is how long they may stay.
	timeout time.Duration
	// all is how many they are: a few are named.
	all int
	// places is how many such jobs have room when all have left the node that can.
	places int64
}

// stay is why jobs of a pool are let stay.
type stay struct {
	block preemption.Block
	pool  scheduling.PoolName
}

// worthSearch reports whether others could leave for what has been judged.
func (v verdict) worthSearch(a *ask) bool {
	return a.gatheringOf(v).seeks() || slices.Contains([]string{FactLacking, FactBackoff, FactNoVictims, FactTurn, FactFIFO}, v.cause.Code)
}

// newSearch returns the search for the victims of an operation's task that is nearest to a
// start; nil: nobody will starve for it.
func (q *Inquiry) newSearch(a *ask, v verdict) *search {
	t := &a.tasks[v.near]
	s := &search{
		op: a.op, id: a.id, task: t.TaskID, needs: t.perJob, hopes: a.hopes, backoff: a.backoff, now: q.now, stage: preemption.NormalStage,
		thorough: v.cause.Code == FactBackoff || v.cause.Code == FactNoVictims || a.gatheringOf(v) != nil, spared: map[stay]int64{},
	}
	if a.hopes == [stageCount]hope{} {
		return nil
	}
	if s.hopes[s.stage] == (hope{}) {
		s.stage = preemption.AggressiveStage
	}
	q.survey.reach(a.gates, t.perJob, func(r *row) { s.nodes = append(s.nodes, r.node) })
	return s
}

// searchMore looks at some more nodes: first in the normal stage, and if there is nothing,
// in the aggressive one.
func (iq *inquiries) searchMore(s *search) {
	if iq.tree.operations[s.id] != s.op || !s.op.active() || !iq.stands(s.hopes[s.stage].by) {
		s.over = true
		return
	}
	looked := 0
	for nodes := 0; s.next < len(s.nodes) && nodes < nodesPerSearch && looked < holdingsPerSearch; nodes++ {
		n := s.nodes[s.next]
		s.next++
		looked += len(n.held)
		if n.schedulable && !n.overcommitted && iq.cluster.nodes[n.id] == n {
			iq.searchNode(s, n)
		}
	}
	switch {
	case s.next < len(s.nodes):
		s.over = len(s.found) > 0 && !s.thorough
	case len(s.found) == 0 && s.stage == preemption.NormalStage && !s.hopes[preemption.AggressiveStage].at.IsZero():
		s.stage, s.next = preemption.AggressiveStage, 0
		clear(s.spared)
	default:
		s.over = true
	}
}

// stands reports whether who starves is in the tree still.
func (iq *inquiries) stands(s starver) bool {
	return s.pool == nil || iq.tree.pools[s.pool.name] == s.pool
}

// searchNode chooses victims on a node, as of the time at which that is due.
func (iq *inquiries) searchNode(s *search, n *node) {
	h := s.hopes[s.stage]
	at := later(s.now, h.at)
	if !n.attempted.IsZero() {
		at = later(at, n.attempted.Add(s.backoff))
	}
	candidates := iq.victims.mayLeave(s.stage, n, at, func(h *holding, block preemption.Block) {
		if h.operation != s.op {
			s.spared[stay{block, h.operation.pool.name}]++
		}
	})
	iq.victims.round++
	victims, room, ok := iq.victims.choose(s.stage, n, s.op, s.needs, resource.Infinite, h.by, candidates)
	if !ok || len(victims) == 0 {
		return
	}
	for _, h := range iq.victims.others {
		room = room.Add(h.Resources)
	}
	f := find{at: at, node: n.id, all: len(victims), places: allocation.Holds(room, s.needs)}
	for i, v := range victims {
		if !slices.Contains(v.operation.Abrupt, v.task.Name) {
			f.timeout = max(f.timeout, v.operation.effective.Starvation.PreemptionTimeout)
		}
		if i < maxVictims {
			f.victims = append(f.victims, Victim{Job: v.Job, Operation: v.operation.ID, Node: n.id, Started: v.Started})
		}
	}
	s.found = append(s.found, f)
}

// maxVictims bounds those that are named.
const maxVictims = 10

// likely is the node on which victims have to leave for the operation, if so many others
// have their turn before it, one on a node in each backoff: the one that is looked at
// first, and of several the one with the fewest.
func (s *search) likely() (find, bool) {
	rivals := s.hopes[s.stage].rivals
	if len(s.found) == 0 {
		return find{}, false
	}
	slices.SortFunc(s.found, func(a, b find) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.all, b.all), cmp.Compare(a.node, b.node))
	})
	f := s.found[rivals%len(s.found)]
	f.at = f.at.Add(time.Duration(rivals/len(s.found)) * s.backoff)
	return f, true
}

// last is the node on which victims leave for the last of so many jobs of the operation, one
// on a node in each backoff; false: there are not so many.
func (s *search) last(jobs int) (find, bool) {
	var all []find
	for _, f := range s.found {
		for range min(f.places, int64(jobs)) {
			all = append(all, f)
			f.at = f.at.Add(s.backoff)
		}
	}
	if len(all) < jobs {
		return find{}, false
	}
	slices.SortFunc(all, func(a, b find) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.node, b.node)) })
	return all[jobs-1], true
}

// sparedFacts count the jobs that could go for an operation, but for an option or the
// state of theirs: one fact for each of these and each of their pools.
func (s *search) sparedFacts() (facts []Fact) {
	for c, n := range s.spared {
		facts = append(facts, Fact{Code: FactSpared, Setting: c.block.String(), Pool: c.pool, Count: n,
			Text: fmt.Sprintf("%s in pool %q could have to leave for it, and %s let stay: %s", counted(n, "job"), c.pool, isOrAre(n), c.block)})
	}
	slices.SortFunc(facts, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Setting, b.Setting))
	})
	return facts
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
