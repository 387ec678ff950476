package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/gateway"
	"weir/actors/remote"
	"weir/cluster"
	"weir/cluster/clock"
	"weir/cluster/gossip"
	"weir/cluster/identity"
	"weir/cluster/storage"
	"weir/cluster/wire"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
)

// plaintext is the id of clusters without certificates.
const plaintext = "insecure"

// within is how long a test waits for what must happen.
const within = 2 * time.Minute

// steady are timeouts under which a leader leads until a test crashes it, however seldom
// this process gets a processor. Tests have replicas stand for election.
func steady() raftstore.Timeouts {
	return raftstore.Timeouts{Heartbeat: 10 * time.Second, Election: 10 * time.Second, Lease: 10 * time.Second, RPC: 10 * time.Second}
}

// alone are those of a replica that nobody can hinder.
func alone() raftstore.Timeouts {
	return raftstore.Timeouts{Heartbeat: 50 * time.Millisecond, Election: 50 * time.Millisecond, Lease: 50 * time.Millisecond, RPC: 10 * time.Second}
}

// lives numbers the lives of replicas and agents of this test process.
var lives atomic.Uint64

// testCluster is replicas in this process, which speak over real ports.
type testCluster struct {
	t        testing.TB
	replicas []*testReplica
}

// testReplica is a replica as a server process starts it.
type testReplica struct {
	*Replica
	id      string
	address string
	mux     *wire.Mux
	cable   *cable
	gossip  *gossip.Gossip
	roll    *roll
	peers   *cluster.Directory
	store   *raftstore.Store
	http    *http.Server
	over    sync.Once
}

// cable carries raft's connections until it is cut.
type cable struct {
	dialer *wire.Dialer
	mu     sync.Mutex
	conns  []net.Conn
	cut    bool
}

func (c *cable) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.dialer.DialRaft(ctx, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.cut {
		_ = conn.Close()
		return nil, errors.New("the cable is cut")
	}
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// testTiming is fast where a test waits, and slow where a busy machine must not
// look like a dead one.
func testTiming() Timing {
	timing := DefaultTiming()
	timing.Node.Heartbeat, timing.Node.Resend, timing.Node.Lease = 50*time.Millisecond, 200*time.Millisecond, within
	timing.ReassignAfter, timing.Retry, timing.Patience = 200*time.Millisecond, 50*time.Millisecond, within
	timing.FairShareUpdate = 50 * time.Millisecond
	return timing
}

// testStreams are kept through silence that a busy machine causes.
func testStreams() remote.Limits {
	limits := remote.DefaultLimits()
	limits.KeepAliveTimeout, limits.ConnectTimeout, limits.RequestTimeout = within, within, within
	return limits
}

// startCluster starts n replicas; change alters what their actors work with.
func startCluster(t testing.TB, n int, change func(*Config)) *testCluster {
	t.Helper()
	c := &testCluster{t: t}
	var peers []string
	for i := range n {
		r := &testReplica{id: fmt.Sprint("r", i+1)}
		mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: securityOf(identity.Replica, r.id)})
		if err != nil {
			t.Fatal(err)
		}
		r.mux, r.address = mux, mux.Addr().String()
		t.Cleanup(func() { _ = mux.Close() })
		peers = append(peers, r.id+"="+r.address)
		c.replicas = append(c.replicas, r)
	}
	list, err := cluster.ParsePeers(peers)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.replicas {
		r.start(t, list, change)
		t.Cleanup(r.crash)
	}
	if n > 1 {
		c.replicas[0].stand(t)
	}
	return c
}

func securityOf(role identity.Role, name string) wire.Security {
	return wire.Insecure{Self: identity.Identity{Cluster: plaintext, Role: role, Name: name}}
}

