package wire_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/wire"
)

// held are silent connections to a port that are opened again as soon as they are closed.
type held struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// holdSilent keeps so many silent connections from one address open.
func holdSilent(t *testing.T, from, to string, count int) *held {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := &held{cancel: cancel}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	var open sync.WaitGroup
	for range count {
		open.Add(1)
		h.ended.Go(func() {
			opened := sync.OnceFunc(open.Done)
			defer opened()
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", to)
				if err != nil {
					continue
				}
				opened()
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.ReadAll(conn)
				stop()
				_ = conn.Close()
			}
		})
	}
	open.Wait()
	t.Cleanup(h.end)
	return h
}

func (h *held) end() {
	h.cancel()
	h.ended.Wait()
}

// TestSilentStrangersKeepNobodyOut (T5) holds more silent connections than an address may have, and
// wants the port to let members in meanwhile: at once if the strangers come from another address, and
// after some tries if they come from the same one.
func TestSilentStrangersKeepNobodyOut(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	limits := wire.Limits{MemberAddress: 1024}
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: mutual(t, cluster, identity.Replica, "r1"), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	serveIdentity(t, mux)
	go echo(mux.Raft())
	address := mux.Addr().String()
	client, replica := dialer(t, mutual(t, cluster, identity.User, "ann")), dialer(t, mutual(t, cluster, identity.Replica, "r2"))
	calls := map[string]func() error{
		"a client": func() error { _, err := get(t, client, address); return err },
		"a replica": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			conn, err := replica.DialRaft(ctx, address)
			if err == nil {
				err = conn.Close()
			}
			return err
		},
	}
	for name, test := range map[string]struct {
		from   string
		silent int
		calls  int
		tries  bool
	}{"another address": {"127.66.0.1", 600, 10, false}, "the members' address": {"127.0.0.1", 1100, 1, true}} {
		t.Run(name, func(t *testing.T) {
			held := holdSilent(t, test.from, address, test.silent)
			defer held.end()
			for who, call := range calls {
				for range test.calls {
					err := call()
					for end := time.Now().Add(deadline); test.tries && err != nil && time.Now().Before(end); {
						err = call()
					}
					if err != nil {
						t.Fatalf("%s is kept out: %v", who, err)
					}
				}
			}
			if stats := mux.Stats(); stats.Refused[wire.RefusedCrowded] == 0 {
				t.Errorf("nobody was refused: %+v", stats)
			}
		})
	}
}

// TestSilentStrangersAreKept (T5) holds more silent connections than an address may have, which are opened again as soon
// as they are closed: soon they are left alone, so that there are no handshakes, and no end of them.
func TestSilentStrangersAreKept(t *testing.T) {
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: mutual(t, identitytest.New(t, "c1"), identity.Replica, "r1")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	holdSilent(t, "127.66.0.1", mux.Addr().String(), 600)
	for end := time.Now().Add(deadline); ; time.Sleep(10 * time.Millisecond) {
		stats := mux.Stats()
		if stats.Strangers == 0 && stats.Refused[wire.RefusedSilent] > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("they come again and again: %+v", stats)
		}
	}
}

// TestSilentAreFewAndShort sees how many silent connections are held, and that one alone is closed in time.
func TestSilentAreFewAndShort(t *testing.T) {
	limits := wire.Limits{Address: 3, Subnet: 5, Strangers: 7}
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: mutual(t, identitytest.New(t, "c1"), identity.Replica, "r1"), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	crowd := []*held{}
	for _, from := range []string{"127.1.0.1", "127.1.0.2", "127.2.0.1", "127.3.0.1"} {
		crowd = append(crowd, holdSilent(t, from, mux.Addr().String(), 4))
	}
	most := 0
	waitFor(t, func() bool {
		stats := mux.Stats()
		most = max(most, stats.Strangers)
		return stats.Refused[wire.RefusedCrowded] > 100
	}, func() string { return fmt.Sprintf("refused: %v", mux.Stats().Refused) })
	if most > limits.Strangers {
		t.Errorf("%d silent connections at once, want at most %d", most, limits.Strangers)
	}
	for _, h := range crowd {
		h.end()
	}
	holdSilent(t, "127.1.0.1", mux.Addr().String(), 1)
	waitFor(t, func() bool { return mux.Stats().Refused[wire.RefusedSilent] > 0 }, func() string { return "a silent connection stays" })
}

