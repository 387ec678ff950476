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

// Snapshot is the state of the engine at one moment, for readers. It shares no memory with the
// engine.
type Snapshot struct {
	// At is the time of the last Tick; zero before the first one.
	At time.Time
	// Stale says that the tree has changed since the last Tick: fair shares may not add up before
	// the next Tick.
	Stale bool
	// Total is the resources of all nodes that may run jobs.
	Total resource.Amounts
	// InFlight is the number of starts that are not settled.
	InFlight int
	// Pools holds all pools: the root first, each pool before those below it, siblings by name.
	Pools []PoolView
	// Operations is sorted by id.
	Operations []OperationView
	// Nodes is sorted by id.
	Nodes []NodeView
	// Claims is sorted by node. The claims on a node are in the order in which they are served.
	Claims []ClaimView
}

// Shares is what a pool or an operation has and ought to have.
type Shares struct {
	Weight float64
	// Usage is the usage that counts for decisions, including starts in flight and claims.
	Usage resource.Amounts
	// Leaving is what leaving allocations hold. Usage does not include it.
	Leaving resource.Amounts
	// Claimed is the part of Usage that is held for jobs that have not started.
	Claimed resource.Amounts
	// UsageShare, RunningShare and ClaimedShare are Usage, Running and Claimed as parts of the
	// resources of the cluster.
	UsageShare, RunningShare, ClaimedShare resource.Vector
	// DemandShare and FairShare are as of the last Tick.
	DemandShare, FairShare resource.Vector
	// Satisfaction is how near UsageShare is to FairShare (F.10).
	Satisfaction float64
	// Limits are the limits that were set; resource.Infinite for resources without a limit. Usage
	// exceeds limits only if they were lowered, or if an operation with usage was moved. Then no
	// job starts.
	Limits resource.Amounts
	// Clock says since when the element has been below its shares, as of the last Tick (F.11).
	Clock preemption.Clock
	// Attributes are the details of the fair share, as of the last Tick.
	Attributes Attributes
}

// Attributes are the results of an update that pools and operations have in common (F.17.5).
type Attributes struct {
	fairshare.Result
	// Parts are the parts of the fair share. Promised are the parts of the share that guarantees
	// alone would give.
	Parts, Promised fairshare.Parts
	// GuaranteedRatio is GuaranteedShare in the resource that counts for the element (F.5.7).
	GuaranteedRatio float64
	// SpecifiedMinShare is the min share that follows from settings, which may be more than the
	// element's demand.
	SpecifiedMinShare resource.Vector
	// LimitedDemand is what the element could use if its siblings used nothing.
	LimitedDemand resource.Amounts
}

// Integral are the integral guarantees of a pool at the last Tick (G5).
type Integral struct {
	Type fairshare.GuaranteeType
	// Volume is the volume that has accumulated, and Capacity is its upper bound. RatioVolume and
	// RatioCapacity are the same in seconds of the whole cluster.
	Volume, Capacity           resource.Volume
	RatioVolume, RatioCapacity float64
	fairshare.Ratios
	// BurstDuration is how long the volume of a burst pool lasts at burst level. Lasts is false if
	// the volume never runs out, and for other pools.
	BurstDuration time.Duration
	Lasts         bool
}

// PoolView is a pool in a Snapshot.
type PoolView struct {
	Name scheduling.PoolName
	// ID does not change with the name; 0: the pool is known by its name only.
	ID scheduling.PoolID
	// Parent is empty for the root.
	Parent scheduling.PoolName
	Shares Shares
	// Effective are the settings in force.
	Effective pooltree.Effective
	// InferredGuarantee is the strong guarantee in all resources (F.5.1). Tiers is its share by
	// priority (F.5.4).
	InferredGuarantee resource.Amounts
	Tiers             [fairshare.TierCount]resource.Vector
	Integral          Integral
	// Alerts say what was wrong with the pool's settings at the last Tick. Alerts of the root are
	// about all guarantees together.
	Alerts []string
}

// OperationView is an operation in a Snapshot.
type OperationView struct {
	Operation
	Shares Shares
	// Effective are the settings in force.
	Effective pooltree.EffectiveOperation
	// SchedulingIndex is the place in the order in which operations would be served if each had one
	// turn; -1 if the operation has no jobs to start.
	SchedulingIndex int
	// Tasks is sorted by name, and groups of one task by memory, the largest first.
	Tasks []TaskView
	// Allocations is how many jobs hold resources, without the jobs in flight. Leaving is how many
	// of these jobs have been told to leave.
	Allocations, Leaving int
	// Bounds are the bounds of the groups of the operation's allocations.
	Bounds preemption.Bounds
	// Removed operations stay until their last allocation has gone.
	Removed bool
}

