package wire_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/wire"
)

// TestConnectionsOfTheOldAuthority (T6) holds connections open while the authority is replaced: they work until the
// old one is given up, and are cut by whichever end learns that. One with a certificate of the next authority stays.
func TestConnectionsOfTheOldAuthority(t *testing.T) {
	for name, serverLearns := range map[string]bool{"the server learns it first": true, "the client learns it first": false} {
		t.Run(name, func(t *testing.T) { testOldAuthority(t, serverLearns) })
	}
}

func testOldAuthority(t *testing.T, serverLearns bool) {
	cluster := identitytest.New(t, "c1")
	folders := map[string]string{}
	load := func(name string) *identity.Credentials {
		t.Helper()
		if folders[name] == "" {
			folders[name] = filepath.Join(t.TempDir(), name)
			if err := cluster.Authority.Issue(folders[name], identity.Identity{Role: identity.Replica, Name: name}, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		credentials, err := identity.LoadCredentials(folders[name])
		if err != nil {
			t.Fatal(err)
		}
		return credentials
	}
	update := func(a *identity.Authority, err error) error {
		for _, folder := range folders {
			if err == nil {
				_, err = a.Update(folder)
			}
		}
		return err
	}
	server, client := load("r1"), load("r2")
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Mutual{Credentials: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	go echo(mux.Raft())
	d := dialer(t, wire.Mutual{Credentials: client})
	forgetful := load("r3") // Only its Dialer reloads.
	fresh := dialer(t, wire.Mutual{Credentials: forgetful, Reload: true})
	dial := func() net.Conn {
		t.Helper()
		conn, err := d.DialRaft(t.Context(), mux.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	works := func(conn net.Conn) error {
		_ = conn.SetDeadline(time.Now().Add(deadline))
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}
	step := func(err error) {
		t.Helper()
		if err := errors.Join(err, server.Reload(), client.Reload()); err != nil {
			t.Fatal(err)
		}
		conn, err := fresh.DialRaft(t.Context(), mux.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	old := dial()
	step(update(identity.StartRotation(cluster.Dir())))
	both := dial()
	step(update(identity.SwitchRotation(cluster.Dir())))
	next := dial()
	if closed := append(server.Review(time.Now()), client.Review(time.Now())...); len(closed) > 0 {
		t.Fatalf("closed %v before the rotation is finished", closed)
	}
	if err := errors.Join(works(old), works(both), works(next)); err != nil {
		t.Fatal(err)
	}
	if err := identity.FinishRotation(cluster.Dir(), func(a *identity.Authority) error { return update(a, nil) }); err != nil {
		t.Fatal(err)
	}
	first := server
	if !serverLearns {
		first = client
	}
	if err := first.Reload(); err != nil {
		t.Fatal(err)
	}
	closed := first.Review(time.Now())
	if len(closed) != 2 || !errors.Is(closed[0], identity.ErrForeignAuthority) || works(old) == nil || works(both) == nil {
		t.Errorf("closed %v, want the two of the old authority", closed)
	}
	step(nil)
	if err := errors.Join(works(next), works(dial())); err != nil {
		t.Errorf("connections with the next authority's certificates: %v", err)
	}
}
