package raftstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/raftstore/command"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		runChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// cluster is a set of replicas in this process, over loopback TCP.
type cluster struct {
	tb     testing.TB
	dir    string
	peers  []Peer
	stores map[string]*Store
	wires  map[string]*wire
	tune   func(*Config)
	// mu guards stores for those who do not start and stop replicas.
	mu sync.Mutex
}

// newCluster makes the addresses and folders of n replicas; tune may be nil.
func newCluster(tb testing.TB, n int, tune func(*Config)) *cluster {
	c := &cluster{tb: tb, dir: tb.TempDir(), stores: map[string]*Store{}, wires: map[string]*wire{}, tune: tune}
	for i := range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		id := fmt.Sprintf("r%d", i+1)
		c.peers = append(c.peers, Peer{ID: id, Address: listener.Addr().String()})
		c.wires[id] = &wire{listener: listener}
	}
	tb.Cleanup(func() {
		for _, p := range c.peers {
			c.stop(p.ID)
		}
	})
	return c
}

func startCluster(tb testing.TB, n int, tune func(*Config)) *cluster {
	c := newCluster(tb, n, tune)
	for _, p := range c.peers {
		c.start(p.ID)
	}
	return c
}

func (c *cluster) config(id string) Config {
	cfg := Default()
	cfg.Dir = filepath.Join(c.dir, id)
	cfg.ClusterID, cfg.ReplicaID = "test", id
	cfg.InitialPeers = c.peers
	cfg.Timeouts = Timeouts{Heartbeat: 300 * time.Millisecond, Election: 300 * time.Millisecond, Lease: 250 * time.Millisecond, RPC: time.Second}
	cfg.DiskStall = patience
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("RAFTSTORE_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("on", id)
	}
	for _, p := range c.peers {
		if p.ID == id {
			cfg.Address = p.Address
		}
	}
	if c.tune != nil {
		c.tune(&cfg)
	}
	return cfg
}

func (c *cluster) start(id string) *Store {
	c.tb.Helper()
	w := c.wires[id]
	cfg := c.config(id)
	if w.listener == nil { // stopped before
		listener, err := net.Listen("tcp", cfg.Address)
		if err != nil {
			c.tb.Fatal(err)
		}
		w = &wire{listener: listener}
		c.wires[id] = w
	}
	cfg.Transport = Transport{Listener: w, Dial: w.dial}
	store, err := Open(cfg)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[id] = store
	return store
}

func (c *cluster) stop(id string) {
	c.tb.Helper()
	store := c.stores[id]
	if store == nil {
		if l := c.wires[id].listener; l != nil {
			c.wires[id].listener = nil
			_ = l.Close()
		}
		return
	}
	c.forget(id)
	c.wires[id] = &wire{}
	if err := store.Close(); err != nil {
		c.tb.Errorf("close %s: %v", id, err)
	}
}

func (c *cluster) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stores, id)
}

func (c *cluster) running() []*Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.stores))
}

// leader waits until one replica leads and can serve reads.
func (c *cluster) leader() *Store {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		var wait <-chan struct{}
		for _, s := range c.stores {
			current, changed := s.Leadership()
			if current.Leader && s.Barrier(ctx) == nil {
				return s
			}
			wait = changed
		}
		select {
		case <-wait:
		case <-time.After(20 * time.Millisecond):
		}
	}
	c.tb.Fatal("no replica leads")
	return nil
}

// follower returns a replica that does not lead.
func (c *cluster) follower() *Store {
	c.tb.Helper()
	leader := c.leader()
	for _, p := range c.peers {
		if s := c.stores[p.ID]; s != nil && s != leader {
			return s
		}
	}
	c.tb.Fatal("no follower runs")
	return nil
}

// propose retries on whoever leads until the commands are answered.
func (c *cluster) propose(commands ...*commandpb.Command) []*commandpb.Result {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		results, err := c.leader().Propose(ctx, commands...)
		if err == nil {
			return results
		}
		if ctx.Err() != nil {
			c.tb.Fatal(err)
		}
	}
}

// wantEqual waits until every running replica has applied what the leader has,
// and compares their snapshots byte by byte.
func (c *cluster) wantEqual() {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	index, err := c.leader().ReadIndex(ctx)
	if err != nil {
		c.tb.Fatal(err)
	}
	var first []byte
	var firstID string
	for id, s := range c.stores {
		if err := s.WaitApplied(ctx, index); err != nil {
			c.tb.Fatalf("replica %s: %v", id, err)
		}
		var got bytes.Buffer
		if _, err := writeSnapshot(&got, s.machine.freeze().state.Records); err != nil {
			c.tb.Fatal(err)
		}
		if first == nil {
			first, firstID = got.Bytes(), id
		} else if !bytes.Equal(first, got.Bytes()) {
			c.tb.Errorf("the states of %s and %s differ at index %d", firstID, id, index)
		}
	}
}

// wire is a replica's connection to the others, which a test can cut, and hold:
// then what arrives is not read, as if the process were paused.
type wire struct {
	listener net.Listener
	// requests come from other replicas, answers are to our requests.
	requests, answers valve

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// valve is open at first.
type valve struct{ held sync.RWMutex }

func (v *valve) hold()    { v.held.Lock() }
func (v *valve) release() { v.held.Unlock() }

// valveConn delivers what it reads when its valve is open.
type valveConn struct {
	net.Conn
	valve *valve
}

func (c valveConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.valve.held.RLock()
	defer c.valve.held.RUnlock()
	return n, err
}

func (w *wire) Accept() (net.Conn, error) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return nil, err
		}
		if w.keep(conn) {
			return valveConn{conn, &w.requests}, nil
		}
	}
}

func (w *wire) Addr() net.Addr { return w.listener.Addr() }

func (w *wire) Close() error { return w.listener.Close() }

func (w *wire) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if !w.keep(conn) {
		return nil, fmt.Errorf("dial %s: cut off", address)
	}
	return valveConn{conn, &w.answers}, nil
}

func (w *wire) keep(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = conn.Close()
		return false
	}
	w.conns = append(w.conns, conn)
	return true
}

// setCut ends every connection of the replica and lets none come, or heals it.
func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for _, conn := range w.conns {
			_ = conn.Close()
		}
		w.conns = nil
	}
}

func mustCommand(tb testing.TB, msg proto.Message) *commandpb.Command {
	tb.Helper()
	cmd, err := command.New(msg)
	if err != nil {
		tb.Fatal(err)
	}
	return cmd
}

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}
