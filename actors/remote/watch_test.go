package remote_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/remote"
)

// watcher watches and unwatches what it is told to, and passes on what ends.
type watcher struct {
	system *actor.ActorSystem
	pid    *actor.PID
	ended  chan *actor.Terminated
	ready  chan struct{}
}

type (
	watchOrder   struct{ pid *actor.PID }
	unwatchOrder struct{ pid *actor.PID }
	settled      struct{}
)

func (n *node) watcher(t testing.TB) *watcher {
	t.Helper()
	w := &watcher{system: n.system, ended: make(chan *actor.Terminated, 100), ready: make(chan struct{})}
	w.pid = n.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case watchOrder:
			ctx.Watch(m.pid)
		case unwatchOrder:
			ctx.Unwatch(m.pid)
		case settled:
			w.ready <- struct{}{}
		case *actor.Terminated:
			w.ended <- m
		}
	}))
	t.Cleanup(func() { _ = n.system.Root.PoisonFuture(w.pid).Wait() })
	return w
}

// order lets the watcher do something, and waits until it has.
func (w *watcher) order(t testing.TB, what any) {
	t.Helper()
	w.system.Root.Send(w.pid, what)
	w.settle(t)
}

// settle waits until the watcher has dealt with all that it was sent.
func (w *watcher) settle(t testing.TB) {
	t.Helper()
	w.system.Root.Send(w.pid, settled{})
	receive(t, w.ready)
}

func TestWatchEndsOnce(t *testing.T) {
	type scene struct {
		r1, n7 *node
		target *actor.PID
	}
	for name, tc := range map[string]struct {
		watch string
		end   func(*testing.T, scene)
		want  actor.TerminatedReason
	}{
		"the actor stops": {
			watch: "target",
			end: func(t *testing.T, s scene) {
				if err := s.r1.system.Root.StopFuture(s.target).Wait(); err != nil {
					t.Fatal(err)
				}
			},
			want: actor.TerminatedReason_Stopped,
		},
		"there is no such actor": {
			watch: "nobody",
			end:   func(*testing.T, scene) {},
			want:  actor.TerminatedReason_NotFound,
		},
		"the peer closes": {
			watch: "target",
			end:   func(_ *testing.T, s scene) { s.r1.Close() },
			want:  actor.TerminatedReason_AddressTerminated,
		},
		"this side disconnects": {
			watch: "target",
			end:   func(_ *testing.T, s scene) { s.n7.Disconnect(s.r1.Self()) },
			want:  actor.TerminatedReason_AddressTerminated,
		},
	} {
		t.Run(name, func(t *testing.T) {
			where := new(directory)
			r1 := start(t, where, replica("r1"), nil)
			n7 := start(t, where, agent("n7"), nil)
			s := scene{r1: r1, n7: n7, target: r1.spawn(t, "target", echo)}
			w := n7.watcher(t)
			n7.connect(t, r1)
			pid := remote.PID(r1.Self(), tc.watch)
			w.order(t, watchOrder{pid})
			w.order(t, watchOrder{pid})
			// The request is behind the watch in the queue.
			if _, err := n7.Request(within(t), r1.Self(), "target", text("x")); err != nil {
				t.Fatal(err)
			}
			tc.end(t, s)
			if got := receive(t, w.ended); !got.Who.Equal(pid) || got.Why != tc.want {
				t.Errorf("terminated %v, want %v of %v", got, tc.want, pid)
			}
			// Whatever else could end it, it has ended.
			n7.Close()
			w.settle(t)
			if len(w.ended) > 0 {
				t.Errorf("terminated again: %v", <-w.ended)
			}
		})
	}
}

func TestWatchOfUnconnectedPeerEndsAtOnce(t *testing.T) {
	n7 := start(t, new(directory), agent("n7"), nil)
	w := n7.watcher(t)
	w.order(t, watchOrder{remote.PID("replica/r1", "target")})
	if got := receive(t, w.ended); got.Why != actor.TerminatedReason_AddressTerminated {
		t.Errorf("terminated %v", got)
	}
}

func TestUnwatchedActorEndsSilently(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	n7 := start(t, where, agent("n7"), nil)
	dropped := r1.spawn(t, "dropped", echo)
	kept := r1.spawn(t, "kept", echo)
	w := n7.watcher(t)
	n7.connect(t, r1)
	w.order(t, watchOrder{remote.PID(r1.Self(), "dropped")})
	w.order(t, watchOrder{remote.PID(r1.Self(), "kept")})
	w.order(t, unwatchOrder{remote.PID(r1.Self(), "dropped")})
	if _, err := n7.Request(within(t), r1.Self(), "kept", text("x")); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []*actor.PID{dropped, kept} {
		if err := r1.system.Root.StopFuture(pid).Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if got := receive(t, w.ended); got.Who.GetId() != "kept" {
		t.Errorf("terminated %v", got)
	}
}

func TestWatchesAreLimited(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	n7 := start(t, where, agent("n7"), func(c *remote.Config) { c.Limits.Watches = 2 })
	names := []string{"a", "b", "c"}
	for _, name := range names {
		r1.spawn(t, name, echo)
	}
	w := n7.watcher(t)
	n7.connect(t, r1)
	for _, name := range names {
		w.order(t, watchOrder{remote.PID(r1.Self(), name)})
	}
	if got := receive(t, w.ended).Who.GetId(); got != "c" {
		t.Errorf("terminated %v, want the one too many", got)
	}
}
