package node

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
)

// register opens a session for an agent that may have one, once the record of its node is committed as the agent describes
// it.
func (a *nodeActor) register(m *actorpb.RegisterAgent, reply func(proto.Message)) {
	now := a.cfg.Now()
	if m.GetToken().GetTerm() > a.cfg.Term {
		// The agent would reject the orders of this leader, and jobs granted to it would never
		// start.
		a.cfg.Lead.Reply(reply, &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf(
			"register node %q: its agent has orders of term %d, but this cluster is in term %d: the agent's state folder belongs to another cluster, "+
				"or to an earlier one of the same name; move it away and restart the agent", m.GetNode(), m.GetToken().GetTerm(), a.cfg.Term)})
		return
	}
	if refused := a.session.Greet(now, m); refused != nil {
		reply(refused)
		return
	}
	if refused := tooOld(m, a.cfg.State.Version()); refused != nil {
		a.cfg.Logger.Warn("node refused", "node", m.GetNode(), "reason", refused.GetReason())
		reply(refused)
		return
	}
	if a.inFlight {
		reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "node record update in progress", RetryMillis: 50})
		return
	}
	record, granted, index := a.read()
	claimed := describe(m)
	claimed.Id = m.GetNode()
	if why := a.cfg.State.Refusal(claimed); why != "" {
		a.cfg.Logger.Warn("node refused", "node", m.GetNode(), "reason", why)
		a.cfg.Board.Refuse(&actorpb.RefusedAgent{
			Node: m.GetNode(), Host: m.GetHost(), Tags: m.GetTags(), Resources: m.GetResources(), Time: timestamppb.New(a.cfg.StateNow()),
		})
		reply(&actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("register node %q: %s", m.GetNode(), why)})
		return
	}
	if !Changed(record, m) {
		a.open(m, reply)
		a.compare(record, granted, index)
		a.offer()
		return
	}
	a.registering = reply
	command := &commandpb.RegisterNode{Term: a.cfg.Term, Node: claimed}
	a.propose(func(results []*commandpb.Result, err error) {
		a.registering = nil
		switch {
		case err != nil:
			reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: err.Error(), RetryMillis: a.cfg.RetryAfter.Milliseconds()})
		case results[0].GetRefusal() != nil:
			reply(unregistered(results[0].GetRefusal(), a.cfg.RetryAfter))
		default:
			a.cfg.Logger.Info("node registered", "node", m.GetNode(), "incarnation", m.GetIncarnation(), "resources", m.GetResources().Amounts())
			a.fresh = true
			a.open(m, reply)
			a.look()
			a.offer()
		}
	}, command)
}

// open begins the agent's session, after its registration was committed.
func (a *nodeActor) open(m *actorpb.RegisterAgent, reply func(proto.Message)) {
	a.session.Open(a.cfg.Now(), m)
	a.cfg.Board.Heard(a.cfg.ID, a.session.heard, a.session.Expires())
	a.armExpiry()
	a.cfg.Lead.Reply(reply, &actorpb.AgentRegistered{
		Term:            a.cfg.Term,
		Leader:          a.cfg.Leader,
		LeaseMillis:     a.session.Pace().Lease.Milliseconds(),
		HeartbeatMillis: a.session.Pace().Heartbeat.Milliseconds(),
		Replicas:        a.cfg.Replicas(),
		Revocations:     a.news(m.GetRevocations()),
		TakesChanges:    true,
	})
}

// news returns the revocations if the agent keeps another version of them.
func (a *nodeActor) news(kept string) *actorpb.Revocations {
	if kept == "" {
		return nil
	}
	if now := a.cfg.Revocations(); now.GetVersion() != kept {
		return now
	}
	return nil
}
