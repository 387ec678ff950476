package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/cluster/leaktest"
	"weir/cluster/wire"
	"weir/messages/actorpb"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// statedHeader stands for the client certificate in plaintext tests.
const statedHeader = "Stated-Identity"

func replica(name string) identity.Identity {
	return identity.Identity{Cluster: "test", Role: identity.Replica, Name: name}
}

func agent(name string) identity.Identity {
	return identity.Identity{Cluster: "test", Role: identity.Agent, Name: name}
}

// directory is where peers are found in a test.
type directory struct {
	mu        sync.Mutex
	addresses map[string]string
}

func (d *directory) Address(peer string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	addr, ok := d.addresses[peer]
	return addr, ok
}

func (d *directory) set(peer, addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.addresses == nil {
		d.addresses = make(map[string]string)
	}
	d.addresses[peer] = addr
}

// plainDialer uses no TLS, and states an identity.
type plainDialer struct{ stated identity.Identity }

func (d plainDialer) URL(addr string) string { return "http://" + addr }

func (d plainDialer) Upgrade(ctx context.Context, addr, path, protocol string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL(addr)+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(statedHeader, d.stated.String())
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := wire.Upgrade(conn, request, protocol); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func (d plainDialer) StreamClient() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: stating{transport, d.stated.String()}}
}

type stating struct {
	*http.Transport
	stated string
}

func (t stating) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set(statedHeader, t.stated)
	return t.Transport.RoundTrip(request)
}

func statedIdentity(request *http.Request) (identity.Identity, error) {
	return identity.Parse(request.Header.Get(statedHeader))
}

// node is one process of a test.
type node struct {
	*remote.Remote
	system  *actor.ActorSystem
	changes chan remote.PeerChange
	addr    string
}

// patient are limits for which a process that stands still for some seconds is not gone, and
// one that is back is found soon.
func patient() remote.Limits {
	limits := remote.DefaultLimits()
	limits.RedialMin, limits.RedialMax = 10*time.Millisecond, 50*time.Millisecond
	limits.KeepAliveTimeout, limits.ConnectTimeout, limits.FarewellTimeout = patience, patience, patience
	return limits
}

// curt is for processes that end behind a link that is frozen: nobody hears their farewell.
func curt(c *remote.Config) { c.Limits.FarewellTimeout = 100 * time.Millisecond }

// start runs a process that is called id. change may alter its configuration.
func start(t testing.TB, where *directory, id identity.Identity, change func(*remote.Config)) *node {
	t.Helper()
	n := &node{changes: make(chan remote.PeerChange, 100)}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	n.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		// The throttle's goroutine lasts for the interval.
		actor.WithDeadLetterThrottleInterval(time.Millisecond))
	config := remote.Config{
		Self:       id,
		Version:    "test",
		Directory:  where,
		Dialer:     plainDialer{id},
		IdentityOf: statedIdentity,
		OnPeer:     func(c remote.PeerChange) { n.changes <- c },
		Limits:     patient(),
		Logger:     quiet,
	}
	if change != nil {
		change(&config)
	}
	var err error
	if n.Remote, err = remote.Start(n.system, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.system.Shutdown)
	routes := http.NewServeMux()
	routes.Handle(n.Handler())
	n.serveBy(t, where, routes)
	return n
}

// serveBy has the handler answer at the node's address from now on.
func (n *node) serveBy(t testing.TB, where *directory, handler http.Handler) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	n.addr = listener.Addr().String()
	where.set(n.Self(), n.addr)
	t.Cleanup(func() {
		n.Close()
		_ = server.Close()
		<-served
	})
}

// await returns the first change of a peer that is as wanted.
func (n *node) await(t testing.TB, peer string, up bool) remote.PeerChange {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case c := <-n.changes:
			if c.Peer == peer && c.Up == up {
				return c
			}
		case <-deadline:
			t.Fatalf("%s: no change of %s to up=%v in %v", n.Self(), peer, up, patience)
		}
	}
}

// connect lets n dial other and waits until both sides know.
func (n *node) connect(t testing.TB, other *node) {
	t.Helper()
	if err := n.Connect(other.Self()); err != nil {
		t.Fatal(err)
	}
	n.await(t, other.Self(), true)
	other.await(t, n.Self(), true)
}

// spawn publishes an actor for all roles that does what receive says.
func (n *node) spawn(t testing.TB, name string, receive actor.ReceiveFunc) *actor.PID {
	t.Helper()
	inbox := n.NewInbox(nil)
	pid := n.system.Root.Spawn(actor.PropsFromFunc(receive, inbox.Mailbox()))
	if err := n.Publish(name, pid, inbox, identity.Roles()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.system.Root.PoisonFuture(pid).Wait() })
	return pid
}

// echo answers a string with who sent it.
func echo(ctx actor.Context) {
	if in, ok := ctx.Message().(*remote.Inbound); ok {
		ctx.Respond(text(fmt.Sprintf("%s for %s", in.Message.(*wrapperspb.StringValue).Value, remote.PeerName(in.From))))
	}
}

func text(s string) proto.Message { return wrapperspb.String(s) }

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// receive returns what comes next, in time.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing came in %v", patience)
		panic("unreachable")
	}
}

