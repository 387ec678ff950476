package wire_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/wire"
)

// deadline is how long a test waits for what must happen.
const deadline = time.Minute

// logBuffer is a log that tests read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func listen(t *testing.T, security wire.Security) (*wire.Mux, *logBuffer) {
	t.Helper()
	log := new(logBuffer)
	mux, err := wire.Listen(wire.Config{
		Address:  "127.0.0.1:0",
		Security: security,
		Logger:   slog.New(slog.NewTextHandler(log, nil)),
		// Who is refused is refused for what it is, and not for its pace or ours.
		HelloTimeout: deadline, HandshakeTimeout: deadline,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mux.Close(); err != nil {
			t.Error(err)
		}
	})
	return mux, log
}

func mutual(t *testing.T, cluster *identitytest.Cluster, role identity.Role, name string) wire.Mutual {
	t.Helper()
	return wire.Mutual{Credentials: cluster.Credentials(t, role, name)}
}

// stranger is a peer that does not belong to a cluster, or not to everything in
// it.
type stranger struct {
	config  *tls.Config // nil: plaintext bytes
	wantLog string
	// role is its role in the cluster; 0: it has none.
	role identity.Role
}

// strangers are the ways of not belonging to ours, and the roles other than
// replica.
func strangers(t *testing.T, ours *identitytest.Cluster) map[string]stranger {
	t.Helper()
	foreign := identitytest.New(t, "c1")
	now := time.Now()
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	id := func(cluster string, role identity.Role) identity.Identity {
		return identity.Identity{Cluster: cluster, Role: role, Name: "x"}
	}
	shows := func(cert tls.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true}
	}
	speaks := func(version uint16) *tls.Config {
		config := shows(ours.Certificate(t, id("c1", identity.Replica), hour(-1), hour(1)))
		config.MinVersion, config.MaxVersion = version, version
		return config
	}
	replica := id("c1", identity.Replica)
	all := map[string]stranger{
		"no certificate":  {config: &tls.Config{InsecureSkipVerify: true}, wantLog: "no certificate"},
		"foreign CA":      {config: shows(foreign.Certificate(t, replica, hour(-1), hour(1))), wantLog: "from another authority"},
		"expired":         {config: shows(ours.Certificate(t, replica, hour(-2), hour(-1))), wantLog: "has expired"},
		"not yet valid":   {config: shows(ours.Certificate(t, replica, hour(1), hour(2))), wantLog: "not yet valid"},
		"wrong cluster":   {config: shows(ours.Certificate(t, id("c2", identity.Replica), hour(-1), hour(1))), wantLog: "wrong cluster"},
		"TLS 1.0":         {config: speaks(tls.VersionTLS10), wantLog: "version"},
		"TLS 1.1":         {config: speaks(tls.VersionTLS11), wantLog: "version"},
		"TLS 1.2":         {config: speaks(tls.VersionTLS12), wantLog: "version"},
		"plaintext bytes": {wantLog: "peer sent plaintext instead of TLS"},
	}
	for _, role := range []identity.Role{identity.Agent, identity.Operator, identity.User} {
		all[role.String()] = stranger{config: shows(ours.Certificate(t, id("c1", role), hour(-1), hour(1))), wantLog: "wrong role", role: role}
	}
	return all
}

// visit lets a stranger connect, offer a protocol and say something, and returns
// what it hears until the other side hangs up.
func (s stranger) visit(t *testing.T, addr, alpn, greeting string) []byte {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Now().Add(deadline))
	conn := raw
	if s.config != nil {
		config := s.config.Clone()
		if alpn != "" {
			config.NextProtos = []string{alpn}
		}
		conn = tls.Client(raw, config)
	}
	_, _ = io.WriteString(conn, greeting)
	answer, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("neither answered nor closed")
	}
	return answer
}

// wantNothing fails if a refused stranger was told anything. One that speaks in
// plaintext may get a TLS alert, never more.
func (s stranger) wantNothing(t *testing.T, answer []byte) {
	t.Helper()
	if len(answer) > 0 && (s.config != nil || answer[0] != 0x15) {
		t.Errorf("answered %q", answer)
	}
}

// TestRefused shows every way of not belonging here to every protocol, and
// that none gets through to where connections are accepted.
func TestRefused(t *testing.T) {
	ours := identitytest.New(t, "c1")
	greetings := map[string]string{
		"weir-raft/1":   "\x01hello, I am a replica and this is raft",
		"weir-gossip/1": "\x02hello, I am a replica and this is gossip",
		"h2":            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"http/1.1":      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"weir-other/1":  "hello, what do you speak?",
		"":              "hello, I do not know what I speak",
	}
	for name, stranger := range strangers(t, ours) {
		for alpn, greeting := range greetings {
			if over := map[string]bool{"h2": true, "http/1.1": true, "": true}; stranger.role != 0 && over[alpn] {
				continue // HTTP is for every role.
			}
			t.Run(name+" "+alpn, func(t *testing.T) {
				mux, log := listen(t, mutual(t, ours, identity.Replica, "r1"))
				stranger.wantNothing(t, stranger.visit(t, mux.Addr().String(), alpn, greeting))
				want := stranger.wantLog
				if alpn == "weir-other/1" && stranger.config != nil {
					want = "handshake" // It may fail before there is a certificate to see.
				}
				waitFor(t, func() bool { return strings.Contains(log.String(), want) }, func() string {
					return "log says " + log.String() + " and not " + want
				})
				_ = mux.Close()
				for what, listener := range map[string]net.Listener{"raft": mux.Raft(), "gossip": mux.Gossip(), "HTTP": mux.HTTP()} {
					if conn, err := listener.Accept(); err == nil {
						t.Errorf("%s accepted %v", what, conn)
					}
				}
			})
		}
	}
}

// TestWithoutALPN: clients that offer no protocol speak HTTP/1.1, and are asked who
// they are as all others.
func TestWithoutALPN(t *testing.T) {
	ours := identitytest.New(t, "c1")
	mux, _ := listen(t, mutual(t, ours, identity.Replica, "r1"))
	serveIdentity(t, mux)
	const request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for name, stranger := range strangers(t, ours) {
		t.Run(name, func(t *testing.T) {
			answer := stranger.visit(t, mux.Addr().String(), "", request)
			if stranger.role == 0 {
				stranger.wantNothing(t, answer)
				return
			}
			want := "HTTP/1.1 weir://c1/" + stranger.role.String() + "/x"
			if got := string(answer); !strings.HasPrefix(got, "HTTP/1.1 200 OK") || !strings.HasSuffix(got, want) {
				t.Errorf("answered %q, want 200 and %q", got, want)
			}
		})
	}
}

func waitFor(t *testing.T, done func() bool, state func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("waited in vain: ", state())
		}
	}
}
