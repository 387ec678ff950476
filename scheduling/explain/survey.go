package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// MaxPlaces bounds how far explanations follow the order of scheduling.
const MaxPlaces = 1000

// Survey holds what explanations read: the nodes of the tree, each as last noted, the order of
// scheduling, and the operations that compete. Only one goroutine at a time may read it, since
// reading fills caches.
type Survey struct {
	Rows []Row
	// Order lists the operations with jobs to start, the next one first, but no more than MaxPlaces
	// of them. Waiting is the number of all operations with jobs to start.
	Order   []scheduling.OperationID
	Waiting int
	Contest Contest
	// classes are the nodes grouped by what they have in common. found is the index of each class.
	// counts caches the NodeCounts of jobs.
	classes []class
	found   map[likeness]int
	counts  map[question]NodeCounts
}

// Row is a node in a survey.
type Row struct {
	Node                scheduling.NodeID
	Limits, Free, Spare resource.Amounts
	// Takes says for each filter, by Gate.At, whether the node matches it.
	Takes []bool
	// Attempted is when preemption was last tried there.
	Attempted   time.Time
	Schedulable bool
}

// class is a group of alike nodes.
type class struct {
	Row
	nodes int
}

// position returns the place of an operation in the order, from 1. It returns 0 if the operation has
// no place, or is too far behind.
func (s *Survey) position(id scheduling.OperationID) int { return slices.Index(s.Order, id) + 1 }

// likeness is what alike nodes have in common.
type likeness struct {
	limits, free, spare resource.Amounts
	takes               string
	schedulable         bool
}

// classify sorts the rows, and groups alike ones.
func (s *Survey) classify() {
	if s.counts != nil {
		return
	}
	s.counts = map[question]NodeCounts{}
	slices.SortFunc(s.Rows, func(a, b Row) int { return cmp.Compare(a.Node, b.Node) })
	for i := range s.Rows {
		s.Add(&s.Rows[i])
	}
}

// Add notes a node, which need not be one of Rows: only what it has in common with other nodes
// matters. Nodes are added in the order of their names, before the first question.
func (s *Survey) Add(r *Row) {
	l := likeness{r.Limits, r.Free, r.Spare, string(allocation.AppendTakes(nil, r.Takes)), r.Schedulable}
	i, known := s.found[l]
	if !known {
		if s.found == nil {
			s.found = map[likeness]int{}
		}
		i = len(s.classes)
		s.found[l] = i
		s.classes = append(s.classes, class{Row: *r})
	}
	s.classes[i].nodes++
}

// reach calls a function for each node that matches the filters and could hold a job if it were
// empty.
func (s *Survey) reach(gates []Gate, needs resource.Amounts, with func(r *Row)) {
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Schedulable && failing(gates, r.Takes) < 0 && needs.Fits(r.Limits) {
			with(r)
		}
	}
}

// scarce returns the resource that keeps a job from starting: the one of which the most nodes have
// too little. Among several, it is the one of which the job needs the greatest part of the tree.
func (s *Survey) scarce(nodes NodeCounts, needs resource.Amounts) resource.Kind {
	parts := resource.Share(needs, s.Contest.Total)
	scarce := most(nodes.LackingBy)
	for k := range resource.Kind(resource.Count) {
		if nodes.LackingBy[k] == nodes.LackingBy[scarce] && parts[k] > parts[scarce] {
			scarce = k
		}
	}
	return scarce
}

// reachOf returns the fraction of the nodes that match the filters.
func (s *Survey) reachOf(gates []Gate) float64 {
	all, taken := 0, 0
	for i := range s.classes {
		if r := &s.classes[i]; r.Schedulable {
			all += r.nodes
			if failing(gates, r.Takes) < 0 {
				taken += r.nodes
			}
		}
	}
	return float64(taken) / float64(max(all, 1))
}

// holds reports whether some node could hold a job if it were empty.
func (s *Survey) holds(needs resource.Amounts) bool {
	return slices.ContainsFunc(s.classes, func(c class) bool { return c.Schedulable && needs.Fits(c.Limits) })
}

