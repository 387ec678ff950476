package actors

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/node"
	"weir/actors/reconcile"
	"weir/messages/actorpb"
)

func TestLooksThatWaitAreOne(t *testing.T) {
	look := reconcile.Look{}
	took, pid, let := slow(t)
	send := func(message any) { took.system.Root.Send(pid, message) }
	send(look)
	got := []any{next(t, took.messages)}
	// The actor may have seen what the first look is about, or not.
	for range 100 {
		send(look)
		send("other")
	}
	for range 101 {
		let <- struct{}{}
		got = append(got, next(t, took.messages))
	}
	if want := append([]any{look, look}, slices.Repeat([]any{"other"}, 100)...); !slices.Equal(got, want) {
		t.Errorf("took %v, want two looks and all others", got)
	}
}

// TestNewestHeartbeatWins: while an actor is busy, a heartbeat takes the place of the one that
// waits, and of nothing else.
func TestNewestHeartbeatWins(t *testing.T) {
	took, pid, let := slow(t)
	var replaced []uint64
	beat := func(sequence uint64) {
		took.system.Root.Send(pid, node.FromAgent{Message: &actorpb.Heartbeat{Sequence: sequence}, Replaced: func() { replaced = append(replaced, sequence) }})
	}
	said := func() any {
		switch m := next(t, took.messages).(type) {
		case node.FromAgent:
			if beat, ok := m.Message.(*actorpb.Heartbeat); ok {
				return beat.GetSequence()
			}
			return "registration"
		default:
			return m
		}
	}
	beat(1)
	got := []any{said()}
	beat(2)
	took.system.Root.Send(pid, node.FromAgent{Message: &actorpb.RegisterAgent{}})
	beat(3)
	beat(4)
	for range 2 {
		let <- struct{}{}
		got = append(got, said())
	}
	beat(5)
	let <- struct{}{}
	got = append(got, said())
	if want := []any{uint64(1), uint64(4), "registration", uint64(5)}; !slices.Equal(got, want) || !slices.Equal(replaced, []uint64{2, 3}) {
		t.Errorf("took %v and replaced %v, want %v, and 2 and 3 replaced", got, replaced, want)
	}
}

// taken is what an actor has taken up.
type taken struct {
	system   *actor.ActorSystem
	messages chan any
}

// slow spawns an actor that is busy with each message until it is let go on.
func slow(t *testing.T) (took taken, pid *actor.PID, let chan struct{}) {
	log := slog.New(slog.DiscardHandler)
	took.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	let, took.messages = make(chan struct{}), make(chan any, 1000)
	pid = took.system.Root.Spawn(supervised(log, func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if _, own := ctx.Message().(actor.SystemMessage); !own {
				took.messages <- ctx.Message()
				<-let
			}
		})
	}, true))
	t.Cleanup(func() {
		close(let)
		if err := took.system.Root.PoisonFuture(pid).Wait(); err != nil {
			t.Error(err)
		}
	})
	return took, pid, let
}

func next(t *testing.T, took <-chan any) any {
	t.Helper()
	select {
	case m := <-took:
		return m
	case <-time.After(within):
		t.Fatal("nothing was taken up")
		return nil
	}
}
