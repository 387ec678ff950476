package remote_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
)

// secureDialer speaks HTTP/2 over mutual TLS with replicas.
type secureDialer struct{ credentials *identity.Credentials }

func (d secureDialer) URL(addr string) string { return "https://" + addr }

func (d secureDialer) HTTPClient(timeout time.Duration) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: d.credentials.ClientConfig(identity.Replica)}
	transport.Protocols.SetHTTP2(true)
	return &http.Client{Timeout: timeout, Transport: transport}
}

// startSecure runs a process that is called id and has a certificate.
func startSecure(t *testing.T, where *directory, id identity.Identity, credentials *identity.Credentials, logger *slog.Logger) *node {
	t.Helper()
	n := &node{changes: make(chan remote.PeerChange, 100)}
	quiet := slog.New(slog.DiscardHandler)
	n.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	var err error
	n.Remote, err = remote.Start(n.system, remote.Config{
		Self:      id,
		Directory: where,
		Dialer:    secureDialer{credentials},
		IdentityOf: func(request *http.Request) (identity.Identity, error) {
			return identity.PeerIdentity(*request.TLS)
		},
		OnPeer: func(c remote.PeerChange) { n.changes <- c },
		Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := credentials.ServerConfig(identity.Replica, identity.Agent)
	config.NextProtos = []string{"h2"}
	mux := http.NewServeMux()
	mux.Handle(n.Handler())
	server := &http.Server{Handler: mux, TLSConfig: config, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(tls.NewListener(listener, config))
	}()
	where.set(n.Self(), listener.Addr().String())
	t.Cleanup(func() {
		n.Close()
		_ = server.Close()
		<-served
		n.system.Shutdown()
	})
	return n
}

func TestMutualTLSNamesTheSender(t *testing.T) {
	cluster := identitytest.New(t, "test")
	where := new(directory)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	r1 := startSecure(t, where, replica("r1"), cluster.Credentials(t, identity.Replica, "r1"), quiet)
	n7 := startSecure(t, where, agent("n7"), cluster.Credentials(t, identity.Agent, "n7"), quiet)
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

func TestCertificateCannotSpeakForAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		claimed, dials identity.Identity
		want           string
	}{
		"an agent that dials": {
			claimed: replica("r1"), dials: agent("n8"),
			want: "the certificate is of weir://test/agent/n7 and the hello of weir://test/agent/n8",
		},
		"a replica that answers": {
			claimed: replica("r2"), dials: agent("n7"),
			want: "the certificate is of weir://test/replica/r1 and the hello of weir://test/replica/r2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := identitytest.New(t, "test")
			where := new(directory)
			logger, lines := logLines()
			server := startSecure(t, where, tc.claimed, cluster.Credentials(t, identity.Replica, "r1"), slog.New(slog.DiscardHandler))
			dialer := startSecure(t, where, tc.dials, cluster.Credentials(t, identity.Agent, "n7"), logger)
			if err := dialer.Connect(server.Self()); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, lines, tc.want)
			if dialer.Connected(server.Self()) {
				t.Error("the stream came up")
			}
		})
	}
}
