package remote_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/wire"
)

// startOnWire runs a process that is called id on a port of cluster/wire.
func startOnWire(t *testing.T, where *directory, id identity.Identity, security wire.Security, logger *slog.Logger) *node {
	t.Helper()
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: security, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mux.Close() })
	dialer, err := wire.NewDialer(security)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{changes: make(chan remote.PeerChange, 100), addr: mux.Addr().String()}
	quiet := slog.New(slog.DiscardHandler)
	n.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	n.Remote, err = remote.Start(n.system, remote.Config{
		Self:       id,
		Directory:  where,
		Dialer:     dialer,
		IdentityOf: wire.IdentityOfRequest,
		OnPeer:     func(c remote.PeerChange) { n.changes <- c },
		Limits:     patient(),
		Logger:     logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	routes.Handle(n.Handler())
	server := &http.Server{Handler: routes}
	mux.ConfigureServer(server)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(mux.HTTP())
	}()
	where.set(n.Self(), n.addr)
	t.Cleanup(func() {
		n.Close()
		_ = server.Close()
		<-served
		n.system.Shutdown()
	})
	return n
}

func TestOverOnePort(t *testing.T) {
	insecure := func(_ *testing.T, id identity.Identity) wire.Security { return wire.Insecure{Self: id} }
	cluster := identitytest.New(t, "test")
	mutual := func(t *testing.T, id identity.Identity) wire.Security {
		return wire.Mutual{Credentials: cluster.Credentials(t, id.Role, id.Name)}
	}
	for name, tc := range map[string]struct {
		cluster  string
		security func(*testing.T, identity.Identity) wire.Security
	}{
		"mutual TLS": {"test", mutual},
		"plaintext":  {"insecure", insecure},
	} {
		t.Run(name, func(t *testing.T) {
			where := new(directory)
			quiet := slog.New(slog.DiscardHandler)
			begin := func(role identity.Role, name string) *node {
				id := identity.Identity{Cluster: tc.cluster, Role: role, Name: name}
				return startOnWire(t, where, id, tc.security(t, id), quiet)
			}
			r1, n7 := begin(identity.Replica, "r1"), begin(identity.Agent, "n7")
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
		})
	}
}

func TestCertificateCannotSpeakForAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		answers, dials identity.Identity // By certificate, r1 and n7.
		want           string
	}{
		"an agent that dials": {
			answers: replica("r1"), dials: agent("n8"),
			want: "certificate identifies weir://test/agent/n7, but hello is from weir://test/agent/n8",
		},
		"a replica that answers": {
			answers: replica("r2"), dials: agent("n7"),
			want: "certificate identifies weir://test/replica/r1, but hello is from weir://test/replica/r2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := identitytest.New(t, "test")
			where := new(directory)
			logger, lines := logLines()
			server := startOnWire(t, where, tc.answers, wire.Mutual{Credentials: cluster.Credentials(t, identity.Replica, "r1")}, slog.New(slog.DiscardHandler))
			client := startOnWire(t, where, tc.dials, wire.Mutual{Credentials: cluster.Credentials(t, identity.Agent, "n7")}, logger)
			if err := client.Connect(server.Self()); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, lines, tc.want)
			if client.Connected(server.Self()) {
				t.Error("the stream came up")
			}
		})
	}
}
