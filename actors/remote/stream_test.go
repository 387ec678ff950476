package remote_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/actors/remote"
)

// collect publishes an actor that passes on the strings that it gets.
func (n *node) collect(t testing.TB, name string) <-chan string {
	t.Helper()
	got := make(chan string, 1000)
	n.spawn(t, name, func(ctx actor.Context) {
		if in, ok := ctx.Message().(*remote.Inbound); ok {
			got <- in.Message.(*wrapperspb.StringValue).Value
		}
	})
	return got
}

// logLines returns a logger and what it logs, line by line.
func logLines() (*slog.Logger, <-chan string) {
	lines := make(lineWriter, 1000)
	return slog.New(slog.NewTextHandler(lines, nil)), lines
}

type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	select {
	case w <- string(line):
	default: // Nobody reads that much.
	}
	return len(line), nil
}

func awaitLine(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	for {
		if line := receive(t, lines); strings.Contains(line, want) {
			return
		}
	}
}

func TestRefusedStreams(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*remote.Config) // Of the side that dials.
		dial   string
		at     func(r1 *node) string
		want   string
	}{
		"another cluster": {
			change: func(c *remote.Config) { c.Self.Cluster = "other" },
			want:   `agent/n7 belongs to cluster \"other\", but replica/r1 to cluster \"test\"`,
		},
		"a name that is not the certificate's": {
			change: func(c *remote.Config) { c.Dialer = plainDialer{agent("n8")} },
			want:   "certificate identifies weir://test/agent/n8, but hello is from weir://test/agent/n7",
		},
		"no certificate": {
			change: func(c *remote.Config) { c.Dialer = plainDialer{} },
			want:   "parse identity",
		},
		"another replica at the address": {
			dial: "replica/r2",
			at:   func(r1 *node) string { return r1.addr },
			want: "hello is for replica/r2, but this is replica/r1: is the address right?",
		},
		"nobody at the address": {
			dial: "replica/r2",
			at:   func(*node) string { return "127.0.0.1:1" },
			want: "connection refused",
		},
		"no address": {
			dial: "replica/r2",
			want: "no known address",
		},
	} {
		t.Run(name, func(t *testing.T) {
			where := new(directory)
			r1 := start(t, where, replica("r1"), nil)
			logger, lines := logLines()
			n7 := start(t, where, agent("n7"), func(c *remote.Config) {
				c.Logger = logger
				if tc.change != nil {
					tc.change(c)
				}
			})
			if tc.dial == "" {
				tc.dial = r1.Self()
			}
			if tc.at != nil {
				where.set(tc.dial, tc.at(r1))
			}
			if err := n7.Connect(tc.dial); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, lines, tc.want)
			if len(r1.changes) > 0 || len(n7.changes) > 0 {
				t.Error("a stream came up")
			}
		})
	}
}

func TestRestartedPeerGetsNothingOfItsFormerLife(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), curt)
	link := newLink(t, r1.addr)
	where.set(r1.Self(), link.addr())
	before := start(t, where, agent("n7"), curt)
	before.collect(t, "inbox")
	before.connect(t, r1)

	link.freeze()
	failed := make(chan error, 10)
	for range 10 {
		if err := r1.Send("agent/n7", "inbox", text("old")); err != nil {
			t.Fatal(err)
		}
		r1.RequestAsync("agent/n7", "inbox", text("old request"), patience, func(_ proto.Message, err error) { failed <- err })
	}
	where.set(r1.Self(), r1.addr)
	after := start(t, where, agent("n7"), nil)
	got := after.collect(t, "inbox")
	if err := after.Connect(r1.Self()); err != nil {
		t.Fatal(err)
	}
	if down := r1.await(t, "agent/n7", false); down.Incarnation != before.Incarnation() || !strings.Contains(down.Reason, "replaced by incarnation") {
		t.Errorf("down: %+v", down)
	}
	if up := r1.await(t, "agent/n7", true); up.Incarnation != after.Incarnation() {
		t.Errorf("up: %+v, want incarnation %x", up, after.Incarnation())
	}
	for range 10 {
		checkError(t, receive(t, failed), remote.ErrPeerGone, "replaced by incarnation")
	}
	if err := r1.Send("agent/n7", "inbox", text("new")); err != nil {
		t.Fatal(err)
	}
	if first := receive(t, got); first != "new" {
		t.Errorf("the new life got %q", first)
	}
}

func TestApplicationCanKeepTheFirstProcessOfOneName(t *testing.T) {
	where := new(directory)
	rivals := make(chan remote.Candidate, 1)
	r1 := start(t, where, replica("r1"), func(c *remote.Config) {
		c.Admit = func(candidate remote.Candidate) error {
			if candidate.Rival == 0 {
				return nil
			}
			select {
			case rivals <- candidate:
			default: // It has been here before.
			}
			return errors.New("this node is taken")
		}
	})
	first := start(t, where, agent("n7"), nil)
	first.connect(t, r1)
	logger, lines := logLines()
	second := start(t, where, agent("n7"), func(c *remote.Config) { c.Logger = logger })
	if err := second.Connect(r1.Self()); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, rivals); got.Incarnation != second.Incarnation() || got.Rival != first.Incarnation() {
		t.Errorf("candidate %+v", got)
	}
	awaitLine(t, lines, "this node is taken")
	if !first.Connected(r1.Self()) || len(first.changes) > 0 {
		t.Error("the first was cut off")
	}
}