// TaskView is a group of a task in a Snapshot.
type TaskView struct {
	Name scheduling.TaskName
	// Group is the memory granted to each of the jobs, in bytes; 0 if they get the reserve learned
	// for the task.
	Group int64
	// Pending is the number of pending jobs in the replicated state.
	Pending int64
	// InFlight is the number of pending jobs that are about to start.
	InFlight int64
	// Claimed is the number of pending jobs for which resources are held on a node.
	Claimed int64
	// Effective is the number of pending jobs that may start.
	Effective int64
	// PerJob is what each job needs.
	PerJob resource.Amounts
	// Out says that at the last update no node could hold such a job, or limits were too low:
	// none starts before the next update.
	Out bool
	// Gang is the gang of the task, the same for all groups.
	Gang explain.Gang
}

// NodeView is a node in a Snapshot.
type NodeView struct {
	ID     scheduling.NodeID
	Tags   []string
	Limits resource.Amounts
	// Usage is what allocations and starts in flight hold. Leaving is the part of Usage that
	// leaving allocations hold. Claimed is what claims hold.
	Usage, Leaving, Claimed resource.Amounts
	// Known is false for a node that only allocations or claims refer to.
	Known       bool
	Schedulable bool
	// Attempted is when preemption was last tried on the node; zero if never.
	Attempted time.Time
	// Reserved is the operation for which the free resources are reserved; empty if there is none.
	Reserved scheduling.OperationID
	// Overcommitted nodes have less than their allocations hold, for a reason other than a start.
	Overcommitted bool
}

// ClaimView is a claim on a node, for a job that starts once preempted jobs have gone.
type ClaimView struct {
	Node scheduling.NodeID
	Beneficiary
	// Ordered is when the victims were chosen. Victims is how many victims have not left yet.
	Ordered time.Time
	Victims int
	// Expires is when the claim ends at the latest.
	Expires time.Time
}

// Holding is an allocation or a start in flight.
type Holding struct {
	Allocation
	// Leaving allocations have been told, or are about to be told, to leave by Deadline.
	Leaving  bool
	Deadline time.Time
	// Kind is how the job was preempted; lifecycle.NotPreempted if it leaves for another reason, or
	// stays.
	Kind lifecycle.PreemptionKind
	// For is the job that waits for the resources; the zero value if there is none.
	For Beneficiary
	// Reason is why the job was preempted, if this engine chose it.
	Reason explain.Reason
	// Level is how easily the job is preempted. A leaving allocation is never preempted.
	Level preemption.Level
	// Ticket is 0 for an allocation. A start in flight has no job yet.
	Ticket Ticket
}

// Say returns the text of an alert, including the names of the pools that the alert is about.
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

// Snapshot returns the state of the engine at this moment. It takes time in proportion to the number
// of pools, operations and nodes.
func (e *Engine) Snapshot() Snapshot {
	s := head(e)
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

// head returns a Snapshot without what it lists, and finds the guaranteed shares of all pools.
func head(e *Engine) Snapshot {
	e.tree.shares.FindGuaranteed(e.moment.stale)
	return Snapshot{At: e.update.ticked, Stale: e.moment.stale, Total: e.cluster.total, InFlight: len(e.holdings.inFlight)}
}

// SnapshotOf returns the Snapshot with one pool and one operation alone, as far as the engine has them. It copies nothing
// of the others.
func SnapshotOf(e *Engine, pool scheduling.PoolName, operation scheduling.OperationID) Snapshot {
	s := head(e)
	if p, found := e.tree.pools[pool]; found {
		v := e.tree.viewOnePool(p)
		for _, alert := range e.update.alerts {
			if alert.Pool == string(pool) {
				v.Alerts = append(v.Alerts, Snapshot{Pools: e.Pools()}.Say(alert))
			}
		}
		s.Pools = []PoolView{v}
	}
	if op, found := e.tree.operations[operation]; found {
		v := e.gangs.viewOperation(op)
		next := 0
		for waits := range e.tree.filler.Order(e.tree.root.order) {
			if waits.ID() == string(operation) {
				v.SchedulingIndex = next
				break
			}
			next++
		}
		s.Operations = []OperationView{v}
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

// Holdings returns all allocations, sorted by job, and then all starts in flight, sorted by ticket.
// It takes time in proportion to their number.
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
	into = append(into, tr.viewOnePool(p))
	below := slices.SortedFunc(slices.Values(p.pools), func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	for _, c := range below {
		into = tr.viewPool(c, into)
	}
	return into
}

func (tr *tree) viewOnePool(p *pool) PoolView {
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
	return v
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

// claimed returns what is held for jobs of the operation that have not started.
func (op *operation) claimed() (sum resource.Amounts) {
	for _, c := range op.claims {
		sum = sum.Add(c.resources)
	}
	return sum
}

// claimed returns the sum over all operations in the pool and below.
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
		Allocations:     len(op.held),
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
