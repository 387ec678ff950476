package actors

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/raftstore"
	"weir/raftstore/command"
)

// What the leader refuses means the same to whoever asked, wherever the leader is.
func TestRefusalsOfALeaderElsewhere(t *testing.T) {
	r := &Replica{cfg: Config{ID: "r1"}}
	for name, refusal := range map[string]error{
		"overloaded": raftstore.ErrOverloaded, "outcome unknown": raftstore.ErrOutcomeUnknown,
	} {
		t.Run(name, func(t *testing.T) {
			here := fromStore(fmt.Errorf("propose: %w", refusal))
			_, there := expect[*actorpb.Proposed](asRefused(r, here))
			for where, err := range map[string]error{"here": here, "there": there} {
				if !errors.Is(err, refusal) {
					t.Errorf("%s: got %v, want it to be %v", where, err, refusal)
				}
			}
		})
	}
}

// TestOutcomesComeLater proposes what is no command. The outcome waits for the
// proposer, as one would that is sent to an actor with a full mailbox.
func TestOutcomesComeLater(t *testing.T) {
	type proposer interface {
		ProposeAsync([]proto.Message, func([]*commandpb.Result, error))
	}
	for name, logOf := range map[string]func(context.Context) proposer{
		"of the leader's actors": func(ctx context.Context) proposer { return &termLog{ctx: ctx} },
		"of controllers": func(ctx context.Context) proposer {
			return &anyLog{ctx: ctx, replica: &Replica{}, patience: time.Second}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				proposed, outcome := make(chan struct{}), make(chan error, 1)
				logOf(t.Context()).ProposeAsync([]proto.Message{&commandpb.Result{}}, func(_ []*commandpb.Result, err error) {
					<-proposed
					outcome <- err
				})
				close(proposed)
				if err := <-outcome; !errors.Is(err, command.ErrUnknownKind) {
					t.Errorf("got %v, want %v", err, command.ErrUnknownKind)
				}
			})
		})
	}
}
