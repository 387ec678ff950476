package actors

import (
	"errors"
	"fmt"
	"testing"

	"weir/messages/actorpb"
	"weir/raftstore"
)

// What the leader refuses means the same to whoever asked, wherever the leader is.
func TestRefusalsOfALeaderElsewhere(t *testing.T) {
	d := &desk{r: &Replica{cfg: Config{ID: "r1"}}}
	for name, refusal := range map[string]error{
		"overloaded": raftstore.ErrOverloaded, "outcome unknown": raftstore.ErrOutcomeUnknown,
	} {
		t.Run(name, func(t *testing.T) {
			here := fromStore(fmt.Errorf("propose: %w", refusal))
			_, there := expect[*actorpb.Proposed](d.refuse(here))
			for where, err := range map[string]error{"here": here, "there": there} {
				if !errors.Is(err, refusal) {
					t.Errorf("%s: got %v, want it to be %v", where, err, refusal)
				}
			}
		})
	}
}
