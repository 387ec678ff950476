package engine

import (
	"cmp"
	"slices"
	"time"

	"weir/scheduling/resource"
)

const (
	// nodesPerStep bounds for how many nodes the engine is held up at once by a survey.
	nodesPerStep = 2048
	// maxPlaces bounds how far the order of scheduling is followed for those who ask.
	maxPlaces = 1000
)

// survey is the nodes of the tree, each as it was when it was looked at, and the order of
// scheduling: for all who ask why until the next update. The engine takes it in short
// steps. Once it is taken the engine has done with it, and one at a time may read it
// beside the engine's work.
type survey struct {
	number uint64
	// edits is that of the filters when it was begun.
	edits uint64
	// left are the first nodes of the engine's list that are still to be looked at.
	left int
	rows []row
	// order are the operations with jobs to start whose turn is next, no more than
	// maxPlaces of waiting.
	ordered bool
	order   []*operation
	waiting int
	// classes are the rows by what they have in common; counts remembers what came of a
	// look at them.
	classes []class
	counts  map[question]NodeCounts
	contest contest
}

// row is a node in a survey.
type row struct {
	// node is for the engine alone, but for its id.
	node                *node
	limits, free, spare resource.Amounts
	takes               []bool
	attempted           time.Time
	schedulable         bool
}

// class is alike nodes.
type class struct {
	row
	nodes int
}

// beginSurvey returns the survey for one who asks now: that of the last one who did, if
// it still says what is so.
func (iq *inquiries) beginSurvey() *survey {
	if s := iq.survey; s != nil && s.edits == iq.cluster.filters.edits {
		return s
	}
	iq.surveys++
	iq.survey = &survey{number: iq.surveys, edits: iq.cluster.filters.edits, left: len(iq.cluster.list), rows: make([]row, 0, len(iq.cluster.list))}
	return iq.survey
}

// taken reports whether the engine has done with it.
func (s *survey) taken() bool { return s.ordered && s.left == 0 }

// proceed takes one step. Nodes come from the end of the list: one that takes the place of
// one that has gone has been looked at.
func (iq *inquiries) proceed(s *survey) {
	if !s.ordered {
		iq.surveyOrder(s)
		return
	}
	end := min(s.left, len(iq.cluster.list))
	for s.left = max(end-nodesPerStep, 0); end > s.left; end-- {
		n := iq.cluster.list[end-1]
		if !n.known || n.surveyed == s.number {
			continue
		}
		n.surveyed = s.number
		s.rows = append(s.rows, row{
			node: n, limits: n.limits, free: n.free(), spare: n.spare(), takes: n.takes, attempted: n.attempted, schedulable: n.schedulable,
		})
	}
}

func (iq *inquiries) surveyOrder(s *survey) {
	s.ordered = true
	s.waiting = iq.tree.root.order.Waiting()
	s.order = make([]*operation, 0, min(s.waiting, maxPlaces))
	for waits := range iq.tree.filler.Order(iq.tree.root.order) {
		if len(s.order) == maxPlaces {
			return
		}
		s.order = append(s.order, waits.Owner().(*operation))
	}
}

// position is the place of an operation in the order, from 1; 0: it has none, or it is too
// far behind.
func (s *survey) position(op *operation) int { return slices.Index(s.order, op) + 1 }

// classify sorts the rows, and puts alike ones together.
func (s *survey) classify() {
	if s.counts != nil {
		return
	}
	s.counts = map[question]NodeCounts{}
	slices.SortFunc(s.rows, func(a, b row) int { return cmp.Compare(a.node.id, b.node.id) })
	type state struct {
		limits, free, spare resource.Amounts
		takes               string
		schedulable         bool
	}
	found := map[state]int{}
	for _, r := range s.rows {
		l := state{r.limits, r.free, r.spare, string(taken(nil, r.takes)), r.schedulable}
		i, known := found[l]
		if !known {
			i = len(s.classes)
			found[l] = i
			s.classes = append(s.classes, class{row: r})
		}
		s.classes[i].nodes++
	}
}

// reach calls with the nodes that could hold a job if they were empty.
func (s *survey) reach(gates []gate, needs resource.Amounts, with func(r *row)) {
	for i := range s.rows {
		r := &s.rows[i]
		if r.schedulable && failing(gates, r.takes) < 0 && needs.Fits(r.limits) {
			with(r)
		}
	}
}

// scarce is the resource that keeps a job from starting: the one that most nodes have too
// little of, and of several that of which it needs the greatest part.
func (s *survey) scarce(nodes NodeCounts, needs resource.Amounts) resource.Kind {
	parts := resource.Share(needs, s.contest.total)
	scarce := most(nodes.LackingBy)
	for k := range resource.Kind(resource.Count) {
		if nodes.LackingBy[k] == nodes.LackingBy[scarce] && parts[k] > parts[scarce] {
			scarce = k
		}
	}
	return scarce
}

// reachOf is the part of the nodes that filters take.
func (s *survey) reachOf(gates []gate) float64 {
	all, taken := 0, 0
	for i := range s.classes {
		if r := &s.classes[i]; r.schedulable {
			all += r.nodes
			if failing(gates, r.takes) < 0 {
				taken += r.nodes
			}
		}
	}
	return float64(taken) / float64(max(all, 1))
}

// holds reports whether some node could hold a job if it were empty.
func (s *survey) holds(needs resource.Amounts) bool {
	return slices.ContainsFunc(s.classes, func(c class) bool { return c.schedulable && needs.Fits(c.limits) })
}
