package wire_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/wire"
)

func TestListenMutualLetsRolesIn(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	folder := filepath.Join(t.TempDir(), "n1")
	if err := cluster.Authority.Issue(folder, identity.Identity{Role: identity.Agent, Name: "n1"}, []string{"127.0.0.1"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	agent, err := identity.LoadCredentials(folder)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := wire.ListenMutual("127.0.0.1:0", agent, identity.User, identity.Operator)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: deadline, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Handler: wire.ForRoles(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "figures")
	}), identity.User)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	defer func() {
		_ = server.Close()
		<-done
	}()
	for name, stranger := range strangers(t, cluster) {
		for _, alpn := range []string{"", "http/1.1", "h2"} {
			if stranger.role == identity.User || stranger.role == identity.Operator {
				continue
			}
			t.Run(name+" "+alpn, func(t *testing.T) {
				answer := stranger.visit(t, listener.Addr().String(), alpn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				if stranger.config == nil && strings.HasPrefix(string(answer), "HTTP/1.0 400 Bad Request") {
					return // The server of net/http says so in plaintext.
				}
				stranger.wantNothing(t, answer)
			})
		}
	}
	tests := map[string]struct {
		role   identity.Role
		status int // 0: no connection.
	}{
		"a client":                           {identity.User, http.StatusOK},
		"a role that the handler is not for": {identity.Operator, http.StatusForbidden},
		"a role that the port is not for":    {identity.Agent, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := cluster.Credentials(t, test.role, "x").ClientConfig(identity.Agent)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: deadline}
			res, err := client.Get("https://" + listener.Addr().String() + "/metrics")
			if test.status == 0 {
				if err == nil {
					_ = res.Body.Close()
					t.Errorf("got %s, want no connection", res.Status)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != test.status {
				t.Errorf("got %s, want %d", res.Status, test.status)
			}
		})
	}
}

func TestListenRefuses(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "n1")
	if err := identitytest.New(t, "c1").Authority.Issue(folder, identity.Identity{Role: identity.Agent, Name: "n1"}, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	agent, err := identity.LoadCredentials(folder)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		listen func() (net.Listener, error)
		want   string
	}{
		"a certificate for clients":    {func() (net.Listener, error) { return wire.ListenMutual("127.0.0.1:0", agent, identity.User) }, "reissue it with --hosts"},
		"plaintext for other machines": {func() (net.Listener, error) { return wire.ListenLoopback("0.0.0.0:0") }, "use 127.0.0.1"},
		"plaintext on every address":   {func() (net.Listener, error) { return wire.ListenLoopback(":0") }, "use 127.0.0.1"},
		"no address":                   {func() (net.Listener, error) { return wire.ListenLoopback("x") }, "want host:port"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			listener, err := test.listen()
			if err == nil {
				_ = listener.Close()
				t.Fatalf("it listens at %s", listener.Addr())
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	listener, err := wire.ListenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}

// TestPortsOfMetricsAreBounded (T5): the port of an agent's metrics closes what stays silent, and has room for no more silent
// connections of an address than the port of a replica.
func TestPortsOfMetricsAreBounded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "n1")
	if err := identitytest.New(t, "c1").Authority.Issue(folder, identity.Identity{Role: identity.Agent, Name: "n1"}, []string{"127.0.0.1"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	agent, err := identity.LoadCredentials(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, listen := range map[string]func() (net.Listener, error){
		"with certificates": func() (net.Listener, error) { return wire.ListenMutual("127.0.0.1:0", agent, identity.User) },
		"on loopback":       func() (net.Listener, error) { return wire.ListenLoopback("127.0.0.1:0") },
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := listen()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = listener.Close() }()
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a silent connection stays open: %v", err)
			}
		})
	}
}

// TestHeadersAreBounded (T5) sends headers of a hundred KiB to the port of a replica.
func TestHeadersAreBounded(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	mux, _ := listen(t, mutual(t, cluster, identity.Replica, "r1"))
	serveIdentity(t, mux)
	d := dialer(t, mutual(t, cluster, identity.User, "ann"))
	client := d.HTTPClient(deadline)
	defer client.CloseIdleConnections()
	for size, fits := range map[int]bool{1 << 10: true, 100 << 10: false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.URL(mux.Addr().String()), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Large", strings.Repeat("x", size))
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		if answered := err == nil && res.StatusCode == http.StatusOK; answered != fits {
			t.Errorf("%d bytes of headers: %v, %v", size, res, err)
		}
	}
}