func (r *testReplica) start(t testing.TB, peers cluster.Peers, change func(*Config)) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	dialer, err := wire.NewDialer(securityOf(identity.Replica, r.id))
	if err != nil {
		t.Fatal(err)
	}
	r.cable = &cable{dialer: dialer}
	r.gossip, err = gossip.Start(gossip.Config{
		Self: gossip.Member{
			Can: versions.Current,
			ID:  scheduling.ReplicaID(r.id), Address: r.address, APIAddress: r.address, PeerList: peers.Fingerprint(), Initialized: true,
		},
		Cluster: plaintext, Insecure: true, Port: r.mux, Dialer: dialer, Peers: peers.Addresses(), Profile: gossip.Fast, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.roll = &roll{of: r.gossip, seen: map[scheduling.ReplicaID]gossip.Member{}, crashed: map[scheduling.ReplicaID]bool{}}
	r.peers = cluster.NewDirectory(peers, r.roll)
	cfg := raftstore.Default()
	if cfg.Timeouts, cfg.DiskStall = steady(), within; len(peers) == 1 {
		cfg.Timeouts = alone()
	}
	cfg.Dir, cfg.ClusterID, cfg.ReplicaID, cfg.Address = t.TempDir(), plaintext, r.id, r.address
	cfg.Transport = raftstore.Transport{Listener: r.mux.Raft(), Dial: r.cable.dial}
	times := clock.New()
	cfg.Clock, cfg.Logger = times, log
	for _, peer := range peers {
		cfg.InitialPeers = append(cfg.InitialPeers, raftstore.Peer{ID: string(peer.ID), Address: peer.Address})
	}
	if r.store, err = raftstore.Open(cfg); err != nil {
		t.Fatal(err)
	}
	actors := Config{
		ID: r.id, Cluster: plaintext, Incarnation: uint64(time.Now().UnixNano())<<8 | lives.Add(1), Version: "test",
		Store: r.store, Directory: r.peers, Gossip: r.gossip, Dialer: dialer, IdentityOf: wire.IdentityOfRequest, Clock: times,
		Engine: engine.Default(), Gateway: gateway.DefaultLimits(), Timing: testTiming(), Streams: testStreams(),
		Storage: storage.New(storage.Config{Roots: []string{"/"}}),
		NewID:   func() string { return fmt.Sprintf("job-%06d", lives.Add(1)) }, Logger: log,
	}
	if change != nil {
		change(&actors)
	}
	if r.Replica, err = Start(actors); err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	routes.Handle(r.Handler())
	r.http = &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	r.mux.ConfigureServer(r.http)
	go func() { _ = r.http.Serve(r.mux.HTTP()) }()
}

// stand has a replica stand for election at once, rather than wait for it: it is sent what
// raft sends to whom a leader hands over.
func (r *testReplica) stand(t testing.TB) {
	t.Helper()
	const timeoutNow, version = 3, "ProtocolVersion"
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	conn, err := r.cable.dialer.DialRaft(ctx, r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	// The request is a MessagePack map of one entry, whose value is 3.
	request := append([]byte{timeoutNow, 0x81, 0xa0 + byte(len(version))}, version+"\x03"...)
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatalf("%s does not stand for election: %v", r.id, err)
	}
}

// crash ends a replica without a word: its connections are cut first, so that
// nothing is handed over.
func (r *testReplica) crash() {
	r.over.Do(func() {
		r.cable.sever()
		_ = r.mux.Close()
		_ = r.http.Close()
		_ = r.gossip.Close()
		_ = r.Replica.Close()
		r.peers.Close()
		_ = r.store.Close()
	})
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

// leader waits for a replica whose leader's actors are up, and that all others
// are ready for operations and reached by it.
func (c *testCluster) leader() *testReplica {
	c.t.Helper()
	var leader *testReplica
	eventually(c.t, "a leader of replicas that are ready", func() bool {
		for _, r := range c.replicas {
			current, _ := r.store.Leadership()
			if current.Leader && r.leader.Load() != nil && r.liveness.readyCount() == len(c.replicas) && c.reaches(r) {
				leader = r
			}
		}
		return leader != nil
	})
	return leader
}

// readyCount is how many replicas may be given operations.
func (l *liveness) readyCount() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.ready)
}

// reaches reports whether a replica reaches all others.
func (c *testCluster) reaches(r *testReplica) bool {
	for _, other := range c.replicas {
		if other != r && !r.liveness.reached(other.id) {
			return false
		}
	}
	return true
}

// follower returns a replica that is not the leader.
func (c *testCluster) follower() *testReplica {
	c.t.Helper()
	leader := c.leader()
	for _, r := range c.replicas {
		if r != leader {
			return r
		}
	}
	c.t.Fatal("there is one replica only")
	return nil
}

// without crashes a replica and goes on with the others, of which one leads if it did.
func (c *testCluster) without(dead *testReplica) *testCluster {
	c.t.Helper()
	led, _ := dead.store.Leadership()
	dead.crash()
	rest := &testCluster{t: c.t}
	for _, r := range c.replicas {
		if r != dead {
			r.roll.strike(dead.id)
			rest.replicas = append(rest.replicas, r)
		}
	}
	if led.Leader && len(rest.replicas) > 1 {
		rest.replicas[0].stand(c.t)
	}
	return rest
}

// controlledBy returns an operation id that a replica will control, while all are
// alive.
func (c *testCluster) controlledBy(replica *testReplica, name string) string {
	var ids []scheduling.ReplicaID
	for _, r := range c.replicas {
		ids = append(ids, scheduling.ReplicaID(r.id))
	}
	for i := 0; ; i++ {
		if id := fmt.Sprint(name, "-", i); string(cluster.Assign(id, ids)) == replica.id {
			return id
		}
	}
}

// propose has a command committed by way of a replica.
func (r *testReplica) propose(t *testing.T, msg proto.Message) *commandpb.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	results, err := r.Propose(ctx, msg)
	if err != nil {
		t.Fatalf("propose %T at %s: %v", msg, r.id, err)
	}
	return results[0]
}

// submit starts an operation with one task by way of a replica.
func (r *testReplica) submit(t *testing.T, id string, jobs int32) {
	t.Helper()
	result := r.propose(t, &commandpb.StartOperation{OperationId: id, User: "ann", Time: timestamppb.Now(), Spec: &statepb.OperationSpec{
		Type: "vanilla", MaxFailedJobCount: 10,
		Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: jobs, Shell: "work", CpuLimitHundredths: 100, MemoryLimit: 1 << 20}},
	}})
	if refusal := result.GetRefusal(); refusal != nil {
		t.Fatalf("submit %s: %s", id, refusal.GetMessage())
	}
}

// operation reads an operation's record as this replica knows it; nil: not at all.
func (r *testReplica) operation(id string) (op *statepb.Operation) {
	r.store.View(func(s *state.State) {
		if record, ok := s.Operation(scheduling.OperationID(id)); ok {
			op = proto.CloneOf(record)
		}
	})
	return op
}

func (r *testReplica) counters(id string) *statepb.JobCounters {
	tasks := r.operation(id).GetTasks()
	if len(tasks) == 0 {
		return &statepb.JobCounters{}
	}
	return tasks[0].GetCounters()
}

// await waits until an operation is in a state, as this replica knows it.
func (r *testReplica) await(t *testing.T, id, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("operation %s is %s at %s", id, want, r.id), func() bool { return r.operation(id).GetState() == want })
}

// jobsOf returns the jobs of an operation that have not ended.
func (r *testReplica) jobsOf(id string) (jobs []string) {
	r.store.View(func(s *state.State) {
		for _, a := range s.AllocationsOfOperation(scheduling.OperationID(id)) {
			jobs = append(jobs, a.GetJobId())
		}
	})
	return jobs
}
