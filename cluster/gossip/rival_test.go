package gossip_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"weir/cluster/gossip"
	"weir/cluster/wire"
)

// startLife starts one life of a replica.
func startLife(t *testing.T, profile gossip.Profile, id string, incarnation uint64, peers ...*wire.Mux) *replica {
	t.Helper()
	return start(t, open(t, wire.Insecure{}, "127.0.0.1:0"), wire.Insecure{}, id, func(config *gossip.Config) {
		joining(peers...)(config)
		config.Profile = profile
		config.Self.Incarnation = incarnation
		if profile == gossip.Local {
			config.Wait(deadline)
		}
	})
}

// TestTwoProcessesOfOneReplica has a second process of r1 come: it must not begin,
// whether it meets the first one itself or hears of it from r2. All of them have time to
// answer, and are not lost when the machine pauses.
func TestTwoProcessesOfOneReplica(t *testing.T) {
	first := startLife(t, gossip.Local, "r1", 1)
	other := startLife(t, gossip.Local, "r2", 1, first.mux)
	waitMembers(t, "r1 r2", first, other)
	for name, met := range map[string]*replica{"met": first, "heard of": other} {
		t.Run(name, func(t *testing.T) {
			second := startLife(t, gossip.Local, "r1", 2, met.mux)
			err := second.Alone(t.Context())
			if !errors.Is(err, gossip.ErrRival) || !strings.Contains(err.Error(), first.mux.Addr().String()) {
				t.Errorf("got %v, want ErrRival that names %s", err, first.mux.Addr().String())
			}
			// Its farewell would be taken for that of the first.
			if err := second.Leave(deadline); err != nil {
				t.Error(err)
			}
			second.stop()
			if other.ids() != "r1 r2" {
				t.Errorf("r2 sees %s", other.ids())
			}
		})
	}
}

// TestReplicaThatMoves starts a replica elsewhere before the others know that it was
// gone.
func TestReplicaThatMoves(t *testing.T) {
	before := startLife(t, gossip.Fast, "r1", 1)
	other := startLife(t, gossip.Fast, "r2", 1, before.mux)
	waitMembers(t, "r1 r2", before, other)
	before.stop()
	after := startLife(t, gossip.Fast, "r1", 2, other.mux)
	if err := after.Alone(t.Context()); err != nil {
		t.Error(err)
	}
	waitMembers(t, "r1 r2", after, other)
}

// TestRivalsThatMeetLate connects two processes of a replica after both have begun:
// the later one gives way, whichever of them the others hear of first.
func TestRivalsThatMeetLate(t *testing.T) {
	for name, laterIsKnown := range map[string]bool{"the first one is known": false, "the later one is known": true} {
		t.Run(name, func(t *testing.T) {
			first, second := startLife(t, gossip.Fast, "r1", 1), startLife(t, gossip.Fast, "r1", 2)
			for _, r := range []*replica{first, second} {
				if err := r.Alone(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			kept := make(chan error, 1)
			go func() { kept <- first.AwaitRival(ctx) }()
			known, met := first, second
			if laterIsKnown {
				known, met = second, first
			}
			// It knows one of the two when it meets the other.
			other := startLife(t, gossip.Fast, "r2", 1, known.mux)
			waitMembers(t, "r1 r2", known, other)
			startLife(t, gossip.Fast, "r3", 1, met.mux, other.mux)
			if err := second.AwaitRival(t.Context()); !errors.Is(err, gossip.ErrRival) {
				t.Errorf("the later one: got %v, want ErrRival", err)
			}
			cancel()
			if err := <-kept; err != nil {
				t.Errorf("the first one: %v", err)
			}
		})
	}
}
