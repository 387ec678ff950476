package wire_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/wire"
)

// TestNoConnectionOutlivesItsCertificate (T6) opens connections of each kind, and has the certificate of
// one end expire or be revoked, or the replica be removed, in the eyes of the other: the connections
// break, whichever end looks, and others stay.
func TestNoConnectionOutlivesItsCertificate(t *testing.T) {
	stolen := errors.New("stolen")
	revokes := func(name string) func() func(identity.Shown) error {
		return func() func(identity.Shown) error {
			return func(peer identity.Shown) error {
				if peer.Who.Name == name {
					return stolen
				}
				return nil
			}
		}
	}
	removed := func(name string) func(string) error {
		return func(replica string) error {
			if replica == name {
				return errors.New("removed")
			}
			return nil
		}
	}
	for name, test := range map[string]struct {
		look func(server, client *identity.Credentials) []error
		want error
	}{
		"the server finds that the client's was revoked": {func(server, _ *identity.Credentials) []error {
			server.Heed(revokes("r2"))
			return server.Review(time.Now())
		}, identity.ErrRevoked},
		"the client finds that the server's was revoked": {func(_, client *identity.Credentials) []error {
			client.Heed(revokes("r1"))
			return client.Review(time.Now())
		}, identity.ErrRevoked},
		"the client's has expired": {func(server, _ *identity.Credentials) []error {
			return server.Review(time.Now().Add(2 * identity.DefaultValidity))
		}, identity.ErrExpired},
		"the server finds that the client was removed": {func(server, _ *identity.Credentials) []error {
			server.HeedMembers(removed("r2"))
			return server.Review(time.Now())
		}, identity.ErrNotMember},
		"the client finds that the server was removed": {func(_, client *identity.Credentials) []error {
			client.HeedMembers(removed("r1"))
			return client.Review(time.Now())
		}, identity.ErrNotMember},
		"another was removed": {func(server, client *identity.Credentials) []error {
			server.HeedMembers(removed("r3"))
			client.HeedMembers(removed("r3"))
			return append(server.Review(time.Now()), client.Review(time.Now())...)
		}, nil},
		"none is revoked": {func(server, client *identity.Credentials) []error {
			none := func() func(identity.Shown) error { return nil }
			server.Heed(none)
			client.Heed(none)
			return append(server.Review(time.Now()), client.Review(time.Now())...)
		}, nil},
		"another's was revoked": {func(server, client *identity.Credentials) []error {
			server.Heed(revokes("r3"))
			client.Heed(revokes("r3"))
			return append(server.Review(time.Now()), client.Review(time.Now())...)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := identitytest.New(t, "c1")
			server, client := cluster.Credentials(t, identity.Replica, "r1"), cluster.Credentials(t, identity.Replica, "r2")
			mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Mutual{Credentials: server}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = mux.Close() }()
			go echo(mux.Raft())
			go echo(mux.Gossip())
			d := dialer(t, wire.Mutual{Credentials: client})
			raft, err := d.DialRaft(t.Context(), mux.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			gossip, err := d.DialGossip(t.Context(), mux.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			works := func(conn net.Conn) error {
				if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
					return err
				}
				if _, err := conn.Write([]byte("x")); err != nil {
					return err
				}
				_, err := io.ReadFull(conn, make([]byte, 1))
				return err
			}
			if err := errors.Join(works(raft), works(gossip)); err != nil {
				t.Fatal(err)
			}
			closed := test.look(server, client)
			if test.want == nil {
				if err := errors.Join(works(raft), works(gossip)); err != nil || len(closed) > 0 {
					t.Errorf("%v, closed %v", err, closed)
				}
			} else if len(closed) != 2 || !errors.Is(closed[0], test.want) || works(raft) == nil || works(gossip) == nil {
				t.Errorf("closed %v, want two by %v", closed, test.want)
			}
			_, err = d.DialRaft(t.Context(), mux.Addr().String())
			if refused := test.want != nil && !errors.Is(test.want, identity.ErrExpired); (err != nil) != refused {
				t.Errorf("a new connection: %v", err)
			}
			for _, conn := range []net.Conn{raft, gossip} {
				_ = conn.Close()
			}
		})
	}
}

// TestRevocationAmongHandshakes revokes a certificate while connections with it are opened, admitted and closed: none is left, however
// far it was.
func TestRevocationAmongHandshakes(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	server := cluster.Credentials(t, identity.Replica, "r1")
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Mutual{Credentials: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	go echo(mux.Raft())
	d := dialer(t, wire.Mutual{Credentials: cluster.Credentials(t, identity.Replica, "r2")})
	opened := make(chan net.Conn, 1000)
	var dialing sync.WaitGroup
	for range 8 {
		dialing.Go(func() {
			for {
				conn, err := d.DialRaft(t.Context(), mux.Addr().String())
				if err != nil {
					return
				}
				opened <- conn
			}
		})
	}
	conns := []net.Conn{<-opened, <-opened, <-opened}
	server.Heed(func() func(identity.Shown) error {
		return func(identity.Shown) error { return errors.New("stolen") }
	})
	server.Review(time.Now())
	dialing.Wait()
	close(opened)
	for conn := range opened {
		conns = append(conns, conn)
	}
	for i, conn := range conns {
		if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d of %d is open: %v", i, len(conns), err)
		}
		_ = conn.Close()
	}
}

// TestRequestsOfMembers (T6) has a replica that is no member ask over HTTP: only its request to become one
// passes. A connection that it opened before it became a member is cut once it is removed.
func TestRequestsOfMembers(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	credentials := cluster.Credentials(t, identity.Replica, "r1")
	var member atomic.Bool
	credentials.HeedMembers(func(string) error {
		if member.Load() {
			return nil
		}
		return errors.New("not added")
	})
	security := wire.Mutual{Credentials: credentials}
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: security})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: deadline, Handler: wire.ForMembers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", r.URL.Path)
	}), security, "/join")}
	mux.ConfigureServer(server)
	go func() { _ = server.Serve(mux.HTTP()) }()
	defer func() { _ = errors.Join(server.Close(), mux.Close()) }()
	d := dialer(t, wire.Mutual{Credentials: cluster.Credentials(t, identity.Replica, "r2")})
	client := d.HTTPClient(deadline)
	defer client.CloseIdleConnections()
	asks := func(path, want string) {
		t.Helper()
		answer, err := client.Get(d.URL(mux.Addr().String()) + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if said, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(said), want) {
			t.Errorf("%s: %q, %v; want %q", path, said, err, want)
		}
	}
	asks("/join", "hello")
	asks("/state", "not a member of the cluster: not added")
	if closed := credentials.Review(time.Now()); len(closed) != 0 {
		t.Errorf("closed %v before the replica was a member", closed)
	}
	member.Store(true)
	asks("/state", "hello")
	if closed := credentials.Review(time.Now()); len(closed) != 0 {
		t.Errorf("closed %v of a member", closed)
	}
	member.Store(false)
	if closed := credentials.Review(time.Now()); len(closed) != 1 || !errors.Is(closed[0], identity.ErrNotMember) {
		t.Errorf("closed %v once it was removed, want its connection", closed)
	}
	// Nor does a member ask a replica that is none, not even to become a member.
	own := dialer(t, security).HTTPClient(deadline)
	defer own.CloseIdleConnections()
	other, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Mutual{Credentials: cluster.Credentials(t, identity.Replica, "r2")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := own.Get(d.URL(other.Addr().String()) + "/join"); !errors.Is(err, identity.ErrNotMember) {
		t.Errorf("a removed replica is asked: %v", err)
	}
}
