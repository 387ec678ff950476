package remote_test

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// busy publishes an actor that tells what it takes up, and is busy with it until it
// is let go on. It fails on "fail" and starts again.
func (n *node) busy(t *testing.T, name string, full proto.Message) (let chan<- struct{}, took <-chan string) {
	t.Helper()
	gate, got := make(chan struct{}), make(chan string, 100)
	inbox := n.NewInbox(full)
	pid := n.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if in, ok := ctx.Message().(*remote.Inbound); ok {
			got <- in.Message.(*wrapperspb.StringValue).Value
			<-gate
			if in.Message.(*wrapperspb.StringValue).Value == "fail" {
				panic("told to")
			}
		}
	}, inbox.Mailbox()))
	if err := n.Publish(name, pid, inbox, identity.Roles()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(gate)
		_ = n.system.Root.PoisonFuture(pid).Wait()
	})
	return gate, got
}

func TestFullInbox(t *testing.T) {
	small := func(c *remote.Config) {
		c.Limits.InboxMessages, c.Limits.InboxBytes, c.Limits.MaxMessageBytes = 2, 1000, 900
	}
	refusal := &actorpb.Refused{Code: actorpb.CodeOverloaded, RetryMillis: 7}
	for name, test := range map[string]struct {
		full     proto.Message
		fill     []string
		want     error
		wantText string
	}{
		"of messages":               {fill: []string{"a", "b"}, want: remote.ErrQueueFull, wantText: "2 messages"},
		"of bytes":                  {fill: []string{strings.Repeat("a", 800)}, want: remote.ErrQueueFull, wantText: "InboxBytes"},
		"whose owner has an answer": {full: refusal, fill: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			where := new(directory)
			r1, n7 := start(t, where, replica("r1"), small), start(t, where, agent("n7"), nil)
			let, took := r1.busy(t, "busy", test.full)
			r1.spawn(t, "echo", echo)
			n7.connect(t, r1)
			send := func(text string) {
				if err := n7.Send(r1.Self(), "busy", wrapperspb.String(text)); err != nil {
					t.Fatal(err)
				}
			}
			takes := func(want string) {
				if got := receive(t, took); got != want {
					t.Fatalf("took %q, want %q", got, want)
				}
			}
			send("fail")
			takes("fail")
			let <- struct{}{}
			send("first")
			takes("first")
			settle := func() {
				if _, err := n7.Request(within(t), r1.Self(), "echo", text("x")); err != nil {
					t.Fatal(err)
				}
			}
			for _, m := range test.fill {
				send(m)
			}
			settle()
			large := text(strings.Repeat("x", 300))
			reply, err := n7.Request(within(t), r1.Self(), "busy", large)
			if test.full != nil {
				if err != nil || !proto.Equal(reply, test.full) {
					t.Errorf("got %v, %v; want %v", reply, err, test.full)
				}
			} else {
				checkError(t, err, test.want, test.wantText)
			}
			if err := n7.Send(r1.Self(), "busy", large); err != nil {
				t.Fatal(err)
			}
			settle()
			if got := r1.Stats().Dropped["inbox_full"]; got != 2 {
				t.Errorf("%d dropped, want the request and the message", got)
			}
			for _, want := range test.fill {
				let <- struct{}{}
				takes(want)
			}
			// There is room again.
			send("late")
			let <- struct{}{}
			takes("late")
		})
	}
}

func TestPublishedActorsAreBounded(t *testing.T) {
	r1 := start(t, new(directory), replica("r1"), nil)
	pid := r1.system.Root.Spawn(actor.PropsFromFunc(echo))
	for name, inbox := range map[string]*remote.Inbox{"no inbox": nil, "an inbox that nobody was spawned with": r1.NewInbox(nil)} {
		if err := r1.Publish("echo", pid, inbox, identity.Replica); err == nil || !strings.Contains(err.Error(), "needs a bounded mailbox") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
