package actors

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/signal"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// overheard is what a replica has gossiped about jobs that leave.
type overheard struct {
	Gossip
	mu   sync.Mutex
	said []*actorpb.InterruptionSignal
}

func (o *overheard) Broadcast(topic, key string, payload []byte) error {
	if topic == signal.Topic {
		s := &actorpb.InterruptionSignal{}
		if err := proto.Unmarshal(payload, s); err != nil {
			return err
		}
		o.mu.Lock()
		o.said = append(o.said, s)
		o.mu.Unlock()
	}
	return o.Gossip.Broadcast(topic, key, payload)
}

// of returns what was said of a job, a word a time.
func (o *overheard) of(job string) (words []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.said {
		switch {
		case s.GetJobId() != job || s.GetGone():
		case s.GetProposed():
			words = append(words, "proposed")
		case s.GetWithdrawn():
			words = append(words, "withdrawn")
		default:
			words = append(words, "leaves")
		}
	}
	return words
}

// drains reports whether a replica tells the jobs of an operation to be on their way out.
func (r *testReplica) drains(operation string, want bool) bool {
	instances := r.instancesOf(operation).GetInstances()
	return len(instances) > 0 && !slices.ContainsFunc(instances, func(in *actorpb.Instance) bool {
		return (in.GetState() == actorpb.InstanceDraining) != want
	})
}

func interrupt(operation, job string) *commandpb.StopJobs {
	return &commandpb.StopJobs{OperationId: operation, JobIds: []string{job}, Order: &statepb.StopOrder{
		Reason: "user_request", GraceMillis: 60_000, Time: timestamppb.Now(), Interruption: statepb.InterruptedByUser,
	}}
}

// TestOrdersAreToldAhead (I4, D2) cuts the leader off from the log of all others, and has it
// interrupt a job. One replica hears of it by gossip all the same; one whose gossip is cut does
// not. What never comes to be committed is forgotten.
func TestOrdersAreToldAhead(t *testing.T) {
	t.Parallel()
	taps := map[string]*wiretap{}
	c := startCluster(t, 3, func(cfg *Config) {
		taps[cfg.ID] = &wiretap{Gossip: cfg.Gossip}
		cfg.Gossip = taps[cfg.ID]
	})
	leader := c.leader()
	var others []*testReplica
	for _, r := range c.replicas {
		if r != leader {
			others = append(others, r)
		}
	}
	hearing, deaf := others[0], others[1]
	startAgent(t, c, "n1")
	operation := c.controlledBy(hearing, "service")
	leader.interruptible(t, operation, 1)
	for _, r := range c.replicas {
		eventually(t, r.id+" has the job", func() bool { return len(r.jobsOf(operation)) == 1 })
	}
	job := leader.jobsOf(operation)[0]

	taps[deaf.id].cut.Store(true)
	leader.cable.sever()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = leader.Propose(ctx, interrupt(operation, job))
	}()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, hearing.id+" hears that the job is to leave", func() bool { return hearing.drains(operation, true) })
	for _, r := range c.replicas {
		if len(r.stops(operation)) > 0 {
			t.Errorf("%s has an order that cannot have been committed: %v", r.id, r.stops(operation))
		}
	}
	if !deaf.drains(operation, false) {
		t.Errorf("without gossip %s has heard of an order that is not in the log", deaf.id)
	}
	eventually(t, hearing.id+" has forgotten what was not committed", func() bool { return hearing.drains(operation, false) })
}

// TestOrdersAreTakenBack has orders refused, and committed, that were told ahead.
func TestOrdersAreTakenBack(t *testing.T) {
	t.Parallel()
	taps := map[string]*overheard{}
	c := startCluster(t, 3, func(cfg *Config) {
		taps[cfg.ID] = &overheard{Gossip: cfg.Gossip}
		cfg.Gossip = taps[cfg.ID]
	})
	leader, other := c.leader(), c.follower()
	startAgent(t, c, "n1")
	operation := c.controlledBy(leader, "service")
	leader.interruptible(t, operation, 1)
	eventually(t, "the job is there", func() bool { return len(leader.jobsOf(operation)) == 1 && len(other.jobsOf(operation)) == 1 })
	job := leader.jobsOf(operation)[0]
	tap := taps[leader.id]

	late := other.propose(t, &commandpb.PreemptAllocations{Term: 0, Preemptions: []*commandpb.Preemption{{JobId: job, Order: &statepb.StopOrder{
		Reason: "preemption", GraceMillis: 60_000, Interruption: statepb.InterruptedByPreemption, Preemption: "preemption",
	}}}})
	if late.GetRefusal() == nil {
		t.Fatal("a preemption of another term was carried out")
	}
	eventually(t, "it was told ahead and taken back", func() bool { return len(tap.of(job)) == 2 })
	if said := tap.of(job); said[0] != "proposed" || said[1] != "withdrawn" {
		t.Errorf("%v was said of a job whose order was refused", said)
	}
	for _, r := range c.replicas {
		eventually(t, r.id+" tells that the job stays", func() bool { return r.drains(operation, false) })
	}

	if refusal := other.propose(t, interrupt(operation, job)).GetRefusal(); refusal != nil {
		t.Fatal(refusal)
	}
	for _, r := range c.replicas {
		eventually(t, r.id+" tells that the job leaves", func() bool { return r.drains(operation, true) })
	}
	if said := tap.of(job); len(said) < 3 || said[2] != "proposed" {
		t.Errorf("%v was said of a job whose order was committed", said)
	}
}
