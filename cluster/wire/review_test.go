package wire_test

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/wire"
)

// TestNoConnectionOutlivesItsCertificate (T6) opens connections of each kind, and has the certificate of one
// end expire or be revoked in the eyes of the other: the connections break, whichever end looks, and
// others stay.
func TestNoConnectionOutlivesItsCertificate(t *testing.T) {
	stolen := errors.New("stolen")
	revokes := func(name string) func(*x509.Certificate) error {
		return func(cert *x509.Certificate) error {
			if id, err := identity.OfCertificate(cert); err != nil || id.Name == name {
				return errors.Join(err, stolen)
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
			if refused := errors.Is(test.want, identity.ErrRevoked); (err != nil) != refused {
				t.Errorf("a new connection: %v", err)
			}
			for _, conn := range []net.Conn{raft, gossip} {
				_ = conn.Close()
			}
		})
	}
}
