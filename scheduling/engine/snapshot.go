package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/fairshare"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Snapshot is the engine at one moment, for readers. It shares nothing with the
// engine.
type Snapshot struct {
	// At is the time of the last Tick, zero before the first one.
	At time.Time
	// Stale says that the tree has changed since: fair shares do not add up
	// before the next Tick.
	Stale bool
	// Total is the resources of all nodes that may run jobs.
	Total resource.Amounts
	// InFlight is the number of starts that are not settled.
	InFlight int
	// Pools has every pool before those below it, the root first, by name.
	Pools []PoolView
	// Operations is sorted by id.
	Operations []OperationView
	// Nodes is sorted by id.
	Nodes []NodeView
	// Claims is sorted by node, and of a node in the order in which they are served.
	Claims []ClaimView
}

// Shares is what a pool or an operation has and ought to have.
type Shares struct {
	Weight float64
	// Usage is what counts for decisions: what it uses now, starts in flight and claims
	// included.
	Usage resource.Amounts
	// Leaving is what allocations hold besides that have been told to go.
	Leaving resource.Amounts
	// Claimed is the part of Usage that is held for jobs that have not started.
	Claimed resource.Amounts
	// UsageShare is the part of Usage in the resources of the cluster, RunningShare that
	// of Running, and ClaimedShare that of Claimed.
	UsageShare, RunningShare, ClaimedShare resource.Vector
	// DemandShare and FairShare are those of the last Tick.
	DemandShare, FairShare resource.Vector
	// Satisfaction is how near UsageShare is to FairShare (F.10).
	Satisfaction float64
	// Limits are what was set, resource.Infinite where nothing was. More is used only
	// when they fell, or what uses it came from elsewhere; then no job starts.
	Limits resource.Amounts
	// Clock is how the element has fared up to the last Tick (F.11).
	Clock preemption.Clock
	// Attributes are those of the last Tick that fair shares follow from.
	Attributes Attributes
}

// Attributes are what an update of fair shares finds of pools and operations
// alike (F.17.5).
type Attributes struct {
	fairshare.Result
	// Parts are the fair share, and Promised what guarantees alone would give, by
	// right.
	Parts, Promised fairshare.Parts
	// GuaranteedRatio is the part of GuaranteedShare of the resource that counts for the
	// element (F.5.7).
	GuaranteedRatio float64
	// SpecifiedMinShare follows from settings, MinShare is what of it the element can
	// insist on now.
	SpecifiedMinShare resource.Vector
	// LimitedDemand is what there would be use for if siblings took nothing.
	LimitedDemand resource.Amounts
}

// Integral are the integral guarantees of a pool at the last Tick (G5).
type Integral struct {
	Type fairshare.GuaranteeType
	// Volume has accumulated, and Capacity is how much of it there may be; RatioVolume and
	// RatioCapacity are the seconds of the whole cluster that these are worth.
	Volume, Capacity           resource.Volume
	RatioVolume, RatioCapacity float64
	fairshare.Ratios
	// BurstDuration is for how long the volume of a burst pool lasts at burst level;
	// Lasts is false where that is no question or for ever.
	BurstDuration time.Duration
	Lasts         bool
}

// PoolView is a pool in a Snapshot.
type PoolView struct {
	Name scheduling.PoolName
	// ID stays when the name changes; 0: it goes by its name.
	ID scheduling.PoolID
	// Parent is empty for the root.
	Parent scheduling.PoolName
	Shares Shares
	// Effective are the settings that hold.
	Effective pooltree.Effective
	// InferredGuarantee is the strong guarantee in all resources (F.5.1), Tiers its
	// share by priority (F.5.4).
	InferredGuarantee resource.Amounts
	Tiers             [fairshare.TierCount]resource.Vector
	Integral          Integral
	// Alerts say what was wrong with its settings at the last Tick; those of the root
	// are of all guarantees together.
	Alerts []string
}

// OperationView is an operation in a Snapshot.
type OperationView struct {
	Operation
	Shares Shares
	// Effective are the settings that hold.
	Effective pooltree.EffectiveOperation
	// SchedulingIndex is the place in the order in which operations would be served if
	// each had one turn; -1 for one that has no jobs to start.
	SchedulingIndex int
	// Tasks is sorted by name, and groups of one task by memory, the largest first.
	Tasks []TaskView
	// Allocations is how many jobs hold resources, without those in flight; Leaving of
	// them have been told to go.
	Allocations, Leaving int
	// Bounds are what the groups of its allocations are cut by.
	Bounds preemption.Bounds
	// Removed operations are waiting for their last allocation to go.
	Removed bool
}

