package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/leaktest"
	"weir/cluster/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func dialer(t *testing.T, security wire.Security) *wire.Dialer {
	t.Helper()
	d, err := wire.NewDialer(security)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// echo returns what it hears to every connection of l.
func echo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			_, _ = io.Copy(conn, conn)
		}()
	}
}

// serveIdentity answers every request with its protocol and sender.
func serveIdentity(t *testing.T, mux *wire.Mux) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := wire.IdentityOfRequest(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprint(w, r.Proto, " ", id)
	})}
	mux.ConfigureServer(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(mux.HTTP()) }()
	t.Cleanup(func() {
		_ = server.Close()
		// The port may be closed before the server.
		if err := <-done; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func get(t *testing.T, d *wire.Dialer, addr string) (string, error) {
	t.Helper()
	client := d.HTTPClient(deadline)
	defer client.CloseIdleConnections()
	response, err := client.Get(d.URL(addr))
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestAllProtocolsOfOnePort(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	for name, test := range map[string]struct {
		server, replica, client wire.Security
		wantReplica, wantClient string
	}{
		"mutual": {
			server:      mutual(t, cluster, identity.Replica, "r1"),
			replica:     mutual(t, cluster, identity.Replica, "r2"),
			client:      mutual(t, cluster, identity.User, "ann"),
			wantReplica: "HTTP/2.0 weir://c1/replica/r2",
			wantClient:  "HTTP/2.0 weir://c1/user/ann",
		},
		"insecure": {
			server:      wire.Insecure{},
			replica:     wire.Insecure{Self: identity.Identity{Role: identity.Replica, Name: "r2"}},
			client:      wire.Insecure{},
			wantReplica: "HTTP/2.0 weir://insecure/replica/r2",
			wantClient:  "HTTP/2.0 weir://insecure/operator/insecure",
		},
	} {
		t.Run(name, func(t *testing.T) {
			mux, log := listen(t, test.server)
			go echo(mux.Raft())
			go echo(mux.Gossip())
			serveIdentity(t, mux)
			addr := mux.Addr().String()
			replica := dialer(t, test.replica)
			for what, dial := range map[string]func(context.Context, string) (net.Conn, error){"raft": replica.DialRaft, "gossip": replica.DialGossip} {
				conn, err := dial(t.Context(), addr)
				if err != nil {
					t.Fatal(what, err)
				}
				_ = conn.SetDeadline(time.Now().Add(deadline))
				if _, err := io.WriteString(conn, what); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len(what))
				if _, err := io.ReadFull(conn, got); err != nil || string(got) != what {
					t.Errorf("echo of %q: %q, %v", what, got, err)
				}
				_ = conn.Close()
			}
			for want, d := range map[string]*wire.Dialer{test.wantReplica: replica, test.wantClient: dialer(t, test.client)} {
				if got, err := get(t, d, addr); err != nil || got != want {
					t.Errorf("request answered %q, %v; want %q", got, err, want)
				}
			}
			if loud := strings.Contains(log.String(), "INSECURE"); loud != (name == "insecure") {
				t.Errorf("log: %s", log)
			}
			if udp := mux.Packets().LocalAddr().String(); udp != addr {
				t.Errorf("UDP is at %s, want %s", udp, addr)
			}
		})
	}
}

func TestInsecureHeader(t *testing.T) {
	mux, _ := listen(t, wire.Insecure{})
	serveIdentity(t, mux)
	for header, want := range map[string]string{
		"agent/node-7": "weir://insecure/agent/node-7",
		"agent":        "want role/name",
		"root/x":       "must be one of",
		"agent/a b":    "agent name",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+mux.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(wire.InsecureHeader, header)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%q: %q, %v; want %q", header, body, err, want)
		}
	}
}

func TestRequestFromNowhere(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(wire.InsecureHeader, "operator/mallory")
	if id, err := wire.IdentityOfRequest(request); !errors.Is(err, identity.ErrNoCertificate) {
		t.Errorf("a request through no mux is from %v, %v", id, err)
	}
}

func TestDialersLearnWhy(t *testing.T) {
	cluster, foreign := identitytest.New(t, "c1"), identitytest.New(t, "c1")
	replica := mutual(t, cluster, identity.Replica, "r1")
	for name, test := range map[string]struct {
		server, client wire.Security
		want           error
		wantText       string
	}{
		"agent dials raft":          {server: replica, client: mutual(t, cluster, identity.Agent, "a"), want: identity.ErrRefused, wantText: "see its log"},
		"foreign replica dials":     {server: replica, client: mutual(t, foreign, identity.Replica, "r2"), want: identity.ErrForeignAuthority},
		"an agent poses as replica": {server: mutual(t, cluster, identity.Agent, "a"), client: replica, want: identity.ErrWrongRole},
		"plaintext dials TLS":       {server: replica, client: wire.Insecure{}, want: identity.ErrRefused, wantText: "it may use TLS"},
		"TLS dials plaintext":       {server: wire.Insecure{}, client: replica, wantText: "dial raft"},
	} {
		t.Run(name, func(t *testing.T) {
			mux, _ := listen(t, test.server)
			conn, err := dialer(t, test.client).DialRaft(t.Context(), mux.Addr().String())
			if err == nil {
				_ = conn.Close()
				t.Fatal("accepted")
			}
			if test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.wantText) {
				t.Errorf("error %q, want %v and %q", err, test.want, test.wantText)
			}
		})
	}
	mux, _ := listen(t, replica)
	if _, err := get(t, dialer(t, mutual(t, foreign, identity.User, "eve")), mux.Addr().String()); !errors.Is(err, identity.ErrForeignAuthority) {
		t.Errorf("HTTP with a foreign certificate: %v", err)
	}
}

