package gateway

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/cluster/identity"
	"weir/messages/actorpb"
)

func of(role identity.Role, name string) identity.Identity {
	return identity.Identity{Cluster: "c", Role: role, Name: name}
}

func TestWhoMaySayWhat(t *testing.T) {
	agent, replica := of(identity.Agent, "n1"), of(identity.Replica, "r1")
	tests := map[string]struct {
		from identity.Identity
		msg  proto.Message
		want string
	}{
		"an agent registers its node":               {agent, &actorpb.RegisterAgent{Node: "n1"}, ""},
		"an agent registers another node":           {agent, &actorpb.RegisterAgent{Node: "n2"}, `cannot act for node "n2"`},
		"an agent beats for another node":           {agent, &actorpb.Heartbeat{Node: "n2"}, `cannot act for node "n2"`},
		"an agent asks for another node's job":      {agent, &actorpb.JobSpecRequest{Node: "n2"}, `cannot act for node "n2"`},
		"an agent ends another node's job":          {agent, &actorpb.JobEnded{Node: "n2"}, `cannot act for node "n2"`},
		"an agent speaks for nobody":                {agent, &actorpb.Heartbeat{}, `cannot act for node ""`},
		"an agent looks for a controller":           {agent, &actorpb.FindController{OperationId: "op"}, ""},
		"an agent asks who a job's peers are":       {agent, &actorpb.InstancesRequest{OperationId: "op"}, ""},
		"a replica asks as an agent does":           {replica, &actorpb.InstancesRequest{OperationId: "op"}, "not for replicas"},
		"an agent proposes commands":                {agent, &actorpb.Propose{}, "not for agents"},
		"an agent reads another agent's output":     {agent, &actorpb.ReadOutput{}, "not for agents"},
		"an agent runs a command in a job":          {agent, &actorpb.Exec{Node: "n1"}, "not for agents"},
		"a replica proposes commands":               {replica, &actorpb.Propose{}, ""},
		"a replica asks for a read index":           {replica, &actorpb.ReadIndexRequest{}, ""},
		"a replica asks what pools were":            {replica, &actorpb.PoolHistoryRequest{}, ""},
		"a replica asks what the scheduler sees":    {replica, &actorpb.SchedulerViewRequest{}, ""},
		"a replica speaks for an agent":             {replica, &actorpb.Heartbeat{Node: "n1"}, "not for replicas"},
		"a client has no business with actors":      {of(identity.User, "ann"), &actorpb.Propose{}, "can only use the API"},
		"an operator has no business with actors":   {of(identity.Operator, "ops"), &actorpb.ReadIndexRequest{}, "can only use the API"},
		"an agent sends what only leaders send":     {agent, &actorpb.NodePlan{}, "not for agents"},
		"a replica sends what only leaders send":    {replica, &actorpb.NodePlan{}, "not for replicas"},
		"a peer without a role is sent away gently": {identity.Identity{}, &actorpb.Heartbeat{}, "can only use the API"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused := NewDoorkeeper(DefaultLimits()).Enter(test.from, test.msg)
			if test.want == "" {
				if refused != nil {
					t.Errorf("refused: %s", refused.GetReason())
				}
				return
			}
			if refused.GetCode() != "wrong_identity" || !strings.Contains(refused.GetReason(), test.want) {
				t.Errorf("got %q %q, want wrong_identity with %q", refused.GetCode(), refused.GetReason(), test.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	door := NewDoorkeeper(Limits{InFlight: 3, AgentInFlight: 2, Waiting: 2, AgentWaiting: 1, RetryMillis: 7})
	enter := func(node string) string {
		return door.Enter(of(identity.Agent, node), &actorpb.Heartbeat{Node: node}).GetReason()
	}
	steps := []struct {
		story, node string
		leave       bool
		want        string
	}{
		{"one of n1", "n1", false, ""},
		{"two of n1", "n1", false, ""},
		{"three of n1 are too many of one agent", "n1", false, "limit of one agent"},
		{"n2 is not held back by n1", "n2", false, ""},
		{"four are too many of all", "n3", false, "limit of a replica"},
		{"an answer makes room", "n1", true, ""},
		{"for another", "n3", false, ""},
		{"and no more", "n3", false, "limit of a replica"},
	}
	for _, step := range steps {
		if step.leave {
			door.Leave(of(identity.Agent, step.node), &actorpb.Heartbeat{})
			continue
		}
		if got := enter(step.node); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: got %q, want %q", step.story, got, step.want)
		}
	}
	if door.InFlight() != 3 {
		t.Errorf("%d in flight, want 3", door.InFlight())
	}
	// Whoever keeps a lease takes the place of those only who do.
	ask := func(node string) string {
		return door.Enter(of(identity.Agent, node), &actorpb.JobSpecRequest{Node: node}).GetReason()
	}
	for _, step := range []struct{ node, want string }{{"n1", ""}, {"n1", ""}, {"n1", "limit of one agent"}, {"n2", ""}, {"n3", "limit of a replica"}} {
		if got := ask(step.node); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s asks for a spec: got %q, want %q", step.node, got, step.want)
		}
	}
	door.Leave(of(identity.Agent, "n3"), &actorpb.Heartbeat{})
	if got := enter("n3"); got != "" {
		t.Errorf("a heartbeat beside as many requests as there may be: %s", got)
	}
	// Replicas have places of their own.
	for i, want := range []string{"", "", "", "limit of a replica"} {
		if got := door.Enter(of(identity.Replica, "r2"), &actorpb.Propose{}).GetReason(); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("proposal %d of a replica: got %q, want %q", i+1, got, want)
		}
	}
	for range 3 {
		door.Leave(of(identity.Replica, "r2"), &actorpb.Propose{})
	}
	for _, node := range []string{"n1", "n1", "n2"} {
		door.Leave(of(identity.Agent, node), &actorpb.JobSpecRequest{})
	}
	// Who waits for news takes nobody's place.
	wait := func(node string) string {
		return door.Enter(of(identity.Agent, node), &actorpb.InstancesRequest{}).GetReason()
	}
	for _, step := range []struct{ node, want string }{{"n1", ""}, {"n1", "limit of one agent"}, {"n2", ""}, {"n3", "limit of a replica"}} {
		if got := wait(step.node); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s waits for news: got %q, want %q", step.node, got, step.want)
		}
	}
	door.Leave(of(identity.Agent, "n1"), &actorpb.InstancesRequest{})
	if got := wait("n1"); got != "" || door.InFlight() != 3 {
		t.Errorf("after an answer: got %q with %d in flight, want room and 3", got, door.InFlight())
	}
}