// TaskView is a group of a task in a Snapshot.
type TaskView struct {
	Name scheduling.TaskName
	// Group is the memory that each of the jobs gets of its own, in bytes; 0: what the task
	// has learned to need.
	Group int64
	// Pending is the number of pending jobs in the replicated state.
	Pending int64
	// InFlight is the number of those that are about to start.
	InFlight int64
	// Claimed is the number of those for which resources are held on a node.
	Claimed int64
	// Effective is the number of those that may start.
	Effective int64
	// PerJob is what each of them needs.
	PerJob resource.Amounts
	// Out says that at the last update no node held such a job: none of them starts before the
	// next one.
	Out bool
	// Gang is that of the task, the same for all groups.
	Gang explain.Gang
}

// NodeView is a node in a Snapshot.
type NodeView struct {
	ID     scheduling.NodeID
	Tags   []string
	Limits resource.Amounts
	// Usage is what allocations and starts in flight hold, Leaving the part of it that
	// has been told to go, and Claimed what is kept for those who wait for that.
	Usage, Leaving, Claimed resource.Amounts
	// Known is false for a node that only its allocations speak of.
	Known       bool
	Schedulable bool
	// Attempted is when preemption was tried there last, zero: never.
	Attempted time.Time
	// Reserved is the operation for a job of which what is free is kept; empty: for none.
	Reserved scheduling.OperationID
	// Overcommitted nodes have less than is held, not for the engine's fault.
	Overcommitted bool
}

// ClaimView is what is held on a node for a job that starts when preempted ones have
// gone.
type ClaimView struct {
	Node scheduling.NodeID
	Beneficiary
	// Ordered is when the victims were told to go, Victims how many have not gone.
	Ordered time.Time
	Victims int
	// Expires is when the claim ends at the latest.
	Expires time.Time
}

// Holding is an allocation or a start in flight.
type Holding struct {
	Allocation
	// Leaving allocations have been told to go, or are about to be, until Deadline.
	Leaving  bool
	Deadline time.Time
	// Kind is how it was preempted; lifecycle.NotPreempted when it goes for another
	// cause, or stays.
	Kind lifecycle.PreemptionKind
	// For is who waits for its resources; the zero value: nobody.
	For Beneficiary
	// Reason are the facts by which it was preempted, if this engine has chosen it.
	Reason explain.Reason
	// Level is how easily it is preempted: one that leaves never is.
	Level preemption.Level
	// Ticket is 0 for an allocation. A start in flight has no job yet.
	Ticket Ticket
}

// Say returns what an alert says, with the names of the pools that it is about.
func (s Snapshot) Say(alert fairshare.Alert) string {
	var guaranteed []string
	for _, p := range s.Pools {
		strong := p.Parent == scheduling.RootPool && p.InferredGuarantee != resource.Amounts{}
		if strong || p.Integral.SpecifiedBurstRatio > 0 || p.Integral.SpecifiedFlowRatio > 0 {
			guaranteed = append(guaranteed, string(p.Name))
		}
	}
	return alert.Named(guaranteed)
}

// Snapshot returns the engine at this moment. It costs time in proportion to the
// number of pools, operations and nodes.
func (e *Engine) Snapshot() Snapshot {
	e.tree.shares.FindGuaranteed(e.moment.stale)
	s := Snapshot{At: e.update.ticked, Stale: e.moment.stale, Total: e.cluster.total, InFlight: len(e.holdings.inFlight)}
	s.Pools = e.Pools()
	for _, alert := range e.update.alerts {
		if i := slices.IndexFunc(s.Pools, func(p PoolView) bool { return string(p.Name) == alert.Pool }); i >= 0 {
			s.Pools[i].Alerts = append(s.Pools[i].Alerts, s.Say(alert))
		}
	}
	s.Operations = make([]OperationView, 0, len(e.tree.operations))
	for _, op := range e.tree.operations {
		s.Operations = append(s.Operations, e.gangs.viewOperation(op))
	}
	slices.SortFunc(s.Operations, func(a, b OperationView) int { return cmp.Compare(a.ID, b.ID) })
	e.tree.number(s.Operations)
	nodes := slices.SortedFunc(maps.Values(e.cluster.nodes), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	s.Nodes = make([]NodeView, 0, len(nodes))
	for _, n := range nodes {
		v := NodeView{ID: n.id, Tags: slices.Clone(n.tags), Limits: n.limits, Usage: n.usage,
			Leaving: n.leaving, Claimed: n.claimed, Known: n.known, Schedulable: n.schedulable, Attempted: n.attempted, Overcommitted: n.overcommitted}
		if n.reserved.pool != nil {
			v.Reserved = n.reserved.operation.ID
		}
		s.Nodes = append(s.Nodes, v)
		for _, c := range n.claims {
			s.Claims = append(s.Claims, c.view())
		}
	}
	return s
}

// number sets the scheduling indices of operations that are sorted by id.
func (tr *tree) number(operations []OperationView) {
	next := 0
	for waits := range tr.filler.Order(tr.root.order) {
		i, _ := slices.BinarySearchFunc(operations, scheduling.OperationID(waits.ID()), func(op OperationView, id scheduling.OperationID) int {
			return cmp.Compare(op.ID, id)
		})
		operations[i].SchedulingIndex = next
		next++
	}
}

// Holdings returns all allocations, sorted by job, and then all starts in
// flight, sorted by ticket. It costs time in proportion to their number.
func (e *Engine) Holdings() []Holding {
	all := make([]Holding, 0, len(e.holdings.allocations)+len(e.holdings.inFlight))
	for _, h := range e.holdings.allocations {
		all = append(all, h.view())
	}
	for _, h := range e.holdings.inFlight {
		all = append(all, h.view())
	}
	slices.SortFunc(all, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(a.Ticket, b.Ticket), cmp.Compare(a.Job, b.Job))
	})
	return all
}

