package actors

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/controller"
	"weir/actors/node"
	"weir/actors/reconcile"
)

func TestLooksThatWaitAreOne(t *testing.T) {
	for name, look := range map[string]any{
		"at an operation or a pool": reconcile.Look{}, "at a node": node.Look{}, "of a controller": controller.Look{},
	} {
		t.Run(name, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
			let, took := make(chan struct{}), make(chan any, 1000)
			pid := system.Root.Spawn(supervised(log, func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if _, own := ctx.Message().(actor.SystemMessage); !own {
						took <- ctx.Message()
						<-let
					}
				})
			}, true))
			defer func() {
				close(let)
				if err := system.Root.PoisonFuture(pid).Wait(); err != nil {
					t.Error(err)
				}
			}()
			system.Root.Send(pid, look)
			got := []any{next(t, took)}
			// The actor may have seen what the first look is about, or not.
			for range 100 {
				system.Root.Send(pid, look)
				system.Root.Send(pid, "other")
			}
			for range 101 {
				let <- struct{}{}
				got = append(got, next(t, took))
			}
			if want := append([]any{look, look}, slices.Repeat([]any{"other"}, 100)...); !slices.Equal(got, want) {
				t.Errorf("took %v, want two looks and all others", got)
			}
		})
	}
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
