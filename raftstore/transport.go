package raftstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transport is raft's network transport over the caller's Transport. For each peer it
// also keeps the send time of the latest request that the peer answered as our follower.
type transport struct {
	*raft.NetworkTransport
	stream *streamLayer
	book   *addressBook
	// beats are the heartbeats that this replica receives.
	beats *heartbeats
	// announcer is notified of the entries that followers have; it is set once raft runs.
	announcer atomic.Pointer[announcer]
	// silent are the peers to which entries are not sent yet.
	silent silences
	// late are the heartbeats that this replica sends.
	late lateness
	// doubtful reports whether this replica's disk may hang.
	doubtful func() bool
	// written waits until this replica has written the entries up to an index.
	written func(index uint64) error
	// appendBytes bounds the entries of a request.
	appendBytes int64

	mu   sync.Mutex
	acks map[raft.ServerID]ack
	// news is closed with the next answer that any peer gives as a follower.
	news chan struct{}
	// near holds the time at which each peer came within nearEntries of the commit index. A peer
	// that is further behind is not in the map.
	near map[raft.ServerID]time.Time
}

// ack records that a peer has answered a request as a follower of the leader of a term. The request
// was sent at `sent`. The peer's log reached at least the index `last`.
type ack struct {
	term uint64
	sent time.Time
	last uint64
}

const (
	// nearEntries is how many committed entries a peer may lack and still count as near. A few
	// requests carry that many.
	nearEntries = 64
	// appendEntries is how many entries raft reads for a request to a follower, before the request
	// is cut to Config.AppendBytes; so it bounds what is read in vain when entries are large.
	appendEntries = 16
)

func newTransport(cfg Config, d *disk, log hclog.Logger) *transport {
	stream := newStreamLayer(cfg)
	book := &addressBook{locate: cfg.Locate, configured: map[raft.ServerID]raft.ServerAddress{raft.ServerID(cfg.ReplicaID): raft.ServerAddress(cfg.Address)}}
	for _, p := range cfg.InitialPeers {
		book.configured[raft.ServerID(p.ID)] = raft.ServerAddress(p.Address)
	}
	t := &transport{
		stream:      stream,
		book:        book,
		beats:       newHeartbeats(&d.term),
		doubtful:    d.doubtful,
		appendBytes: cfg.AppendBytes,
		acks:        make(map[raft.ServerID]ack),
		near:        make(map[raft.ServerID]time.Time),
		news:        make(chan struct{}),
		silent:      silences{peers: map[raft.ServerID]*silence{}},
		late:        lateness{limit: cfg.Timeouts.lateness(), peers: map[raft.ServerID]*pulse{}},
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:                stream,
			ServerAddressProvider: book,
			MaxPool:               3,
			// With more than one in flight, a follower that has stalled may never catch up, and
			// raft would hear of entries that followers have stored without AppendEntries.
			MaxRPCsInFlight: 1,
			Timeout:         cfg.Timeouts.RPC,
			Logger:          log,
		}),
	}
	go t.beats.passAll(t.NetworkTransport.Consumer())
	return t
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.beats.calls }

// SetHeartbeatHandler implements raft.Transport.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.beats.handle = handle
	t.NetworkTransport.SetHeartbeatHandler(t.beats.take)
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.beats.close()
	return t.NetworkTransport.Close()
}

// errDoubtful is returned instead of sending a request to a follower.
var errDoubtful = errors.New("slow write to the log; no heartbeats until it ends")

// AppendEntries implements raft.Transport; heartbeats use it too. A leader whose disk may hang
// sends nothing, so that it is replaced sooner if the disk does hang. Entries for a silent peer wait.
// Raft learns that a peer has stored entries once this replica has too.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	beat := isHeartbeat(req)
	if !beat {
		t.silent.await(t.stream.ctx, id, req.Term)
	}
	if t.doubtful() {
		return errDoubtful
	}
	if beat {
		return t.late.beat(id, req.Term, resp, func(resp *raft.AppendEntriesResponse) error {
			if t.doubtful() {
				return errDoubtful
			}
			return t.send(id, target, req, resp)
		})
	}
	// Raft goes on after the last entry that is left, as it does after a request that is full.
	req.Entries = firstBytes(req.Entries, t.appendBytes)
	sent := time.Now()
	err := t.send(id, target, req, resp)
	if err == nil && resp.Term == req.Term {
		t.late.follows(id, req.Term, sent, *resp)
	}
	if n := len(req.Entries); n > 0 && err == nil && resp.Success {
		err = t.written(req.Entries[n-1].Index)
	}
	return err
}

// send sends a request, and takes note of the answer.
func (t *transport) send(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent := time.Now()
	err := t.NetworkTransport.AppendEntries(id, target, req, resp)
	t.silent.heard(id, req.Term, err == nil)
	if r := t.book.raft.Load(); r != nil && err == nil && resp.Term == req.Term {
		t.acked(id, ack{term: req.Term, sent: sent, last: resp.LastLog}, r.CommitIndex())
	}
	if a := t.announcer.Load(); a != nil && err == nil && resp.Success && resp.Term == req.Term {
		has := req.PrevLogEntry
		if n := len(req.Entries); n > 0 {
			has = req.Entries[n-1].Index
		}
		a.stored(id, req.Term, has, req.LeaderCommitIndex)
	}
	return err
}

