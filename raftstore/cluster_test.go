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

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"weir/cluster/leaktest"
	"weir/messages/commandpb"
	"weir/raftstore/command"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		runChild(dir)
		return
	}
	leaktest.Main(m)
}

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// steady are timeouts under which a leader leads until a test takes the lead from it,
// however seldom its processes get a processor. The first one is elected by startCluster.
func steady() Timeouts {
	return Timeouts{Heartbeat: 15 * time.Second, Election: 15 * time.Second, Lease: 15 * time.Second, RPC: 15 * time.Second}
}

// restless are for tests that have leaders replaced. Where they are set the lead may move
// by itself at any time, and what is proposed may be carried out twice.
func restless(cfg *Config) { cfg.Timeouts = DefaultTimeouts() }

// alone are for a replica whose election nobody can hinder.
func alone() Timeouts {
	return Timeouts{Heartbeat: 20 * time.Millisecond, Election: 20 * time.Millisecond, Lease: 20 * time.Millisecond, RPC: 15 * time.Second}
}

// listen opens a port at an address that belongs to this process alone, so that a replica
// that is stopped finds its port free when it is started again.
func listen(tb testing.TB) net.Listener {
	tb.Helper()
	pid := os.Getpid()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+pid>>16&0x3f, pid>>8&0xff, pid&0xff))
	if err != nil {
		tb.Fatal(err)
	}
	return listener
}

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
		listener := listen(tb)
		id := fmt.Sprintf("r%d", i+1)
		c.peers = append(c.peers, Peer{ID: id, Address: listener.Addr().String()})
		c.wires[id] = &wire{listener: listener}
	}
	tb.Cleanup(c.halt)
	return c
}

func startCluster(tb testing.TB, n int, tune func(*Config)) *cluster {
	c := newCluster(tb, n, tune)
	c.startAll()
	return c
}

// startAll starts every replica and has one of several elected, rather than wait for it.
func (c *cluster) startAll() {
	c.tb.Helper()
	for _, p := range c.peers {
		c.start(p.ID)
	}
	if len(c.peers) > 1 {
		c.elect()
	}
}

// elect has the replica with the longest log stand for election. None leads yet.
func (c *cluster) elect() {
	c.tb.Helper()
	var longest *Store
	for _, p := range c.peers {
		if s := c.stores[p.ID]; s != nil && (longest == nil || s.raft.LastIndex() > longest.raft.LastIndex()) {
			longest = s
		}
	}
	id, address := longest.self(), raft.ServerAddress(longest.cfg.Address)
	request := raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: longest.transport.EncodePeer(id, address),
	}}
	if err := longest.transport.TimeoutNow(id, address, &request, new(raft.TimeoutNowResponse)); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *cluster) config(id string) Config {
	cfg := Default()
	cfg.Dir = filepath.Join(c.dir, id)
	cfg.ClusterID, cfg.ReplicaID = "test", id
	cfg.InitialPeers = c.peers
	if cfg.Timeouts = steady(); len(c.peers) == 1 {
		cfg.Timeouts = alone()
	}
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

// halt stops all replicas at once: none hands its lead to another that is about to stop.
func (c *cluster) halt() {
	c.tb.Helper()
	c.settle()
	var down []raft.Future
	for id, s := range c.stores {
		down = append(down, s.raft.Shutdown())
		if err := s.transport.closeConns(); err != nil {
			c.tb.Errorf("halt %s: %v", id, err)
		}
	}
	for _, future := range down {
		if err := future.Error(); err != nil {
			c.tb.Error(err)
		}
	}
	for _, p := range c.peers {
		c.stop(p.ID)
	}
}

// settle takes no more calls and waits for those under way, which raft forgets at shutdown
// and the batcher would wait for.
func (c *cluster) settle() {
	for _, s := range c.stores {
		s.batcher.queue.close()
	}
	late := time.After(closePatience)
	for _, s := range c.stores {
		select {
		case <-s.batcher.done:
		case <-late: // Nobody is left to store them: raft answers at shutdown.
			return
		}
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
	var index uint64
	c.insist("read the leader's index", func(ctx context.Context, leader *Store) (err error) {
		index, err = leader.ReadIndex(ctx)
		return err
	})
	// What a test has stopped waiting for may still come to some before others.
	for equal := false; !equal; {
		equal = true
		snapshots := map[string][]byte{}
		for id, s := range c.stores {
			if err := s.WaitApplied(ctx, index); err != nil {
				c.tb.Fatalf("replica %s: %v", id, err)
			}
			var out bytes.Buffer
			info, err := writeSnapshot(&out, s.machine.freeze().state.Encoded)
			if err != nil {
				c.tb.Fatal(err)
			}
			snapshots[id] = out.Bytes()
			equal = equal && info.index == index
			index = max(index, info.index)
		}
		if equal {
			c.compare(index, snapshots)
		}
	}
}

func (c *cluster) compare(index uint64, snapshots map[string][]byte) {
	c.tb.Helper()
	ids := slices.Sorted(maps.Keys(snapshots))
	for _, id := range ids[1:] {
		if !bytes.Equal(snapshots[id], snapshots[ids[0]]) {
			c.tb.Errorf("the states of %s and %s differ at index %d", ids[0], id, index)
		}
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
