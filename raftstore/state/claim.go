package state

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// maxClaims bounds the claims that the state holds for a cluster. Further claims are known only to
// the leader.
const maxClaims = 10000

// claims holds the claims of each operation, in the order in which they were made. A claim reserves
// resources for a job for which others were ordered to stop. It ends when the job is granted, when
// the operation no longer has such a job pending or may no longer start it on the node, when the
// node is lost, or when the claim expires.
type claims struct {
	of    map[scheduling.OperationID][]*statepb.Claim
	count int
	// next is a time before which no claim expires.
	next time.Time
}

func newClaims() claims { return claims{of: make(map[scheduling.OperationID][]*statepb.Claim)} }

// all returns all claims, grouped by operation.
func (s *claims) all() []*statepb.Claim {
	all := make([]*statepb.Claim, 0, s.count)
	for _, mine := range sorted(s.of) {
		all = append(all, mine...)
	}
	return all
}

// add adds a claim as the latest claim of its operation.
func (s *claims) add(c *statepb.Claim) {
	id := scheduling.OperationID(c.GetBeneficiary().GetOperationId())
	if at := c.GetExpires().AsTime(); s.count == 0 || at.Before(s.next) {
		s.next = at
	}
	s.of[id] = append(slices.Clip(s.of[id]), c)
	s.count++
}

// keep calls the function `stays` for each claim of an operation, and drops the claims for which it
// returns false.
func (s *claims) keep(id scheduling.OperationID, stays func(*statepb.Claim) bool) {
	left := slices.DeleteFunc(slices.Clone(s.of[id]), func(c *statepb.Claim) bool { return !stays(c) })
	s.count -= len(s.of[id]) - len(left)
	s.of[id] = left
	if len(left) == 0 {
		delete(s.of, id)
	}
}

// keepAll calls keep for each operation.
func (s *claims) keepAll(stays func(*statepb.Claim) bool) {
	for id := range s.of {
		s.keep(id, stays)
	}
}

// hold claims the resources of a stopped job for the beneficiary of its stop order. If the same
// claim exists, hold extends it if necessary. A stop order from an older version makes no claim.
func (c *change) hold(a *statepb.Allocation, order *statepb.StopOrder) {
	b := order.GetPreemptedFor()
	if b == nil || order.GetPlannedTime() == nil {
		return
	}
	o := c.operations[scheduling.OperationID(b.GetOperationId())]
	node := c.nodes[scheduling.NodeID(a.GetNode())].record
	claim := &statepb.Claim{
		Tree: node.GetTree(), Node: node.GetId(), NodeIncarnation: node.GetIncarnation(), Beneficiary: b, PlannedTime: order.GetPlannedTime(),
		Expires: timestamppb.New(order.Deadline().Add(time.Duration(b.GetHoldMillis()) * time.Millisecond)),
	}
	mine := c.claims.of[o.id()]
	if i := slices.IndexFunc(mine, func(other *statepb.Claim) bool { return sameClaim(claim, other) }); i >= 0 {
		if claim.GetExpires().AsTime().After(mine[i].GetExpires().AsTime()) {
			mine = slices.Clone(mine)
			mine[i] = claim
			c.claims.of[o.id()] = mine
		}
		return
	}
	if !o.mayUse(claim, node) || o.wanted(b) == 0 {
		return
	}
	if o.claimed(mine, b.GetTask(), b.GetDedicatedMemory()) >= o.wanted(b) {
		// The leader never holds more claims than there are pending jobs, so it must have dropped
		// another claim.
		c.dropOldest(b)
	}
	if c.claims.count < maxClaims {
		c.claims.add(claim)
	}
}

// dropOldest drops the oldest claim for jobs like that of a beneficiary.
func (c *change) dropOldest(b *statepb.Beneficiary) {
	dropped := false
	c.claims.keep(scheduling.OperationID(b.GetOperationId()), func(claim *statepb.Claim) bool {
		other := claim.GetBeneficiary()
		if dropped || other.GetTask() != b.GetTask() || other.GetDedicatedMemory() != b.GetDedicatedMemory() {
			return true
		}
		dropped = true
		return false
	})
}

// sameClaim reports whether two claims of an operation are the same.
func sameClaim(a, b *statepb.Claim) bool {
	return a.GetNode() == b.GetNode() && a.GetBeneficiary().GetTask() == b.GetBeneficiary().GetTask() &&
		a.GetBeneficiary().GetDedicatedMemory() == b.GetBeneficiary().GetDedicatedMemory() &&
		a.GetPlannedTime().AsTime().Equal(b.GetPlannedTime().AsTime())
}

// meet ends the claim that a grant has fulfilled.
func (c jobChange) meet(g *commandpb.Grant) {
	if g.GetClaimTime() == nil || c.claims.count == 0 {
		return
	}
	met := &statepb.Claim{Node: g.GetNode(), PlannedTime: g.GetClaimTime(), Beneficiary: &statepb.Beneficiary{Task: g.GetTask(), DedicatedMemory: g.GetDedicatedMemory()}}
	c.claims.keep(scheduling.OperationID(g.GetOperationId()), func(claim *statepb.Claim) bool { return !sameClaim(claim, met) })
}

