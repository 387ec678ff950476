package scheduler

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// Proposal is what a plan comes to: commands of one log entry, and what they are
// about.
type Proposal struct {
	Commands []proto.Message
	// Jobs are to start, Victims to go; each in the order of the commands.
	Jobs, Victims []string
}

// Answers are what the state says to a proposal, in its order. Those of what was not
// committed, as far as is known, are nil.
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

// Plan looks at up to n nodes and returns what to propose for them. newID makes
// the ids of new jobs.
func (t *Tree) Plan(now time.Time, term uint64, n int, newID func() string) Proposal {
	n = min(n, len(t.nodes.queue))
	nodes := make([]scheduling.NodeID, 0, n)
	for _, id := range t.nodes.queue[:n] {
		delete(t.nodes.queued, id)
		if t.nodes.ready[id] {
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
		start := &commandpb.StartAllocations{Term: term, Time: timestamppb.New(now)}
		for _, s := range plan.Starts {
			id := newID()
			t.tickets[id] = s.Ticket
			p.Jobs = append(p.Jobs, id)
			grant := &commandpb.Grant{
				JobId: id, OperationId: string(s.Operation), Task: string(s.Task), Node: string(s.Node),
				Tree: string(t.name), NodeIncarnation: t.nodes.incarnations[string(s.Node)], Resources: statepb.NewResources(s.Resources),
				DedicatedMemory: s.Group, AllOrNone: s.AllOrNone,
			}
			if !s.Claimed.IsZero() {
				grant.ClaimTime = timestamppb.New(s.Claimed)
			}
			start.Grants = append(start.Grants, grant)
		}
		p.Commands = append(p.Commands, start)
	}
	if len(plan.Preempts) > 0 {
		preempt := &commandpb.PreemptAllocations{Term: term, Time: timestamppb.New(now), Tree: string(t.name)}
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

// Settle takes the answers to a proposal. What was granted, and who was ordered to go,
// comes as an event.
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