// TestApplicationHearsOfRivalsThatComeTogether has two processes of one name come at the same
// moment: one of them is the other one's rival.
func TestApplicationHearsOfRivalsThatComeTogether(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), func(c *remote.Config) {
		c.Admit = func(candidate remote.Candidate) error {
			if candidate.Rival != 0 {
				return errors.New("this node is taken")
			}
			return nil
		}
	})
	logger, lines := logLines()
	for range 2 {
		if err := start(t, where, agent("n7"), func(c *remote.Config) { c.Logger = logger }).Connect(r1.Self()); err != nil {
			t.Fatal(err)
		}
	}
	r1.await(t, "agent/n7", true)
	awaitLine(t, lines, "this node is taken")
	if len(r1.changes) > 0 {
		t.Errorf("the first was cut off: %+v", <-r1.changes)
	}
}

func TestPeersThatDialEachOtherShareOneStream(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	r2 := start(t, where, replica("r2"), nil)
	r1.spawn(t, "echo", echo)
	r2.spawn(t, "echo", echo)
	for _, pair := range [][2]*node{{r1, r2}, {r2, r1}} {
		if err := pair[0].Connect(pair[1].Self()); err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range [][2]*node{{r1, r2}, {r2, r1}} {
		eventually(t, func() bool {
			_, err := pair[0].Request(within(t), pair[1].Self(), "echo", text("x"))
			return err == nil
		})
	}
	eventually(t, func() bool {
		a, b := r1.Stats().Peers, r2.Stats().Peers
		return len(a) == 1 && len(b) == 1 && a[0].Dialed != b[0].Dialed
	})
}

func TestSilentPeerIsLost(t *testing.T) {
	brisk := func(c *remote.Config) {
		curt(c)
		c.Limits.KeepAlivePeriod = 50 * time.Millisecond
		c.Limits.KeepAliveTimeout, c.Limits.AgentPatience = 3*time.Second, 2
	}
	where := new(directory)
	r1 := start(t, where, replica("r1"), brisk)
	link := newLink(t, r1.addr)
	where.set(r1.Self(), link.addr())
	n7 := start(t, where, agent("n7"), brisk)
	n7.connect(t, r1)
	r1.spawn(t, "silent", func(actor.Context) {})
	failed := make(chan error, 1)
	n7.RequestAsync(r1.Self(), "silent", text("x"), patience, func(_ proto.Message, err error) { failed <- err })

	link.freeze()
	for _, side := range []struct{ at, of *node }{{n7, r1}, {r1, n7}} {
		down := side.at.await(t, side.of.Self(), false)
		_, text, _ := strings.Cut(down.Reason, "silent for ")
		// One of the sides is an agent: there is patience for twice the timeout.
		if silence, err := time.ParseDuration(text); err != nil || silence < 6*time.Second {
			t.Errorf("%s: lost because %q", side.at.Self(), down.Reason)
		}
	}
	checkError(t, receive(t, failed), remote.ErrPeerGone, "silent for")

	link.thaw()
	n7.await(t, r1.Self(), true)
}

func TestDeadlineTravels(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	n7 := start(t, where, agent("n7"), nil)
	got := make(chan *remote.Inbound, 1)
	r1.spawn(t, "inbox", func(ctx actor.Context) {
		if in, ok := ctx.Message().(*remote.Inbound); ok {
			got <- in
			ctx.Respond(text("done"))
		}
	})
	n7.connect(t, r1)
	before := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if _, err := n7.Request(ctx, r1.Self(), "inbox", text("x")); err != nil {
		t.Fatal(err)
	}
	in := receive(t, got)
	if left := in.Deadline.Sub(before); left < time.Hour-time.Minute || left > time.Hour+time.Minute {
		t.Errorf("the receiver has %v, want about an hour", left)
	}
	if in.From != agent("n7") || in.Incarnation != n7.Incarnation() {
		t.Errorf("from %v, incarnation %x", in.From, in.Incarnation)
	}
}

func TestDisconnectEndsTheStreamForBoth(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	n7 := start(t, where, agent("n7"), nil)
	n7.connect(t, r1)
	n7.Disconnect(r1.Self())
	if down := r1.await(t, "agent/n7", false); !strings.Contains(down.Reason, "agent/n7 has disconnected") {
		t.Errorf("r1 was told %q", down.Reason)
	}
	n7.await(t, r1.Self(), false)
	_, err := n7.Request(within(t), r1.Self(), "x", text("x"))
	checkError(t, err, remote.ErrNotConnected, "")
}

func TestCloseTellsPeersAndWaiters(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	n7 := start(t, where, agent("n7"), nil)
	r1.spawn(t, "silent", func(actor.Context) {})
	n7.connect(t, r1)
	failed := make(chan error, 1)
	n7.RequestAsync(r1.Self(), "silent", text("x"), patience, func(_ proto.Message, err error) { failed <- err })
	r1.Close()
	r1.Close()
	checkError(t, receive(t, failed), remote.ErrPeerGone, "replica/r1 is closing")
	if err := r1.Connect(n7.Self()); !errors.Is(err, remote.ErrClosed) {
		t.Errorf("connect after close: %v", err)
	}
}

func TestCancelledRequestIsForgotten(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	n7 := start(t, where, agent("n7"), nil)
	ctx, cancel := context.WithCancel(within(t))
	r1.spawn(t, "silent", func(c actor.Context) {
		if _, ok := c.Message().(*remote.Inbound); ok {
			cancel()
		}
	})
	n7.connect(t, r1)
	_, err := n7.Request(ctx, r1.Self(), "silent", text("x"))
	checkError(t, err, context.Canceled, "")
	if open := n7.Stats().Peers[0].OpenRequests; open != 0 {
		t.Errorf("%d requests are open", open)
	}
}
