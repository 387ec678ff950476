package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"weir/cluster"
	"weir/cluster/gossip"
	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/leaktest"
	"weir/cluster/wire"
	"weir/scheduling"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// deadline is how long a test waits for what must happen.
const deadline = time.Minute

// replica is all of this layer for one replica; its log is a flag.
type replica struct {
	id          scheduling.ReplicaID
	gossip      *gossip.Gossip
	directory   *cluster.Directory
	initialized atomic.Bool
}

// port is an open port of a replica that has not started.
type port struct {
	security wire.Mutual
	mux      *wire.Mux
}

func openPorts(t *testing.T, ids ...string) map[string]port {
	t.Helper()
	authority := identitytest.New(t, "c1")
	ports := make(map[string]port)
	for _, id := range ids {
		security := wire.Mutual{Credentials: authority.Credentials(t, identity.Replica, id)}
		mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: security, HelloTimeout: deadline, HandshakeTimeout: deadline})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = mux.Close() })
		ports[id] = port{security, mux}
	}
	return ports
}

func startReplica(t *testing.T, id string, p port, peers cluster.Peers) *replica {
	t.Helper()
	dialer, err := wire.NewDialer(p.security)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gossip.Start(gossip.Config{
		Self:    gossip.Member{ID: scheduling.ReplicaID(id), Address: p.mux.Addr().String(), PeerList: peers.Fingerprint()},
		Cluster: p.security.Credentials.Identity().Cluster,
		Keys:    p.security.Credentials.GossipKeys(),
		Port:    p.mux,
		Dialer:  dialer,
		Peers:   peers.Addresses(),
		Profile: gossip.Fast,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	r := &replica{id: scheduling.ReplicaID(id), gossip: g, directory: cluster.NewDirectory(peers, g)}
	t.Cleanup(r.directory.Close)
	return r
}

func (r *replica) await(ctx context.Context, peers cluster.Peers) (cluster.Decision, error) {
	return cluster.AwaitBootstrap(ctx, r.id, peers, r.initialized.Load, r.gossip, slog.New(slog.DiscardHandler))
}

func (r *replica) initialize(t *testing.T) {
	r.initialized.Store(true)
	if err := r.gossip.Update(func(m *gossip.Member) { m.Initialized = true }); err != nil {
		t.Error(err)
	}
}

func peersOf(t *testing.T, ports map[string]port, ids ...string) cluster.Peers {
	t.Helper()
	var entries []string
	for _, id := range ids {
		entries = append(entries, id+"="+ports[id].mux.Addr().String())
	}
	peers, err := cluster.ParsePeers(entries)
	if err != nil {
		t.Fatal(err)
	}
	return peers
}

// TestClusterBegins starts three replicas one after another and follows them
// from the first decision to a leader that everybody knows, and its end.
func TestClusterBegins(t *testing.T) {
	ports := openPorts(t, "r1", "r2", "r3")
	peers := peersOf(t, ports, "r1", "r2", "r3")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()

	var replicas []*replica
	decisions := make(chan cluster.Decision, 3)
	for _, id := range []string{"r1", "r2", "r3"} {
		r := startReplica(t, id, ports[id], peers)
		replicas = append(replicas, r)
		go func() {
			decision, err := r.await(ctx, peers)
			if err != nil {
				t.Error(err)
			}
			decisions <- decision
		}()
	}
	first := <-decisions
	if first.Action != cluster.Begin || first.Voters.String() != peers.String() {
		t.Fatalf("the first decision is %v with %v", first.Action, first.Voters)
	}
	for _, r := range replicas { // As if a leader had brought all up to date.
		r.initialize(t)
	}
	for range 2 {
		if d := <-decisions; d.Action != cluster.Begin && d.Action != cluster.Resume {
			t.Errorf("a later decision is %v: %s", d.Action, d.Reason)
		}
	}

	if err := replicas[2].gossip.Update(func(m *gossip.Member) { m.Leader, m.Term = true, 2 }); err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		waitView(ctx, t, r, func(v *cluster.View) bool { return v.Leader == "r3" && v.Term == 2 && live(v) == 3 })
	}
	if err := replicas[2].gossip.Close(); err != nil { // Without a word.
		t.Fatal(err)
	}
	for _, r := range replicas[:2] {
		waitView(ctx, t, r, func(v *cluster.View) bool { return v.Leader == "" && live(v) == 2 && len(v.Replicas) == 3 })
	}
}

// live returns the number of live replicas in a view.
func live(v *cluster.View) (n int) {
	for _, replica := range v.Replicas {
		if replica.Live {
			n++
		}
	}
	return n
}

func waitView(ctx context.Context, t *testing.T, r *replica, done func(*cluster.View) bool) {
	t.Helper()
	views, cancel := r.directory.Watch()
	defer cancel()
	for {
		select {
		case view := <-views:
			if done(view) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("%s waited in vain; it sees %+v", r.id, r.directory.View())
		}
	}
}

func TestUnequalListsAreFoundOut(t *testing.T) {
	ports := openPorts(t, "r1", "r2", "r3")
	mine, theirs := peersOf(t, ports, "r1", "r2", "r3"), peersOf(t, ports, "r1", "r2")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	type outcome struct {
		id  string
		err error
	}
	outcomes := make(chan outcome, 2)
	for id, list := range map[string]cluster.Peers{"r1": mine, "r2": theirs} {
		r := startReplica(t, id, ports[id], list)
		go func() {
			_, err := r.await(ctx, list)
			outcomes <- outcome{id, err}
		}()
	}
	for range 2 {
		if o := <-outcomes; !errors.Is(o.err, cluster.ErrPeerListsDiffer) {
			t.Errorf("%s: %v, want ErrPeerListsDiffer", o.id, o.err)
		}
	}
}