// NodeCounts counts the nodes of the tree by whether a job could start there now, or why not. Each
// node counts once.
type NodeCounts struct {
	// All is the number of registered nodes. It is the sum of Closed, Unmatched, TooSmall, Full, Held
	// and Fit.
	All int
	// Closed nodes are drained or offline. Unmatched ones do not match a filter. TooSmall ones could
	// not hold the job even if they were empty. Full ones have too little free. On Held ones, what
	// is free is held for others. The job could start on those that Fit.
	Closed, Unmatched, TooSmall, Full, Held, Fit int
	// SmallBy counts the nodes that are too small. LackingBy counts those that are full or held.
	// Both count by the resources of which there is too little.
	SmallBy, LackingBy [resource.Count]int
	// UnmatchedBy are the filters that leave out nodes. The filter of the operation is first.
	UnmatchedBy []FilterCount
	// small are the nodes that are too small.
	small []*class
}

// FilterCount says how many nodes a filter leaves out.
type FilterCount struct {
	// Pool is the pool that has the filter. It is empty if the operation has it.
	Pool   scheduling.PoolName
	Filter string
	Nodes  int
}

// Gate is a filter of an operation or of a pool above it. At is its index in Row.Takes.
type Gate struct {
	// Pool is empty for the operation.
	Pool   scheduling.PoolName
	Filter string
	At     int
}

// question is what NodeCounts depend on: the needs of a job, and the filters.
type question struct {
	needs resource.Amounts
	gates string
}

// failing returns the index of the first filter that leaves out a node, or -1 if none does.
func failing(gates []Gate, takes []bool) int {
	return slices.IndexFunc(gates, func(g Gate) bool { return !takes[g.At] })
}

// count returns the NodeCounts for a job, and caches them.
func (s *Survey) count(gates []Gate, needs resource.Amounts) NodeCounts {
	s.classify()
	q := question{needs: needs}
	for _, g := range gates {
		q.gates += fmt.Sprintf("%q %d ", g.Pool, g.At)
	}
	c, known := s.counts[q]
	if !known {
		c = s.look(gates, needs)
		s.counts[q] = c
	}
	return c
}

// look is like count, but without the cache.
func (s *Survey) look(gates []Gate, needs resource.Amounts) NodeCounts {
	var c NodeCounts
	unmatched := make([]int, len(gates))
	for i := range s.classes {
		r := &s.classes[i]
		c.All += r.nodes
		fails := failing(gates, r.Takes)
		switch {
		case !r.Schedulable:
			c.Closed += r.nodes
		case fails >= 0:
			c.Unmatched += r.nodes
			unmatched[fails] += r.nodes
		case !needs.Fits(r.Limits):
			c.TooSmall += r.nodes
			c.small = append(c.small, r)
			lacking(&c.SmallBy, needs, r.Limits, r.nodes)
		case !needs.Fits(r.Free):
			c.Full += r.nodes
			lacking(&c.LackingBy, needs, r.Free, r.nodes)
		case !needs.Fits(r.Spare):
			c.Held += r.nodes
			lacking(&c.LackingBy, needs, r.Spare, r.nodes)
		default:
			c.Fit += r.nodes
		}
	}
	for i, g := range gates {
		if unmatched[i] > 0 {
			c.UnmatchedBy = append(c.UnmatchedBy, FilterCount{Pool: g.Pool, Filter: g.Filter, Nodes: unmatched[i]})
		}
	}
	return c
}

// lacking counts nodes by the resources of which there is too little.
func lacking(by *[resource.Count]int, needs, has resource.Amounts, nodes int) {
	for i := range resource.Count {
		if k := resource.Kind(i); needs.Of(k) > has.Of(k) {
			by[k] += nodes
		}
	}
}

// Never says why jobs of a task could not start even if all nodes were empty. For a gang, it is about
// the Pending jobs that have to start together. For other tasks, Pending is 0, and it is about any one
// job. The result is the zero Fact if the jobs could start. Some node of the survey has to take jobs.
func (s *Survey) Never(gates []Gate, jobs []allocation.Task) Fact {
	q, a := Case{Survey: s}, Asked{Gates: gates}
	for _, j := range jobs {
		if nodes := s.count(gates, j.PerJob); nodes.Full+nodes.Held+nodes.Fit == 0 {
			return q.cause(&a, &Task{TaskID: j.TaskID, PerJob: j.PerJob}, nodes)
		}
	}
	on := func(yield func(allocation.Hosts) bool) {
		for i := range s.classes {
			if c := &s.classes[i]; c.Schedulable && failing(gates, c.Takes) < 0 && !yield(allocation.Hosts{Limits: c.Limits, Nodes: int64(c.nodes)}) {
				return
			}
		}
	}
	fit := allocation.Together(jobs, on)
	if fit.All() {
		return Fact{}
	}
	return GangTask{jobs[0].Name, Gang{Missing: fit.Of}}.TooBig(fit, fit.Lacks(on))
}