// TestStormFromAMembersAddress (T5) has one user open more connections at once than a replica computes within the time of
// a handshake, from the address of a member. Another user there comes in at once, each time.
func TestStormFromAMembersAddress(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: mutual(t, cluster, identity.Replica, "r1"), Members: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	serveIdentity(t, mux)
	greedy := cluster.Credentials(t, identity.User, "greedy").ClientConfig(identity.Replica)
	ctx, cancel := context.WithCancel(t.Context())
	var storm sync.WaitGroup
	defer func() { cancel(); storm.Wait() }()
	for range 2000 {
		storm.Go(func() {
			for ctx.Err() == nil {
				conn, err := (&tls.Dialer{Config: greedy}).DialContext(ctx, "tcp", mux.Addr().String())
				if err != nil {
					continue // It comes again, as clients do.
				}
				_, _ = conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
				answer, _ := io.ReadAll(conn)
				if _ = conn.Close(); len(answer) > 0 {
					return
				}
			}
		})
	}
	waitFor(t, func() bool { return mux.Stats().Members > 500 }, func() string { return "no storm comes" })
	for range 5 {
		if _, err := get(t, dialer(t, mutual(t, cluster, identity.User, "ann")), mux.Addr().String()); err != nil {
			t.Fatalf("another user is kept out: %v", err)
		}
	}
	if stats := mux.Stats(); stats.Refused[wire.RefusedCrowded] > 0 {
		t.Errorf("some were refused for want of room: %+v", stats)
	}
}

// TestForeignCertificatesCostLittle (T5) shows foreign certificates as fast as it can. Members of another
// address get in at once, and few handshakes of the strangers are done.
func TestForeignCertificatesCostLittle(t *testing.T) {
	ours := identitytest.New(t, "c1")
	foreign := mutual(t, identitytest.New(t, "c1"), identity.Agent, "n1").Credentials.ClientConfig(identity.Replica)
	foreign.VerifyConnection = nil
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: mutual(t, ours, identity.Replica, "r1")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	serveIdentity(t, mux)
	began := time.Now()
	var tried atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var strangers sync.WaitGroup
	defer func() { cancel(); strangers.Wait() }()
	for range 100 {
		strangers.Go(func() {
			stranger := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.66.0.1")}}, Config: foreign}
			for ctx.Err() == nil {
				if conn, err := stranger.DialContext(ctx, "tcp", mux.Addr().String()); err == nil {
					_, _ = io.ReadAll(conn)
					_ = conn.Close()
				}
				tried.Add(1)
			}
		})
	}
	waitFor(t, func() bool { return mux.Stats().Refused[wire.RefusedRejected] > 0 }, func() string { return "no stranger comes" })
	for range 20 {
		if _, err := get(t, dialer(t, mutual(t, ours, identity.User, "ann")), mux.Addr().String()); err != nil {
			t.Fatalf("a client is kept out: %v", err)
		}
	}
	done, took := mux.Stats().Refused[wire.RefusedRejected], time.Since(began)
	// 50 a second, and what an address may owe at first.
	if most := 50*took.Seconds() + 50; float64(done) > most {
		t.Errorf("%d handshakes of strangers within %s, want at most %.0f", done, took, most)
	}
	t.Logf("%d handshakes of strangers within %s, of %d tried", done, took.Round(time.Millisecond), tried.Load())
}

// TestConnectionsOfAUserAreBounded opens one more than a user may have, closes one, and opens another.
func TestConnectionsOfAUserAreBounded(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: mutual(t, cluster, identity.Replica, "r1"), Limits: wire.Limits{User: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mux.Close() }()
	go echo(mux.HTTP())
	open := func(name string) (net.Conn, error) {
		config := cluster.Credentials(t, identity.User, name).ClientConfig(identity.Replica)
		conn, err := tls.Dial("tcp", mux.Addr().String(), config)
		if err != nil {
			return nil, err
		}
		_ = conn.SetDeadline(time.Now().Add(deadline))
		if _, err = conn.Write([]byte("x")); err == nil {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		return conn, err
	}
	var conns []net.Conn
	for i, who := range []string{"ann", "ann", "bob"} {
		conn, err := open(who)
		if err != nil {
			t.Fatalf("connection %d of %s: %v", i, who, err)
		}
		defer func() { _ = conn.Close() }()
		conns = append(conns, conn)
	}
	if _, err := open("ann"); err == nil {
		t.Error("ann has three connections")
	}
	waitFor(t, func() bool { return mux.Stats().Refused[wire.RefusedUser] == 1 }, func() string { return "the refusal is not counted" })
	_ = conns[0].Close()
	waitFor(t, func() bool {
		conn, err := open("ann")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, func() string { return "a closed connection still counts" })
}