func TestRequestGoesBothWaysOverOneStream(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	n7 := start(t, where, agent("n7"), nil)
	r1.spawn(t, "echo", echo)
	n7.spawn(t, "echo", echo)
	n7.connect(t, r1)

	for _, way := range []struct {
		from, to *node
		want     string
	}{
		{n7, r1, "hello for agent/n7"},
		{r1, n7, "hello for replica/r1"},
	} {
		reply, err := way.from.Request(within(t), way.to.Self(), "echo", text("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if got := reply.(*wrapperspb.StringValue).Value; got != way.want {
			t.Errorf("reply %q, want %q", got, way.want)
		}
	}
}

// TestAMessageThatIsAnErrorTravelsAsAMessage: an agent's refusal keeps its code.
func TestAMessageThatIsAnErrorTravelsAsAMessage(t *testing.T) {
	where := new(directory)
	r1, n7 := start(t, where, replica("r1"), nil), start(t, where, agent("n7"), nil)
	r1.spawn(t, "unwilling", func(ctx actor.Context) {
		if _, ok := ctx.Message().(*remote.Inbound); ok {
			ctx.Respond(&actorpb.Refused{Code: "not_found", RetryMillis: 7})
		}
	})
	n7.connect(t, r1)
	reply, err := n7.Request(within(t), "replica/r1", "unwilling", text("x"))
	refused, ok := reply.(*actorpb.Refused)
	if err != nil || !ok || refused.GetCode() != "not_found" || refused.GetRetryMillis() != 7 {
		t.Errorf("got %v, %v; want the refusal itself", reply, err)
	}
}

func TestFailedRequests(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), func(c *remote.Config) {
		c.Limits.MaxMessageBytes = 1 << 10
	})
	n7 := start(t, where, agent("n7"), nil)
	r1.spawn(t, "echo", echo)
	inbox := r1.NewInbox(nil)
	if err := r1.Publish("private", r1.system.Root.Spawn(actor.PropsFromFunc(echo, inbox.Mailbox())), inbox, identity.Replica); err != nil {
		t.Fatal(err)
	}
	r1.spawn(t, "silent", func(actor.Context) {})
	r1.spawn(t, "unsure", func(ctx actor.Context) {
		if _, ok := ctx.Message().(*remote.Inbound); ok {
			ctx.Respond(errors.New("not today"))
		}
	})
	n7.spawn(t, "verbose", func(ctx actor.Context) {
		if _, ok := ctx.Message().(*remote.Inbound); ok {
			ctx.Respond(text(string(make([]byte, 2<<10))))
		}
	})
	stopped := r1.spawn(t, "stopped", echo)
	if err := r1.system.Root.PoisonFuture(stopped).Wait(); err != nil {
		t.Fatal(err)
	}
	n7.connect(t, r1)

	refused := new(remote.ErrRefused)
	for name, tc := range map[string]struct {
		from     *node
		to, name string
		message  proto.Message
		timeout  time.Duration
		want     error
		wantText string
	}{
		"nobody published it":        {from: n7, to: "replica/r1", name: "nobody", want: remote.ErrNotFound, wantText: `"nobody"`},
		"it has stopped":             {from: n7, to: "replica/r1", name: "stopped", want: remote.ErrNotFound},
		"it is for another role":     {from: n7, to: "replica/r1", name: "private", want: refused, wantText: "only [replica] may send to"},
		"the actor answers an error": {from: n7, to: "replica/r1", name: "unsure", want: refused, wantText: "not today"},
		"no reply comes":             {from: n7, to: "replica/r1", name: "silent", timeout: 50 * time.Millisecond, want: remote.ErrTimeout},
		"the peer is not connected":  {from: n7, to: "replica/r2", name: "echo", want: remote.ErrNotConnected},
		"the peer is this process":   {from: n7, to: "agent/n7", name: "echo", want: remote.ErrNotConnected, wantText: "is this process: use the actor's own PID"},
		"the message is too large":   {from: n7, to: "replica/r1", name: "echo", message: text(string(make([]byte, 2<<10))), want: remote.ErrTooLarge, wantText: "accepts at most 1024"},
		"the reply is too large":     {from: r1, to: "agent/n7", name: "verbose", want: remote.ErrTooLarge},
		"the type is unknown":        {from: n7, to: "replica/r1", name: "echo", message: strange(t), want: remote.ErrUnknownType, wantText: "strange.Thing"},
		"it is a life cycle message": {from: n7, to: "replica/r1", name: "echo", message: &actor.PoisonPill{}, want: remote.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t)
			if tc.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.timeout)
				defer cancel()
			}
			if tc.message == nil {
				tc.message = text("x")
			}
			_, err := tc.from.Request(ctx, tc.to, tc.name, tc.message)
			checkError(t, err, tc.want, tc.wantText)
		})
	}
	// None of it has cost the stream.
	if _, err := n7.Request(within(t), r1.Self(), "echo", text("still here")); err != nil {
		t.Error(err)
	}
	if got := len(n7.changes); got != 0 {
		t.Errorf("the stream came or went %d times", got)
	}
}

// TestNobodyWatchesOverTheNetwork: who tries is told at once, and waits for nothing.
func TestNobodyWatchesOverTheNetwork(t *testing.T) {
	where := new(directory)
	r1, n7 := start(t, where, replica("r1"), nil), start(t, where, agent("n7"), nil)
	r1.spawn(t, "echo", echo)
	n7.connect(t, r1)
	ended := make(chan *actor.Terminated, 1)
	target := actor.NewPID(r1.Self(), "echo")
	n7.spawn(t, "watcher", func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Watch(target)
		case *actor.Terminated:
			ended <- m
		}
	})
	if m := receive(t, ended); !m.Who.Equal(target) || m.Why != actor.TerminatedReason_NotFound {
		t.Errorf("told %v, want that nobody is there", m)
	}
}
