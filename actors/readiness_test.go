package actors

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cluster/gossip"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// wiretap is a replica's gossip, which can be cut: then it neither says nor hears anything.
type wiretap struct {
	Gossip
	cut atomic.Bool
}

func (w *wiretap) Broadcast(topic, key string, payload []byte) error {
	if w.cut.Load() {
		return nil
	}
	return w.Gossip.Broadcast(topic, key, payload)
}

func (w *wiretap) Handle(topic string, handler gossip.Handler) {
	unlessCut := func(hear func([]byte)) func([]byte) {
		return func(payload []byte) {
			if !w.cut.Load() {
				hear(payload)
			}
		}
	}
	handler.Receive, handler.Merge = unlessCut(handler.Receive), unlessCut(handler.Merge)
	w.Gossip.Handle(topic, handler)
}

// TestWordsComeByGossip (I4, D2) has instances say whether they take requests. Every replica
// knows it, though it is in no log; one whose gossip is cut does not, while it follows the
// log as all others do, and does when it is joined again.
func TestWordsComeByGossip(t *testing.T) {
	t.Parallel()
	taps := map[string]*wiretap{}
	c := startCluster(t, 5, func(cfg *Config) {
		taps[cfg.ID] = &wiretap{Gossip: cfg.Gossip}
		cfg.Gossip = taps[cfg.ID]
	})
	leader, other := c.leader(), c.follower()
	a := startAgent(t, c, "n1")
	service := c.controlledBy(leader, "service")
	proposeService(t, leader, service)
	number := uint64(0)
	say := func(job *actorpb.Instance, word string) {
		t.Helper()
		number++
		told := &actorpb.TellWord{Node: "n1", Word: &actorpb.InstanceWord{OperationId: service, JobId: job.GetJobId(), Word: word, Session: 1, Number: number}}
		if answer, err := a.ask(peerOf(leader.id), told); err != nil || answer.(*actorpb.WordHeard).GetJobId() != job.GetJobId() {
			t.Fatalf("%s was answered by %v, %v", word, answer, err)
		}
	}
	sees := func(r *testReplica, want ...bool) bool {
		seen := r.instancesOf(service).GetInstances()
		if len(seen) != len(want) {
			return false
		}
		for i, in := range seen {
			if in.GetReady() != want[i] || in.GetState() != actorpb.InstanceLive {
				return false
			}
		}
		return true
	}
	everyone := func(what string, but *testReplica, want ...bool) {
		t.Helper()
		for _, r := range c.replicas {
			if r != but {
				eventually(t, fmt.Sprintf("%s sees %s", r.id, what), func() bool { return sees(r, want...) })
			}
		}
	}
	everyone("two jobs of which it has not heard", nil, false, false)
	jobs := other.instancesOf(service).GetInstances()
	index := func(r *testReplica) uint64 { return r.store.Applied() }
	before := index(leader)
	for range 20 {
		for _, job := range jobs {
			say(job, actorpb.WordReady)
		}
		everyone("both ready", nil, true, true)
		say(jobs[1], actorpb.WordNotReady)
		everyone("one of them not ready", nil, true, false)
	}
	if written := index(leader) - before; written > 30 {
		t.Errorf("%d entries were written to the log in a time of 60 words", written)
	}

	taps[other.id].cut.Store(true)
	say(jobs[0], actorpb.WordNotReady)
	everyone("none ready", other, false, false)
	leader.interruptible(t, "another", 1)
	eventually(t, "the one that is cut off knows the log", func() bool { return index(other) >= index(leader) })
	if !sees(other, true, false) {
		t.Errorf("without gossip %s has heard that the first is not ready: %v", other.id, other.instancesOf(service))
	}
	taps[other.id].cut.Store(false)
	eventually(t, "the one that was cut off hears of it", func() bool { return sees(other, false, false) })

	tellNoTruth(t, c, a, leader, service, jobs[0].GetJobId())
	if !sees(leader, false, false) {
		t.Error("a stranger was believed")
	}
}

// proposeService starts an operation of two jobs that tell whether they are ready.
func proposeService(t *testing.T, leader *testReplica, service string) {
	t.Helper()
	result := leader.propose(t, &commandpb.StartOperation{OperationId: service, User: "ann", Time: timestamppb.Now(), Spec: &statepb.OperationSpec{
		Type: "vanilla", MaxFailedJobCount: 10, Tasks: []*statepb.TaskSpec{{
			Name: "t", JobCount: 2, Shell: "work", CpuLimitHundredths: 100, MemoryLimit: 1 << 20, Readiness: &statepb.Readiness{Socket: true},
		}},
	}})
	if refusal := result.GetRefusal(); refusal != nil {
		t.Fatal(refusal.GetMessage())
	}
}

// tellNoTruth has agent a tell a word that nobody knows, and another agent tell of its job: both
// are refused.
func tellNoTruth(t *testing.T, c *testCluster, a *fakeAgent, leader *testReplica, service, job string) {
	t.Helper()
	if answer, err := a.ask(peerOf(leader.id), &actorpb.TellWord{Node: "n1", Word: &actorpb.InstanceWord{OperationId: service, JobId: job, Word: "perhaps", Number: 99}}); err != nil || !isRefused(answer) {
		t.Errorf("a word that nobody knows is answered by %v, %v", answer, err)
	}
	b := startAgent(t, c, "n2")
	eventually(t, "the other agent is connected", func() bool { return b.remote.Connected(peerOf(leader.id)) })
	// Every replica keeps it, and sends it on.
	long := &actorpb.InstanceWord{OperationId: service, JobId: job, Word: actorpb.WordNotReady, Reason: strings.Repeat("x", actorpb.MaxWordReason+1), Session: 9, Number: 99}
	if answer, err := a.ask(peerOf(leader.id), &actorpb.TellWord{Node: "n1", Word: long}); err != nil || !isRefused(answer) {
		t.Errorf("an agent tells a reason of any length: %v, %v", answer, err)
	}
	if answer, err := b.ask(peerOf(leader.id), &actorpb.TellWord{Node: "n2", Word: &actorpb.InstanceWord{OperationId: service, JobId: job, Word: actorpb.WordReady, Session: 9}}); err != nil || !isRefused(answer) {
		t.Errorf("the word of another node is answered by %v, %v", answer, err)
	}
	if answer, err := b.ask(peerOf(leader.id), &actorpb.TellWord{Node: "n1", Word: &actorpb.InstanceWord{OperationId: service, JobId: job, Word: actorpb.WordReady, Session: 9}}); err != nil || !isRefused(answer) {
		t.Errorf("a word in the name of another node is answered by %v, %v", answer, err)
	}
}

func isRefused(answer proto.Message) bool {
	_, refused := answer.(*actorpb.Refused)
	return refused
}
