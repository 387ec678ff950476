package fleet

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// controllers answer the jobs of a node, and are in one place.
type controllers struct {
	agent.Replicas
	// news holds a token after a job has ended.
	news chan struct{}

	mu sync.Mutex
	// first are what the first questions are answered instead: a code, moved or nobody.
	first []string
	ended map[string]string
	twice []string
}

// newControllers returns controllers that answer the first questions with what is given.
func newControllers(first []string) *controllers {
	return &controllers{first: first, ended: map[string]string{}, news: make(chan struct{}, 1)}
}

// Ask implements agent.Replicas.
func (c *controllers) Ask(_ agent.Replica, question proto.Message, _ time.Duration, done func(proto.Message, error)) {
	go done(c.answer(question), nil)
}

func (c *controllers) answer(question proto.Message) proto.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.first) > 0 {
		first := c.first[0]
		c.first = c.first[1:]
		switch first {
		case "moved":
			return &actorpb.Redirect{}
		case "nobody":
			return &actorpb.ControllerFound{}
		}
		return &actorpb.Refused{Code: first}
	}
	switch m := question.(type) {
	case *actorpb.FindController:
		return &actorpb.ControllerFound{Controller: &actorpb.Replica{Id: "r2", Address: "127.0.0.1:2"}}
	case *actorpb.JobEnded:
		if id := m.GetJob().GetJobId(); c.ended[id] != "" {
			c.twice = append(c.twice, id)
		} else {
			c.ended[id] = m.GetJob().GetState()
		}
		select {
		case c.news <- struct{}{}:
		default:
		}
		return &actorpb.JobEndedAck{}
	}
	return &actorpb.JobSpec{}
}

// await waits until jobs have ended as they are to.
func (c *controllers) await(t *testing.T, want map[string]string) {
	t.Helper()
	for {
		c.mu.Lock()
		ended, twice := maps.Clone(c.ended), c.twice
		c.mu.Unlock()
		switch {
		case len(twice) > 0:
			t.Fatalf("jobs that have ended twice: %v", twice)
		case maps.Equal(ended, want):
			return
		case len(ended) > len(want):
			t.Fatalf("jobs have ended as %v, want %v", ended, want)
		}
		<-c.news
	}
}

// life is that of the nodes of fleetOf.
const life = 7

// fleetOf returns a fleet with a node, which asks controllers.
func fleetOf(c *controllers, lasts func() time.Duration) (*Fleet, *node) {
	f := &Fleet{cfg: Config{Lasts: lasts, Replicas: []agent.Replica{{ID: "r1"}, {ID: "r2"}}}, started: newTally(nil), asks: 4, ctx: context.Background()}
	n := &node{fleet: f, name: "n", life: life, peers: c, jobs: map[string]*job{}, urgent: make(chan struct{}, 1)}
	f.nodes = []*node{n}
	return f, n
}

// TestJobsOfANode has jobs that ask controllers which move, are overloaded, or do not want them.
func TestJobsOfANode(t *testing.T) {
	day := func() time.Duration { return 24 * time.Hour }
	at := func() time.Duration { return 0 }
	abort := &actorpb.NodePlan{Token: &actorpb.Token{Term: 1}, Abort: []*actorpb.AbortJob{{JobId: "a", Reason: "preemption"}}}
	for name, test := range map[string]struct {
		lasts func() time.Duration
		plans []*actorpb.NodePlan
		// first are what the first questions are answered.
		first []string
		want  map[string]string
		left  int
	}{
		"jobs that end at once":               {at, []*actorpb.NodePlan{planOf(1, "a", "b", "c", "d", "e", "f")}, nil, map[string]string{"a": "completed", "b": "completed", "c": "completed", "d": "completed", "e": "completed", "f": "completed"}, 0},
		"the controller is overloaded":        {at, []*actorpb.NodePlan{planOf(1, "a")}, []string{actorpb.CodeOverloaded, actorpb.CodeOverloaded}, map[string]string{"a": "completed"}, 0},
		"the controller has moved":            {at, []*actorpb.NodePlan{planOf(1, "a")}, []string{"moved"}, map[string]string{"a": "completed"}, 0},
		"nobody wants it":                     {at, []*actorpb.NodePlan{planOf(1, "a")}, []string{"moved", "nobody"}, nil, 0},
		"one that is told to leave":           {day, []*actorpb.NodePlan{planOf(1, "a", "b"), abort}, nil, map[string]string{"a": "aborted"}, 1},
		"told before it has its spec":         {day, []*actorpb.NodePlan{planOf(1, "a"), abort}, []string{actorpb.CodeOverloaded}, map[string]string{"a": "aborted"}, 0},
		"told twice":                          {day, []*actorpb.NodePlan{planOf(1, "a"), abort, abort}, nil, map[string]string{"a": "aborted"}, 0},
		"a plan of a former leader":           {at, []*actorpb.NodePlan{planOf(2, "a"), planOf(1, "b")}, nil, map[string]string{"a": "completed"}, 0},
		"a delayed plan":                      {at, []*actorpb.NodePlan{planOf(1, "a"), planOf(1, "a")}, nil, map[string]string{"a": "completed"}, 0},
		"jobs that end when they are told to": {nil, []*actorpb.NodePlan{planOf(1, "a", "b"), abort}, nil, map[string]string{"a": "aborted"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newControllers(test.first)
			_, n := fleetOf(c, test.lasts)
			for _, plan := range test.plans {
				n.plan(plan)
			}
			c.await(t, test.want)
			for len(n.held()) != test.left {
				<-n.urgent
			}
		})
	}
}

// planOf is a plan of a term that starts jobs.
func planOf(term uint64, jobs ...string) *actorpb.NodePlan {
	plan := &actorpb.NodePlan{Token: &actorpb.Token{Term: term}}
	for _, id := range jobs {
		plan.Start = append(plan.Start, &actorpb.StartJob{
			JobId: id, OperationId: "o", NodeIncarnation: life, Controller: &actorpb.Replica{Id: "r1", Address: "127.0.0.1:1"}, Resources: &statepb.Resources{},
		})
	}
	return plan
}

// TestSmallFleetsAskMore at once, for each node.
func TestSmallFleetsAskMore(t *testing.T) {
	for nodes, want := range map[int]int{1: 2000, 20: 100, 500: 4, 10_000: 4} {
		if got := askedAtOnce(nodes); got != want {
			t.Errorf("%d nodes: %d jobs of each, want %d", nodes, got, want)
		}
	}
}
