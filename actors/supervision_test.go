package actors

import (
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// clumsy fails when it is told to, and tells of its lives and of what it gets.
type clumsy struct {
	life *life
	tell chan any
}

func (c *clumsy) Receive(ctx actor.Context) {
	switch m := c.life.of(ctx.Message()).(type) {
	case *actor.Started:
		c.tell <- c.life
	case string:
		if m == "fail" {
			panic("told to")
		}
		c.tell <- m
	}
}

func TestAnActorThatFailsStartsAgainAndHearsNothingOfItsFormerLife(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	tell := make(chan any, 100)
	pid := system.Root.Spawn(supervised(log, func() actor.Actor { return &clumsy{new(life), tell} }, true))
	defer system.Root.Poison(pid)
	first := (<-tell).(*life)
	// More failures in a row than protoactor's own supervisor forgives.
	for range 12 {
		system.Root.Send(pid, "fail")
	}
	system.Root.Send(pid, owned{first, "old"})
	system.Root.Send(pid, "new")
	lives := map[*life]bool{first: true}
	deadline := time.After(within)
	for {
		select {
		case said := <-tell:
			switch m := said.(type) {
			case *life:
				lives[m] = true
			case string:
				if m != "new" || len(lives) != 13 {
					t.Errorf("heard %q after %d lives, want new after 13", m, len(lives))
				}
				return
			}
		case <-deadline:
			t.Fatalf("after %d lives: it was given up", len(lives))
		}
	}
}
