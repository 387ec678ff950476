package prior

import (
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func priorOf(profile, operation string, at time.Time) *actorpb.MemoryPrior {
	return &actorpb.MemoryPrior{Profile: profile, OperationId: operation, Time: timestamppb.New(at), SampleCount: 10}
}

func TestTable(t *testing.T) {
	table := NewTable(10*time.Minute, 2)
	for _, step := range []struct {
		story    string
		prior    *actorpb.MemoryPrior
		wantNews bool
		want     string
	}{
		{"the first of a profile is news", priorOf("a", "op-2", noon), true, "op-2"},
		{"the same again is not", priorOf("a", "op-2", noon), false, "op-2"},
		{"nor is an older one", priorOf("a", "op-3", noon.Add(-time.Second)), false, "op-2"},
		{"of two of one time one counts", priorOf("a", "op-1", noon), false, "op-2"},
		{"a newer one is", priorOf("a", "op-1", noon.Add(time.Second)), true, "op-1"},
		{"what nobody remembers is not", priorOf("a", "op-4", noon.Add(-time.Hour)), false, "op-1"},
		{"a clock that is wrong does not count", priorOf("a", "op-5", noon.Add(time.Hour)), false, "op-1"},
		{"a profile without a name is none", priorOf("", "op-6", noon), false, "op-1"},
	} {
		if got := table.Add(noon, step.prior); got != step.wantNews {
			t.Errorf("%s: is news: %v", step.story, got)
		}
		if got := table.Freshest(noon, "a").GetOperationId(); got != step.want {
			t.Errorf("%s: the freshest is that of %s, want %s", step.story, got, step.want)
		}
	}
	table.Forget(noon.Add(time.Second), "a")
	table.Add(noon.Add(time.Second), priorOf("a", "op-1", noon.Add(time.Second)))
	if got := table.Freshest(noon.Add(time.Second), "a"); got != nil {
		t.Errorf("of a profile that was forgotten %v is known still", got)
	}
	if !table.Add(noon.Add(2*time.Second), priorOf("a", "op-1", noon.Add(1500*time.Millisecond))) {
		t.Error("what was learned after a profile was forgotten is no news")
	}
	table.Add(noon, priorOf("b", "op-7", noon.Add(2*time.Second)))
	table.Add(noon, priorOf("c", "op-8", noon.Add(3*time.Second)))
	if all := table.All(noon); len(all) != 2 || all[0].GetProfile() != "b" || all[1].GetProfile() != "c" {
		t.Errorf("of three profiles %v are kept, want the newer two", all)
	}
	if got := table.Freshest(noon.Add(time.Hour), "c"); got != nil {
		t.Errorf("after an hour %v is known still", got)
	}
	if all := table.All(noon.Add(time.Hour)); len(all) != 0 {
		t.Errorf("after an hour %v are known still", all)
	}
}

// wire hands what one replica says to another.
type wire struct {
	system *actor.ActorSystem
	to     *actor.PID
	sent   chan string
}

func (w *wire) Broadcast(key string, payload []byte) error {
	w.system.Root.Send(w.to, Heard{Payload: payload})
	w.sent <- key
	return nil
}

func TestReplicasHearOfEachOther(t *testing.T) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	t.Cleanup(system.Shutdown)
	spawn := func(name string, gossip hearsay.Gossip) (*Priors, *actor.PID) {
		priors := NewPriors(NewTable(time.Hour, 100), time.Now)
		pid := system.Root.Spawn(actor.PropsFromProducer(New(Config{Self: hearsay.Speaker{Replica: name, Incarnation: 3}, Gossip: gossip, Logger: slog.New(slog.DiscardHandler)}, priors)))
		t.Cleanup(func() { system.Root.Poison(pid) })
		return priors, pid
	}
	far, farPID := spawn("r2", nil)
	link := &wire{system: system, to: farPID, sent: make(chan string, 1)}
	near, nearPID := spawn("r1", link)
	system.Root.Send(nearPID, Share{Said: priorOf("sorting", "op-1", time.Now())})
	if key := <-link.sent; key != "sorting" {
		t.Errorf("sent under the key %q, want the profile", key)
	}
	late, latePID := spawn("r3", nil)
	system.Root.Send(latePID, Heard{Payload: near.LocalState(), Full: true})
	for name, priors := range map[string]*Priors{"its own": near, "the one that heard": far, "the one that joined late": late} {
		waitFor(t, name, func() bool { return priors.Freshest("sorting").GetOrigin() == "r1" })
	}
	system.Root.Send(farPID, Heard{Payload: []byte{0xff}})
	system.Root.Send(farPID, Heard{Payload: []byte{0xff}, Full: true})
	if got := far.Freshest("other"); got != nil {
		t.Errorf("of a profile that nobody told of %v is known", got)
	}
}

// waitFor waits until the condition holds, far longer than it should take.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within 2 minutes", what)
		case <-tick.C:
		}
	}
}
