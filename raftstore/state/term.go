package state

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/preemption"
)

// beginTerm fences off all leaders of earlier terms. The leader of the term may repeat the command,
// for instance if the outcome of the first one is unknown.
func (c *change) beginTerm(m *commandpb.BeginTerm) *refusal {
	last := c.term.GetTerm()
	repeated := m.GetTerm() == last && m.GetReplica() == c.term.GetReplica()
	switch {
	case m.GetTerm() == 0 || m.GetReplica() == "":
		return refuse(CodeInvalidCommand, "begin term: term %d of replica %q: both must be given", m.GetTerm(), m.GetReplica())
	case m.GetTerm() <= last && !repeated:
		return refuse(CodeStaleTerm, "begin term: term %d of replica %q is not after term %d of replica %q",
			m.GetTerm(), m.GetReplica(), last, c.term.GetReplica())
	case c.clusterID != "" && m.GetClusterId() != "" && m.GetClusterId() != c.clusterID:
		return refuse(CodeWrongCluster, "begin term: this is cluster %q, but replica %q belongs to %q: "+
			"start the replica with an empty folder or with the settings of this cluster", c.clusterID, m.GetReplica(), m.GetClusterId())
	}
	limits := c.limits
	if m.GetLimits() != nil {
		complete, refused := completeLimits(m.GetLimits())
		if refused != nil {
			return refused
		}
		limits = complete
	}
	if !proto.Equal(limits, c.limits) {
		c.limits = limits
		for _, o := range c.order {
			c.edit(o)
			c.trimHistory(o)
		}
	}
	if c.clusterID == "" {
		c.clusterID = m.GetClusterId()
	}
	if !repeated {
		c.term = &statepb.Term{Term: m.GetTerm(), Replica: m.GetReplica(), Time: c.timestamp()}
		c.emit(TermBegan{Term: m.GetTerm(), Replica: scheduling.ReplicaID(m.GetReplica())})
	}
	c.trimArchive()
	memoryChange{c}.trimProfiles()
	return nil
}

// MaxTakings bounds the takings that a PreemptionAge holds.
const MaxTakings = 10000

// checkSuccession returns what is wrong with clocks and an age, or nil.
func checkSuccession(clocks []*statepb.StarvationClock, age *statepb.PreemptionAge) error {
	var b breach
	for _, k := range clocks {
		b.when((k.GetPoolId() == 0) == (k.GetOperationId() == ""), "clock of pool %d and operation %q: exactly one of them must be set", k.GetPoolId(), k.GetOperationId())
		if k.GetStarvation() != "" {
			_, err := preemption.ParseStarvation(k.GetStarvation())
			b.add(err)
		}
	}
	n := len(age.GetTakings())
	b.when(n > MaxTakings, "%d takings, the limit is %d", n, MaxTakings)
	return b.err
}

// clocksNow merges changed clocks into the clocks of a tree. It drops clocks that are not running,
// and those whose pool or operation is gone. The result is sorted by id, pools first.
func (c *change) clocksNow(t *tree, changed []*statepb.StarvationClock) []*statepb.StarvationClock {
	was := t.record.GetClocks()
	if len(was)+len(changed) == 0 {
		return nil
	}
	all := append(slices.Clone(changed), was...)
	slices.SortStableFunc(all, func(a, b *statepb.StarvationClock) int {
		return cmp.Or(cmp.Compare(a.GetOperationId(), b.GetOperationId()), cmp.Compare(a.GetPoolId(), b.GetPoolId()))
	})
	all = slices.CompactFunc(all, func(a, b *statepb.StarvationClock) bool {
		return a.GetOperationId() == b.GetOperationId() && a.GetPoolId() == b.GetPoolId()
	})
	return slices.DeleteFunc(all, func(k *statepb.StarvationClock) bool {
		stopped := k.GetBelowSince() == nil && k.GetBelowMinShareSince() == nil
		return stopped || !t.hasPool(k.GetPoolId()) && !c.runsIn(k.GetOperationId(), scheduling.TreeName(t.record.GetName()))
	})
}

// runsIn reports whether an operation is in progress and belongs to a tree.
func (c *change) runsIn(id string, tree scheduling.TreeName) bool {
	o := c.operations[scheduling.OperationID(id)]
	return o != nil && o.state.InProgress() && o.treeIndex(tree) >= 0
}

// ageNow returns the age in a command, or the previous one if the command has none. It returns nil
// if the age in the command has no takings.
func ageNow(was, told *statepb.PreemptionAge) *statepb.PreemptionAge {
	switch {
	case told == nil:
		return was
	case len(told.GetTakings()) == 0:
		return nil
	}
	return told
}
