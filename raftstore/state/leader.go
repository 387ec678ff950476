package state

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
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
			shelved := o.shelved != nil
			c.edit(o)
			o.measure()
			c.trimHistory(o)
			if shelved {
				putBack(c.State, o)
			}
		}
		c.judgeAccounts()
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

// raiseVersion raises the version of the cluster. It panics if this program does not know the version, as for an
// unknown command.
func raiseVersion(c *change, m *commandpb.RaiseVersion) *refusal {
	if err := versions.Program.Check(m.GetVersion()); errors.Is(err, versions.ErrNewer) {
		panic(fmt.Sprintf("apply raise version at index %d: %v", c.index, err))
	}
	if m.GetVersion() < c.version {
		return refuse(CodeInvalidCommand, "raise version: %d is less than the version of the cluster, %d: there is no way back", m.GetVersion(), c.version)
	}
	c.version = m.GetVersion()
	return nil
}

// PaceOf returns the committed pace of agents; nil if no leader has said it yet. No agent has a longer
// lease.
func PaceOf(s *State) *statepb.Pace { return s.pace }

// setPace says how often agents send heartbeats, and how long their leases last.
func (c nodeChange) setPace(m *commandpb.SetPace) *refusal {
	if !validPace(m.GetPace()) {
		return refuse(CodeInvalidCommand, "set pace: heartbeat period of %d ms, lease of %d ms: the lease must be longer than the period, and that more than 0",
			m.GetPace().GetHeartbeatMillis(), m.GetPace().GetLeaseMillis())
	}
	c.pace = m.GetPace()
	return nil
}

func validPace(p *statepb.Pace) bool {
	return p.GetHeartbeatMillis() > 0 && p.GetLeaseMillis() > p.GetHeartbeatMillis()
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

// leaderSteps are the states that AdvanceOperation can set. Other commands set the
// remaining ones, together with their cause.
var leaderSteps = map[lifecycle.State]bool{
	lifecycle.WaitingForAgent: true,
	lifecycle.Materializing:   true,
	lifecycle.Aborting:        true,
	lifecycle.Failing:         true,
	lifecycle.Completed:       true,
	lifecycle.Aborted:         true,
	lifecycle.Failed:          true,
}

// advanceOperation makes a transition of an operation that the leader decides.
func (c operationChange) advanceOperation(m *commandpb.AdvanceOperation) *refusal {
	what := fmt.Sprintf("advance operation %q to %q", m.GetOperationId(), m.GetTo())
	if err := c.fence(what, m.GetTerm()); err != nil {
		return err
	}
	to, err := lifecycle.ParseState(m.GetTo())
	if err != nil {
		return refuse(CodeInvalidCommand, "%s: %v", what, err)
	}
	o, refused := c.find(what, m.GetOperationId())
	if refused != nil {
		return refused
	}
	switch {
	case m.GetFrom() != o.record.GetState():
		return refuse(CodeInvalidOperationState, "%s: it is %s, not %q: read its state again", what, o.state, m.GetFrom())
	case !lifecycle.CanGo(o.state, to):
		return refuse(CodeInvalidOperationState, "%s: it is %s, and there is no such transition", what, o.state)
	case !leaderSteps[to]:
		return refuse(CodeInvalidCommand, "%s: only the command that reports the event makes this transition", what)
	case to == lifecycle.Failing && m.GetResult() == nil:
		return refuse(CodeInvalidCommand, "%s: the result, which says why, is missing", what)
	case to == lifecycle.Completed && o.reads() && o.record.GetOutput() == nil:
		return refuse(CodeOutputNotPublished, "%s: its controller has not published the output yet", what)
	case to.Terminal() && len(o.allocations) > 0:
		return refuse(CodeAllocationsLeft, "%s: it has %d allocations: end them first", what, len(o.allocations))
	}
	before := o.record.GetTrees()
	if to == lifecycle.Materializing {
		if refused := c.admitTrees(what, o, treesOr(m.GetTrees(), before)); refused != nil {
			return refused
		}
	}
	c.edit(o)
	if m.GetResult() != nil && to.Finishing() {
		o.record.Result = cutError(c.limits, m.GetResult(), bounds.Result)
	}
	c.advanceFrom(o, before, to, m.GetNote(), nil)
	return nil
}

// treesOr returns names, or the names of all trees if names is empty.
func treesOr(names []string, trees []*statepb.OperationTree) []string {
	if len(names) > 0 {
		return names
	}
	all := make([]string, len(trees))
	for i, t := range trees {
		all[i] = t.GetTree()
	}
	return all
}

// assignController assigns operations to replicas: all that the command names, or none.
func (c operationChange) assignController(m *commandpb.AssignController) *refusal {
	const what = "assign controller"
	named := make(map[string]bool, len(m.GetAssignments()))
	for _, a := range m.GetAssignments() {
		o, refused := c.find(what, a.GetOperationId())
		if refused != nil {
			return refused
		}
		switch {
		case named[a.GetOperationId()]:
			return refuse(CodeInvalidCommand, "%s: operation %q is named twice", what, a.GetOperationId())
		case a.GetReplica() == "":
			return refuse(CodeInvalidCommand, "%s: operation %q: no replica is named", what, a.GetOperationId())
		case !o.state.InProgress():
			return refuse(CodeInvalidOperationState, "%s: operation %q is %s and needs no controller", what, a.GetOperationId(), o.state)
		case a.GetEpoch() <= o.record.GetAssignment().GetEpoch():
			return refuse(CodeStaleEpoch, "%s: operation %q: epoch %d is not greater than the current one, %d of replica %q", what,
				a.GetOperationId(), a.GetEpoch(), o.record.GetAssignment().GetEpoch(), o.record.GetAssignment().GetReplica())
		}
		named[a.GetOperationId()] = true
	}
	for _, a := range m.GetAssignments() {
		c.assign(c.operations[scheduling.OperationID(a.GetOperationId())], a)
	}
	return nil
}

// assign assigns one operation to a replica. If the operation was waiting for a
// controller, it advances to initializing.
func (c operationChange) assign(o *operation, a *commandpb.ControllerAssignment) {
	c.edit(o)
	o.record.Assignment = &statepb.Assignment{Replica: a.GetReplica(), Epoch: a.GetEpoch()}
	attributes := map[string]string{"replica": a.GetReplica(), "epoch": fmt.Sprint(a.GetEpoch())}
	c.emit(ControllerAssigned{ID: o.id(), Replica: scheduling.ReplicaID(a.GetReplica()), Epoch: a.GetEpoch()})
	if o.state == lifecycle.WaitingForAgent {
		c.advance(o, lifecycle.Initializing, NoteControllerAssigned, attributes)
		return
	}
	c.note(o, NoteControllerAssigned, attributes)
}
