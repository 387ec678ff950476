package actors

import (
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/reconcile"
)

// clumsy fails when it is told to, and tells of its lives and of what it gets.
type clumsy struct {
	life *reconcile.Life
	tell chan any
}

func (c *clumsy) Start() { c.tell <- c.life }
func (c *clumsy) Stop()  {}

func (c *clumsy) Take(message any) bool {
	if message == "fail" {
		panic("told to")
	}
	c.tell <- message
	return true
}

func TestAnActorThatFailsStartsAgainAndHearsNothingOfItsFormerLife(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	tell := make(chan any, 100)
	pid := system.Root.Spawn(supervised(log, reconcile.Live(log, func(life *reconcile.Life) reconcile.Body { return &clumsy{life, tell} }), true))
	defer system.Root.Poison(pid)
	first := (<-tell).(*reconcile.Life)
	// More failures in a row than protoactor's own supervisor forgives.
	for range 12 {
		system.Root.Send(pid, "fail")
	}
	first.Do(func() { tell <- "old" })
	system.Root.Send(pid, "new")
	lives := map[*reconcile.Life]bool{first: true}
	deadline := time.After(within)
	for {
		select {
		case said := <-tell:
			switch m := said.(type) {
			case *reconcile.Life:
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