// mayUse reports whether the operation may start the job of a claim on its node. The parameter node
// is the node's current record.
func (o *operation) mayUse(claim *statepb.Claim, node *statepb.Node) bool {
	in := o.treeIndex(scheduling.TreeName(claim.GetTree()))
	return o.state == lifecycle.Running && !o.record.GetSuspended() && in >= 0 && o.record.GetTrees()[in].GetAdmitted() &&
		node.GetState() == statepb.NodeOnline && node.GetIncarnation() == claim.GetNodeIncarnation() && node.GetTree() == claim.GetTree()
}

// wanted returns how many jobs like that of a beneficiary are pending.
func (o *operation) wanted(b *statepb.Beneficiary) int {
	task, ok := o.taskIndex[scheduling.TaskName(b.GetTask())]
	if !ok {
		return 0
	}
	return int(o.offered(task, b.GetDedicatedMemory()))
}

// claimed returns how many of the given claims are for a group of a task.
func (o *operation) claimed(mine []*statepb.Claim, task string, group int64) (n int) {
	for _, claim := range mine {
		if b := claim.GetBeneficiary(); b.GetTask() == task && b.GetDedicatedMemory() == group {
			n++
		}
	}
	return n
}

// settleClaims first ends the claims that have expired, and after that those that the command has
// made useless. In this order, no claim is ended in favor of an expired one.
func (c *change) settleClaims() {
	c.expireClaims()
	if c.claims.count == 0 {
		return
	}
	useful := func(claim *statepb.Claim) bool {
		o, n := c.operations[scheduling.OperationID(claim.GetBeneficiary().GetOperationId())], c.nodes[scheduling.NodeID(claim.GetNode())]
		return o != nil && n != nil && o.mayUse(claim, n.record)
	}
	for _, e := range c.events {
		switch e := e.(type) {
		case OperationChanged:
			c.claims.keep(e.ID, useful)
		case DemandChanged:
			c.trimClaims(e)
		case NodeChanged, NodeRemoved:
			c.claims.keepAll(useful)
		}
	}
}

// expireClaims ends the claims that have expired.
func (c *change) expireClaims() {
	if c.claims.count == 0 || c.now.Before(c.claims.next) {
		return
	}
	next := time.Time{}
	c.claims.keepAll(func(claim *statepb.Claim) bool {
		at := claim.GetExpires().AsTime()
		if c.now.Before(at) && (next.IsZero() || at.Before(next)) {
			next = at
		}
		return c.now.Before(at)
	})
	c.claims.next = next
}

// trimClaims ends the latest claims of a task group until there are no more claims than pending
// jobs.
func (c *change) trimClaims(e DemandChanged) {
	mine := c.claims.of[e.ID]
	if len(mine) == 0 {
		return
	}
	left := c.operations[e.ID].wanted(&statepb.Beneficiary{Task: string(e.Task), DedicatedMemory: e.Group})
	c.claims.keep(e.ID, func(claim *statepb.Claim) bool {
		if b := claim.GetBeneficiary(); b.GetTask() != string(e.Task) || b.GetDedicatedMemory() != e.Group {
			return true
		}
		left--
		return left >= 0
	})
}

// Claims returns the claims in a pool tree, oldest first. They are served in this order.
func (s *State) Claims(tree scheduling.TreeName) []*statepb.Claim {
	all := slices.DeleteFunc(s.claims.all(), func(c *statepb.Claim) bool { return c.GetTree() != string(tree) })
	slices.SortStableFunc(all, func(a, b *statepb.Claim) int {
		return cmp.Or(a.GetPlannedTime().AsTime().Compare(b.GetPlannedTime().AsTime()), cmp.Compare(a.GetNode(), b.GetNode()))
	})
	return all
}

// verifyClaims checks that every claim is still useful.
func (s verifier) verifyClaims() error {
	var b breach
	count := 0
	for id, mine := range s.claims.of {
		count += len(mine)
		o, found := operationIn(s.operations, id)
		b.when(!found, "claims of operation %q, which does not exist", id)
		for i := 0; i < len(mine) && found; i++ {
			claim, who, n := mine[i], mine[i].GetBeneficiary(), orEmpty(s.nodes, scheduling.NodeID(mine[i].GetNode()))
			planned, expires := claim.GetPlannedTime(), claim.GetExpires()
			b.when(who.GetOperationId() != string(id) || n.record == nil || !o.mayUse(claim, n.record),
				"claim of operation %q on node %q, on which it may not start a job", id, claim.GetNode())
			b.when(planned.CheckValid() != nil || expires.CheckValid() != nil || expires.AsTime().Before(s.claims.next),
				"claim of operation %q on node %q: planned at %v, expires at %v", id, claim.GetNode(), planned, expires)
			b.when(slices.ContainsFunc(mine[:i], func(other *statepb.Claim) bool { return sameClaim(claim, other) }),
				"claim of operation %q on node %q: listed twice", id, claim.GetNode())
			b.when(o.claimed(mine, who.GetTask(), who.GetDedicatedMemory()) > o.wanted(who),
				"operation %q has more claims for task %q than pending jobs", id, who.GetTask())
		}
	}
	b.when(count != s.claims.count || count > maxClaims, "%d claims, but counted %d; the limit is %d", count, s.claims.count, maxClaims)
	return b.err
}
