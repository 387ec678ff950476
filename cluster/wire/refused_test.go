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
const deadline = 20 * time.Second

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

// TestRefused shows every way of not belonging here to every protocol, and
// that none gets through to where connections are accepted.
func TestRefused(t *testing.T) {
	ours, foreign := identitytest.New(t, "c1"), identitytest.New(t, "c1")
	now := time.Now()
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	id := identity.Identity{Cluster: "c1", Role: identity.Replica, Name: "r9"}
	elsewhere := identity.Identity{Cluster: "c2", Role: identity.Replica, Name: "r9"}
	shows := func(cert tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert}} }

	good := ours.Certificate(t, id, hour(-1), hour(1))
	old := shows(good)
	old.MaxVersion = tls.VersionTLS12
	attacks := map[string]struct {
		config   *tls.Config // nil: plaintext bytes
		wantLog  string
		httpPass bool // HTTP takes any role.
	}{
		"no certificate":  {config: &tls.Config{}, wantLog: "no certificate"},
		"foreign CA":      {config: shows(foreign.Certificate(t, id, hour(-1), hour(1))), wantLog: "foreign authority"},
		"expired":         {config: shows(ours.Certificate(t, id, hour(-2), hour(-1))), wantLog: "has expired"},
		"not yet valid":   {config: shows(ours.Certificate(t, id, hour(1), hour(2))), wantLog: "not yet valid"},
		"wrong cluster":   {config: shows(ours.Certificate(t, elsewhere, hour(-1), hour(1))), wantLog: "wrong cluster"},
		"TLS 1.2":         {config: old, wantLog: "version"},
		"plaintext bytes": {wantLog: "plaintext where TLS is spoken"},
		"an agent":        {config: shows(ours.Certificate(t, identity.Identity{Cluster: "c1", Role: identity.Agent, Name: "a"}, hour(-1), hour(1))), wantLog: "wrong role", httpPass: true},
		"an operator":     {config: shows(ours.Certificate(t, identity.Identity{Cluster: "c1", Role: identity.Operator, Name: "o"}, hour(-1), hour(1))), wantLog: "wrong role", httpPass: true},
	}
	greetings := map[string]string{
		"weir-raft/1":   "\x01hello, I am a replica and this is raft",
		"weir-gossip/1": "\x02hello, I am a replica and this is gossip",
		"h2":            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"http/1.1":      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"weir-other/1":  "hello, what do you speak?",
		"":              "hello, I do not know what I speak",
	}
	for name, attack := range attacks {
		for alpn, greeting := range greetings {
			if attack.httpPass && (alpn == "h2" || alpn == "http/1.1") {
				continue
			}
			t.Run(name+" "+alpn, func(t *testing.T) {
				mux, log := listen(t, mutual(t, ours, identity.Replica, "r1"))
				raw, err := net.Dial("tcp", mux.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = raw.Close() }()
				_ = raw.SetDeadline(time.Now().Add(deadline))
				conn := raw
				if attack.config != nil {
					config := attack.config.Clone()
					config.InsecureSkipVerify = true
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
				// A refused plaintext peer may get a TLS alert, never more.
				if len(answer) > 0 && (attack.config != nil || answer[0] != 0x15) {
					t.Errorf("answered %q", answer)
				}
				if alpn != "weir-other/1" && alpn != "" {
					waitFor(t, func() bool { return strings.Contains(log.String(), attack.wantLog) }, func() string {
						return "log says " + log.String() + " and not " + attack.wantLog
					})
				}
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