func TestSilentPeersAreDropped(t *testing.T) {
	mux, err := wire.Listen(wire.Config{
		Address:      "127.0.0.1:0",
		Security:     mutual(t, identitytest.New(t, "c1"), identity.Replica, "r1"),
		HelloTimeout: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	for range 3 {
		conn, err := net.Dial("tcp", mux.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetReadDeadline(time.Now().Add(deadline))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %v, want a closed connection", err)
		}
	}
}

func TestFullBacklogRefuses(t *testing.T) {
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}, Backlog: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	d := dialer(t, wire.Insecure{})
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	for range 2 {
		conn, err := d.DialRaft(t.Context(), mux.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	// Either may have come first to where they wait.
	ended := make(chan error, 2)
	for _, conn := range open {
		_ = conn.SetReadDeadline(time.Now().Add(deadline))
		go func() {
			_, err := conn.Read(make([]byte, 1))
			ended <- err
		}()
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the connection too many: %v, want it closed", err)
	}
	accepted, err := mux.Raft().Accept()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Errorf("the connection that waits: %v, want it open", err)
	default:
	}
	_ = accepted.Close()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the connection that waited: %v, want it closed", err)
	}
}

func TestClosingOneProtocolLeavesTheOthers(t *testing.T) {
	mux, _ := listen(t, wire.Insecure{})
	go echo(mux.Gossip())
	d := dialer(t, wire.Insecure{})
	if err := mux.Raft().Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := d.DialGossip(t.Context(), mux.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := mux.Raft().Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	if err := errors.Join(mux.Close(), mux.Close()); err != nil {
		t.Errorf("Close twice: %v", err)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for name, security := range map[string]wire.Security{
		"insecure": wire.Insecure{},
		"mutual":   mutual(t, identitytest.New(t, "c1"), identity.Replica, "r1"),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := dialer(t, security).DialRaft(ctx, silent.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the context's error", name, err)
		}
		cancel()
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		config wire.Config
		want   string
	}{
		"no port":            {wire.Config{Address: "localhost", Security: wire.Insecure{}}, "want host:port"},
		"no security":        {wire.Config{Address: "127.0.0.1:0"}, "security: must be chosen"},
		"no credentials":     {wire.Config{Address: "127.0.0.1:0", Security: wire.Mutual{}}, "load a credentials folder"},
		"negative backlog":   {wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}, Backlog: -1}, "backlog -1"},
		"negative handshake": {wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}, HandshakeTimeout: -1}, "handshake timeout"},
	} {
		if mux, err := wire.Listen(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v; want %q", name, mux, err, test.want)
		}
	}
	mux, _ := listen(t, wire.Insecure{})
	if _, err := wire.Listen(wire.Config{Address: mux.Addr().String(), Security: wire.Insecure{}}); err == nil || !strings.Contains(err.Error(), mux.Addr().String()) {
		t.Errorf("a port in use: %v", err)
	}
}

func TestConnectionsThatNobodyAcceptedEndWithTheirListener(t *testing.T) {
	mux, _ := listen(t, wire.Insecure{})
	d := dialer(t, wire.Insecure{})
	waiting, err := d.DialGossip(t.Context(), mux.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = waiting.Close() }()
	if err := mux.Close(); err != nil { // Waits for deliveries under way.
		t.Fatal(err)
	}
	_ = waiting.SetReadDeadline(time.Now().Add(deadline))
	if _, err := waiting.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %v, want a closed connection", err)
	}
}
