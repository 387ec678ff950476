package engine

import (
	"math"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// nodesPerStep is the maximum number of nodes that a survey notes in one step: a step delays the
// engine.
const nodesPerStep = 2048

// survey is what the engine notes about its nodes, and about operations that compete, for all
// inquiries until the next update. It is taken in short steps.
type survey struct {
	noted  explain.Survey
	number uint64
	// edits is the value of filters.edits when the survey began.
	edits uint64
	// left is how many nodes at the beginning of cluster.list have not been noted yet.
	left    int
	ordered bool
	rivals  rivals
}

// beginSurvey returns the survey for an inquiry that begins now: the current one, unless filters
// have changed since it began.
func (iq *inquiries) beginSurvey() *survey {
	if s := iq.survey; s != nil && s.edits == iq.cluster.filters.edits {
		return s
	}
	iq.surveys++
	nodes := len(iq.cluster.list)
	iq.survey = &survey{number: iq.surveys, edits: iq.cluster.filters.edits, left: nodes, noted: explain.Survey{Rows: make([]explain.Row, 0, nodes)}}
	return iq.survey
}

// taken reports whether the nodes and the order are all noted.
func (s *survey) taken() bool { return s.ordered && s.left == 0 }

// proceed takes one step. It goes through the list from its end: removing a node moves the last one
// into its place, and that one has already been noted.
func (iq *inquiries) proceed(s *survey) {
	if !s.ordered {
		iq.surveyOrder(s)
		return
	}
	list := iq.cluster.list
	end := min(s.left, len(list))
	for s.left = max(end-nodesPerStep, 0); end > s.left; end-- {
		n := list[end-1]
		if !n.known || n.surveyed == s.number {
			continue
		}
		n.surveyed = s.number
		s.noted.Rows = append(s.noted.Rows, explain.Row{
			Node: n.id, Limits: n.limits, Free: n.free(), Spare: n.spare(), Takes: n.takes, Attempted: n.attempted, Schedulable: n.schedulable,
		})
	}
}

func (iq *inquiries) surveyOrder(s *survey) {
	s.ordered = true
	s.noted.Waiting = iq.tree.root.order.Waiting()
	s.noted.Order = make([]scheduling.OperationID, 0, min(s.noted.Waiting, explain.MaxPlaces))
	for waits := range iq.tree.filler.Order(iq.tree.root.order) {
		if len(s.noted.Order) == explain.MaxPlaces {
			return
		}
		s.noted.Order = append(s.noted.Order, waits.Owner().(*operation).ID)
	}
}

const (
	// contendersPerStep is the maximum number of operations that one step notes. agesPerStep is
	// roughly the maximum number of job starts that it notes.
	contendersPerStep, agesPerStep = 128, 2048
	// agesKept is the maximum number of job starts that are noted of an operation. The oldest jobs
	// are noted; the others are assumed to have started at even intervals after them.
	agesKept = 64
)

// rivals is the progress in noting the operations that compete for the resources that ending jobs
// release.
type rivals struct {
	begun bool
	// left are the operations that have not been noted yet.
	left []*operation
	// at is the index of each pool in Contest.Pools. place is the index of each operation in the
	// survey's Order.
	at    map[*pool]int
	place map[scheduling.OperationID]int
	kinds map[string][]explain.Lengths
}

// compete takes one step in noting the operations that compete.
func (iq *inquiries) compete(s *survey) {
	c := &s.rivals
	if !c.begun {
		c.begun, c.left, c.kinds = true, iq.tree.root.below(nil), iq.tree.history.kinds
		s.noted.Contest.Total = iq.cluster.total
		c.at, c.place = map[*pool]int{}, make(map[scheduling.OperationID]int, len(s.noted.Order))
		for i, op := range s.noted.Order {
			c.place[op] = i
		}
		c.expect(&s.noted.Contest, iq.tree.root)
		return
	}
	for looked, ages := 0, 0; looked < contendersPerStep && ages < agesPerStep && len(c.left) > 0; looked++ {
		op := c.left[0]
		if c.left = c.left[1:]; iq.tree.operations[op.ID] == op && op.pool != nil {
			ages += c.add(&s.noted.Contest, op)
		}
	}
}

// known reports whether all competing operations are noted.
func (c *rivals) known() bool { return c.begun && len(c.left) == 0 }

// add notes an operation, and returns how many starts of its jobs it noted.
func (c *rivals) add(to *explain.Contest, op *operation) int {
	usage := op.order.Usage()
	n := &explain.Contender{
		ID: op.ID, Rank: rank(op.share), Place: math.MaxInt, Running: int64(len(op.held)), Fair: op.share.FairShare, Usage: usage,
		Limits: op.limits.Min(op.ceiling), Gang: len(op.gangs) > 0,
	}
	if at, waits := c.place[op.ID]; waits {
		n.Place = at
		for _, t := range op.order.Tasks() {
			if t.Waits() {
				n.Jobs += t.Pending
				n.Needs = n.Needs.Add(t.PerJob.Times(t.Pending))
			}
		}
	}
	if n.Jobs == 0 && n.Running == 0 && !n.Gang {
		return 0
	}
	if n.Jobs > 0 {
		n.Needs = n.Needs.Scale(1 / float64(n.Jobs))
	}
	if n.Running > 0 {
		n.Holds = usage.Add(op.order.Leaving()).Scale(1 / float64(n.Running))
	}
	n.First, n.Newest = op.starts(), op.lastStart
	if m := op.groups.Last(); m != nil {
		n.Newest = m.Started
	}
	n.Lengths, n.Weight, n.Alike = op.lengths.Clone(), op.share.Weight, c.kinds[op.Kind]
	n.Debt = op.debt.known(op.pool.effective.PoolSatisfaction)
	n.Pool = c.arena(to, op.pool)
	to.Contenders = append(to.Contenders, n)
	return len(n.First)
}

// expect notes a pool if operations have come to it, and the pools below: more may come.
func (c *rivals) expect(to *explain.Contest, p *pool) {
	if len(p.past.Arrivals) > 0 {
		c.arena(to, p)
	}
	for _, below := range p.pools {
		c.expect(to, below)
	}
}

// starts returns when the oldest running jobs started.
func (op *operation) starts() []time.Time {
	all := make([]time.Time, 0, min(op.groups.Len(), agesKept))
	for m := op.groups.First(); m != nil && len(all) < agesKept; m = m.Next() {
		all = append(all, m.Started)
	}
	return all
}

// arena returns the index of a pool in the contest. If the pool is not in it, arena adds it after
// the pools above it.
func (c *rivals) arena(to *explain.Contest, p *pool) int {
	if p == nil {
		return -1
	}
	at, known := c.at[p]
	if !known {
		a := explain.Arena{
			Above: c.arena(to, p.parent), FIFO: p.fifo, Fair: p.share.FairShare, Usage: p.order.Usage(),
			Limits: p.limits.Min(p.ceiling), Lengths: p.lengths.Clone(),
			Weight: p.share.Weight, Guarantee: p.share.GuaranteeShare(), Past: p.past, Debt: p.debt.known(p.effective.PoolSatisfaction),
		}
		at = len(to.Pools)
		c.at[p] = at
		to.Pools = append(to.Pools, a)
	}
	return at
}

const (
	// nodesPerSearch is the maximum number of nodes that one step of a search for victims covers.
	// holdingsPerSearch is roughly the maximum number of jobs on them.
	nodesPerSearch, holdingsPerSearch = 128, 1024
)

// searchMore searches some more nodes for victims. It first searches all nodes in the normal stage
// and, if that finds no victims, in the aggressive stage.
func (iq *inquiries) searchMore(q *Inquiry) {
	s := q.known.Search
	if iq.tree.operations[q.op.ID] != q.op || !q.op.active() || !iq.stands(q.by[s.Stage]) {
		s.Over = true
		return
	}
	looked := 0
	for nodes := 0; s.Next < len(s.Nodes) && nodes < nodesPerSearch && looked < holdingsPerSearch; nodes++ {
		n := iq.cluster.nodes[s.Nodes[s.Next]]
		s.Next++
		if n != nil && n.schedulable && !n.overcommitted {
			looked += len(n.held)
			iq.searchNode(q, n)
		}
	}
	s.Proceed()
}

// stands reports whether the starving element is still in the tree.
func (iq *inquiries) stands(s starver) bool {
	return s.pool == nil || iq.tree.pools[s.pool.name] == s.pool
}

// searchNode chooses victims on a node, as of the time when the search on that node is due.
func (iq *inquiries) searchNode(q *Inquiry, n *node) {
	s := q.known.Search
	at := s.Due(n.attempted)
	candidates := iq.victims.mayLeave(s.Stage, n, at, func(h *holding, block preemption.Block) {
		if h.operation != q.op {
			s.Spared[explain.Stay{Block: block, Pool: h.operation.pool.name}]++
		}
	})
	iq.victims.round++
	victims, room, ok := iq.victims.choose(s.Stage, n, q.op, s.Needs, resource.Infinite, q.by[s.Stage], candidates)
	if !ok || len(victims) == 0 {
		return
	}
	for _, h := range iq.victims.others {
		room = room.Add(h.Resources)
	}
	f := explain.Find{At: at, Node: n.id, All: len(victims), Places: allocation.Holds(room, s.Needs)}
	for i, v := range victims {
		if !slices.Contains(v.operation.Abrupt, v.task.Name) {
			f.Timeout = max(f.Timeout, v.operation.effective.Starvation.PreemptionTimeout)
		}
		if i < explain.MaxVictims {
			f.Victims = append(f.Victims, explain.Victim{Job: v.Job, Operation: v.operation.ID, Node: n.id, Started: v.Started})
		}
	}
	s.Found = append(s.Found, f)
}