// firstBytes returns the first of entries that have at most limit bytes together; one at least.
func firstBytes(entries []*raft.Log, limit int64) []*raft.Log {
	for i, entry := range entries {
		if limit -= sizeOf(entry); limit < 0 && i > 0 {
			return entries[:i]
		}
	}
	return entries
}

// acked records a peer's ack. The parameter commit is the commit index at that time.
func (t *transport) acked(id raft.ServerID, a ack, commit uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.news)
	t.news = make(chan struct{})
	old := t.acks[id]
	if a.term < old.term || a.term == old.term && !a.sent.After(old.sent) {
		return
	}
	t.acks[id] = a
	if a.last+nearEntries < commit {
		delete(t.near, id)
	} else if _, near := t.near[id]; !near || a.term != old.term {
		t.near[id] = a.sent
	}
}

// follows reports whether the peer has answered as a follower in the given term to a request sent
// at `since` or later. near is how long the peer has been within nearEntries of the commit index in
// that term; 0 if it is further behind.
func (t *transport) follows(id raft.ServerID, term uint64, since, now time.Time) (follows bool, near time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok := t.acks[id]
	if !ok || a.term != term || a.sent.Before(since) {
		return false, 0
	}
	if begin, ok := t.near[id]; ok {
		near = max(now.Sub(begin), 1)
	}
	return true, near
}

// nextAck returns a channel that is closed with the next answer that any peer gives as a follower.
func (t *transport) nextAck() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.news
}

// forget drops the data about a peer.
func (t *transport) forget(id raft.ServerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.near, id)
	delete(t.acks, id)
	// Nothing is held for it any more.
	t.silent.heard(id, 0, true)
	t.late.forget(id)
}

// followedSince reports whether a majority of voters, which includes self, has answered as
// followers in the term to requests sent at `since` or later. If so, no leader of a later term
// existed at that time.
func (t *transport) followedSince(self raft.ServerID, voters []raft.ServerID, term uint64, since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	followed := 0
	for _, id := range voters {
		if a := t.acks[id]; id == self || a.term == term && !a.sent.Before(since) {
			followed++
		}
	}
	return slices.Contains(voters, self) && followed > len(voters)/2
}

// closeConns closes the listener and every connection, which raft leaves open.
func (t *transport) closeConns() error { return t.stream.Close() }

// addressBook finds the address of a replica. It asks the function `locate` first, and looks in the
// configuration and in the log after that.
type addressBook struct {
	locate     func(string) (string, bool)
	configured map[raft.ServerID]raft.ServerAddress
	// raft is set once raft runs.
	raft atomic.Pointer[raft.Raft]
}

// ServerAddr implements raft.ServerAddressProvider.
func (b *addressBook) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if b.locate != nil {
		if address, ok := b.locate(string(id)); ok {
			return raft.ServerAddress(address), nil
		}
	}
	if address, ok := b.configured[id]; ok {
		return address, nil
	}
	if r := b.raft.Load(); r != nil {
		for _, server := range r.GetConfiguration().Configuration().Servers {
			if server.ID == id {
				return server.Address, nil
			}
		}
	}
	return "", fmt.Errorf("address of replica %q: neither configured nor in the log", id)
}

// replicaAddr is the address that a replica announces to others.
type replicaAddr string

// Network implements net.Addr.
func (replicaAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a replicaAddr) String() string { return string(a) }

// streamLayer implements raft.StreamLayer. Its Close ends every connection.
type streamLayer struct {
	Transport
	address replicaAddr
	// ctx ends with Close and closes all connections, including those being established.
	ctx  context.Context
	stop func() error
	// parted holds a token after a connection that another replica has made was closed.
	parted chan struct{}
}

var _ raft.StreamLayer = (*streamLayer)(nil)

func newStreamLayer(cfg Config) *streamLayer {
	ctx, cancel := context.WithCancel(context.Background())
	return &streamLayer{Transport: cfg.Transport, address: replicaAddr(cfg.Address), ctx: ctx, parted: make(chan struct{}, 1), stop: sync.OnceValue(func() error {
		cancel()
		return cfg.Transport.Listener.Close()
	})}
}

// Accept implements net.Listener.
func (s *streamLayer) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return acceptedConn{s.bound(conn), s.parted}, nil
}

// Addr implements net.Listener: it returns the address that others use, which may differ
// from the listening address.
func (s *streamLayer) Addr() net.Addr { return s.address }

// Dial implements raft.StreamLayer.
func (s *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	conn, err := s.Transport.Dial(ctx, string(address))
	if err != nil {
		return nil, fmt.Errorf("connect to replica at %s: %w", address, err)
	}
	return s.bound(conn), nil
}

// Close implements net.Listener and closes every connection too.
func (s *streamLayer) Close() error { return s.stop() }

// bound returns a connection that is closed with the layer. The error of that close is
// ignored: the connection is given up anyway.
func (s *streamLayer) bound(conn net.Conn) boundConn {
	return boundConn{conn, context.AfterFunc(s.ctx, func() { _ = conn.Close() })}
}

// boundConn unregisters from its layer when it is closed.
type boundConn struct {
	net.Conn
	release func() bool
}

// Close implements net.Conn.
func (c boundConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// acceptedConn leaves a token when it is closed, as raft does once the replica that made it is gone.
type acceptedConn struct {
	boundConn
	parted chan<- struct{}
}

// Close implements net.Conn.
func (c acceptedConn) Close() error {
	select {
	case c.parted <- struct{}{}:
	default:
	}
	return c.boundConn.Close()
}