func (tr *tree) viewPool(p *pool, into []PoolView) []PoolView {
	v := PoolView{
		Name:              p.name,
		ID:                p.id,
		Shares:            tr.viewShares(&p.element, p.claimed()),
		Effective:         p.effective,
		InferredGuarantee: p.share.Pool.InferredGuarantee,
		Tiers:             p.share.Pool.Tiers,
		Integral:          viewIntegral(p.share.Pool, tr.cluster.total),
	}
	if p.parent != nil {
		v.Parent = p.parent.name
	}
	into = append(into, v)
	below := slices.SortedFunc(slices.Values(p.pools), func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	for _, c := range below {
		into = tr.viewPool(c, into)
	}
	return into
}

func (tr *tree) viewShares(of *element, claimed resource.Amounts) Shares {
	s, order := of.share, of.order
	v := Shares{
		Weight:       s.Weight,
		Usage:        order.Usage(),
		Leaving:      order.Leaving(),
		Claimed:      claimed,
		UsageShare:   resource.Share(order.Usage(), tr.cluster.total),
		ClaimedShare: resource.Share(claimed, tr.cluster.total),
		DemandShare:  s.DemandShare,
		FairShare:    s.FairShare,
		Satisfaction: order.Satisfaction(),
		Limits:       of.limits,
		Clock:        of.clock,
		Attributes: Attributes{
			Result:            s.Result,
			Parts:             s.Parts(),
			Promised:          s.PromisedParts(),
			GuaranteedRatio:   tr.shares.GuaranteedRatio(s),
			SpecifiedMinShare: s.SpecifiedMinShare(),
			LimitedDemand:     s.LimitedDemandShare.Amounts(tr.cluster.total),
		},
	}
	v.RunningShare = resource.Share(v.Running(), tr.cluster.total)
	return v
}

// claimed is what is held for jobs of the operation that have not started.
func (op *operation) claimed() (sum resource.Amounts) {
	for _, c := range op.claims {
		sum = sum.Add(c.resources)
	}
	return sum
}

// claimed is that of all operations in the pool and below.
func (p *pool) claimed() (sum resource.Amounts) {
	for _, op := range p.operations {
		sum = sum.Add(op.claimed())
	}
	for _, c := range p.pools {
		sum = sum.Add(c.claimed())
	}
	return sum
}

func viewIntegral(p *fairshare.Pool, total resource.Amounts) Integral {
	v := Integral{
		Type:          p.Integral.Type,
		Volume:        p.Volume,
		RatioVolume:   p.Volume.MinRatio(total),
		Capacity:      p.Capacity,
		RatioCapacity: p.Capacity.MinRatio(total),
		Ratios:        p.Ratios,
	}
	v.BurstDuration, v.Lasts = p.BurstDuration(total)
	return v
}

func (gs *gangs) viewOperation(op *operation) OperationView {
	v := OperationView{
		Operation:       op.Operation,
		Removed:         op.removed,
		Shares:          gs.tree.viewShares(&op.element, op.claimed()),
		Effective:       op.effective,
		SchedulingIndex: -1,
		Tasks:           make([]TaskView, 0, len(op.tasks)),
		Allocations:     op.held,
		Leaving:         op.leavers,
		Bounds:          *op.groups.Bounds(),
	}
	for _, t := range op.tasks {
		v.Allocations -= int(t.inFlight)
		v.Tasks = append(v.Tasks, TaskView{Name: t.Name, Group: t.Group, Pending: t.pending, InFlight: t.inFlight, Claimed: t.claimed, Effective: t.effective(), PerJob: t.perJob, Out: t.out, Gang: gs.view(op, t.Name)})
	}
	return v
}

func (h *holding) view() Holding {
	v := Holding{Ticket: h.ticket, Allocation: Allocation{
		Job: h.Job, Operation: h.operation.ID, Task: h.task.Name, Group: h.task.Group, Node: h.node.id, Resources: h.Resources, Started: h.Started,
	}, Level: h.Level()}
	if l := h.leaving; l != nil {
		v.Leaving, v.Deadline, v.Kind, v.Reason = true, l.deadline, l.kind, l.reason
		if l.claim != nil {
			v.For = l.claim.beneficiary()
		}
	}
	return v
}
