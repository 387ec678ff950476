package scheduler

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// Proposal is the result of a plan: commands of one log entry, and the jobs that they concern.
type Proposal struct {
	Commands []proto.Message
	// Jobs are the ids of the jobs to start. Victims are the ids of the jobs to preempt. Both are
	// in the order of the commands.
	Jobs, Victims []string
}

// Answers are the results of a proposal, in the order of its jobs. A list is nil if its command is
// not known to be committed.
type Answers struct {
	Grants      []*commandpb.GrantResult
	Preemptions []*commandpb.FinishJobResult
}

// AnswersOf reads the results of the commands of a proposal.
func AnswersOf(results []*commandpb.Result) (a Answers) {
	for _, result := range results {
		switch value := result.GetValue().(type) {
		case *commandpb.Result_StartAllocations:
			a.Grants = value.StartAllocations.GetGrants()
		case *commandpb.Result_FinishJobs:
			a.Preemptions = value.FinishJobs.GetJobs()
		}
	}
	return a
}

// Plan plans for up to n waiting nodes and returns what to propose. newID makes the ids of new
// jobs.
func (t *Tree) Plan(now time.Time, term uint64, n int, newID func() string) Proposal {
	n = min(n, len(t.nodes.queue))
	t.nodes.whole = t.nodes.whole && n == 0
	nodes := make([]scheduling.NodeID, 0, n)
	for _, id := range t.nodes.queue[:n] {
		delete(t.nodes.queued, id)
		if t.nodes.ready[id] && !t.nodes.doubted[id] {
			nodes = append(nodes, scheduling.NodeID(id))
		}
	}
	t.nodes.queue = append(t.nodes.queue[:0], t.nodes.queue[n:]...)
	plan := t.engine.Heartbeat(now, nodes)
	t.outcome = plan.Outcome
	for _, node := range plan.Unserved {
		t.nodes.enqueue(string(node))
	}
	if plan.Gathers {
		t.OfferAll()
	}
	var p Proposal
	if len(plan.Starts) > 0 {
		start := &commandpb.StartAllocations{Term: term}
		for _, s := range plan.Starts {
			id := newID()
			t.tickets[id] = s.Ticket
			p.Jobs = append(p.Jobs, id)
			start.Grants = append(start.Grants, &commandpb.Grant{
				JobId: id, OperationId: string(s.Operation), Task: string(s.Task), Node: string(s.Node),
				Tree: string(t.name), NodeIncarnation: t.nodes.incarnations[string(s.Node)], Resources: statepb.NewResources(s.Resources),
				DedicatedMemory: s.Group, AllOrNone: s.AllOrNone, ClaimTime: moment(s.Claimed),
			})
		}
		p.Commands = append(p.Commands, start)
	}
	if len(plan.Preempts) > 0 {
		preempt := &commandpb.PreemptAllocations{Term: term, Tree: string(t.name)}
		for _, victim := range plan.Preempts {
			p.Victims = append(p.Victims, string(victim.Job))
			preemption := &commandpb.Preemption{JobId: string(victim.Job), Order: stopOrder(victim, now)}
			for _, id := range victim.Rated {
				preemption.RatedPools = append(preemption.RatedPools, uint64(id))
			}
			preempt.Preemptions = append(preempt.Preemptions, preemption)
		}
		p.Commands = append(p.Commands, preempt)
	}
	return p
}

// Settle processes the answers to a proposal. Committed grants and orders to leave arrive as
// events.
func (t *Tree) Settle(p Proposal, answers Answers) error {
	for i, id := range p.Jobs {
		if answers.Grants != nil && answers.Grants[i].GetRefusal() == "" {
			continue
		}
		ticket, ok := t.tickets[id]
		if !ok {
			continue
		}
		delete(t.tickets, id)
		if answers.Grants != nil && answers.Grants[i].GetRefusal() == state.CodeNoPorts {
			node, err := t.engine.LacksPorts(ticket)
			if err != nil {
				return err
			}
			// Others may start there.
			t.nodes.enqueue(string(node))
			continue
		}
		if err := t.engine.Reject(ticket); err != nil {
			return err
		}
	}
	for i, id := range p.Victims {
		if answers.Preemptions == nil || answers.Preemptions[i].GetRefusal() != "" {
			t.engine.Stay(scheduling.JobID(id))
		}
	}
	t.settlePools()
	return nil
}
