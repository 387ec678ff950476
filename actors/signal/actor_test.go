package signal

import (
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// wire hands what one replica says to another.
type wire struct {
	system *actor.ActorSystem
	to     *actor.PID
	sent   chan string
}

func (w *wire) Broadcast(key string, payload []byte) error {
	w.system.Root.Send(w.to, hearsay.Heard{Payload: payload})
	w.sent <- key
	return nil
}

func TestReplicasHearOfEachOther(t *testing.T) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	spawn := func(name string, gossip hearsay.Gossip) (*Signals, *actor.PID) {
		signals := NewSignals(time.Hour, 100, time.Now)
		cfg := hearsay.Config[*actorpb.InterruptionSignal]{
			Self: hearsay.Speaker{Replica: name}, Gossip: gossip, News: func(*actorpb.InterruptionSignal) {}, ExpireEvery: time.Hour, Logger: slog.New(slog.DiscardHandler),
		}
		pid := system.Root.Spawn(actor.PropsFromProducer(hearsay.New(cfg, signals.Known)))
		t.Cleanup(func() { system.Root.Poison(pid) })
		return signals, pid
	}
	far, farPID := spawn("r2", nil)
	link := &wire{system: system, to: farPID, sent: make(chan string, 1)}
	near, nearPID := spawn("r1", link)
	system.Root.Send(nearPID, Interrupt{Said: &actorpb.InterruptionSignal{JobId: "j", Reason: "preemption"}})
	if key := <-link.sent; key != "j" {
		t.Errorf("sent under the key %q, want the job's id", key)
	}
	late, latePID := spawn("r3", nil)
	system.Root.Send(latePID, hearsay.Heard{Payload: near.LocalState(), Full: true})
	for name, signals := range map[string]*Signals{"its own": near, "the one that heard": far, "the one that joined late": late} {
		waitFor(t, name, func() bool { return signals.Stopping("j") == "preemption" })
	}
	if got := near.Stopping("other"); got != "" {
		t.Errorf("a job that nobody told of is stopping: %q", got)
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
