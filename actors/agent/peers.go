package agent

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// Replicas asks replicas.
type Replicas interface {
	// Ask sends msg to the gateway of a replica and calls done once, with the
	// answer or an error, no later than after timeout, from any goroutine.
	Ask(replica Replica, msg proto.Message, timeout time.Duration, done func(proto.Message, error))
	// Keep gives up what is open to replicas that are none of members, which the leader
	// says are all. They may be asked again.
	Keep(members []*actorpb.Replica)
}

// Connections is what Peers needs of a *remote.Remote.
type Connections interface {
	Connect(peer string) error
	Disconnect(peer string)
	Connected(peer string) bool
	RequestAsync(peer, name string, msg proto.Message, timeout time.Duration, done func(proto.Message, error))
}

// Peers reaches replicas by streams that it opens when they are needed, and gives up
// when the replica has been removed. It is the directory of the agent's Remote, and
// hears from it which streams are up:
//
//	peers := agent.NewPeers(500 * time.Millisecond)
//	r, err := remote.Start(system, remote.Config{Directory: peers, OnPeer: peers.OnPeer, …})
//	peers.Use(r)
type Peers struct {
	patience time.Duration
	// linking is held while a stream is wanted, and while it is given up: one that is
	// wanted has an address.
	linking sync.Mutex

	mu          sync.Mutex
	connections Connections
	addresses   map[string]string
	// waiting are questions to peers that have no stream yet.
	waiting map[string][]*question
}

type question struct {
	msg      proto.Message
	deadline time.Time
	done     func(proto.Message, error)
	timer    *time.Timer
}

// NewPeers returns peers that a question waits for at most for patience, when
// there is no stream yet: half a second is long for a handshake, and short when a
// dead replica is asked before a live one.
func NewPeers(patience time.Duration) *Peers {
	return &Peers{patience: patience, addresses: map[string]string{}, waiting: map[string][]*question{}}
}

// Use says which connections to use. It must be called before Ask.
func (p *Peers) Use(c Connections) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections = c
}

// Address implements remote.Directory.
func (p *Peers) Address(peer string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	address, ok := p.addresses[peer]
	return address, ok
}

// OnPeer hears of streams that come up.
func (p *Peers) OnPeer(change remote.PeerChange) {
	if change.Up {
		p.flush(change.Peer)
	}
}

// Ask implements Replicas.
func (p *Peers) Ask(replica Replica, msg proto.Message, timeout time.Duration, done func(proto.Message, error)) {
	peer := peerOf(replica.ID)
	c := p.know(peer, replica.Address)
	if c.Connected(peer) {
		c.RequestAsync(peer, actorpb.GatewayName, msg, timeout, done)
		return
	}
	q := &question{msg: msg, deadline: time.Now().Add(timeout), done: done}
	p.mu.Lock()
	p.waiting[peer] = append(p.waiting[peer], q)
	q.timer = time.AfterFunc(min(timeout, p.patience), func() { p.giveUp(peer, q) })
	p.mu.Unlock()
	if err := p.link(peer, replica.Address); err != nil {
		p.fail(peer, q, fmt.Errorf("ask %s: %w", replica, err))
		return
	}
	// The stream may have come up in between.
	if c.Connected(peer) {
		p.flush(peer)
	}
}

func peerOf(replica string) string {
	return remote.PeerName(identity.Identity{Role: identity.Replica, Name: replica})
}

// know remembers where a peer is, and returns what connects with it.
func (p *Peers) know(peer, address string) Connections {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses[peer] = address
	return p.connections
}

// link has a stream opened to a peer.
func (p *Peers) link(peer, address string) error {
	p.linking.Lock()
	defer p.linking.Unlock()
	return p.know(peer, address).Connect(peer)
}

// Keep implements Replicas.
func (p *Peers) Keep(members []*actorpb.Replica) {
	kept := map[string]bool{}
	for _, m := range members {
		kept[peerOf(m.GetId())] = true
	}
	p.linking.Lock()
	defer p.linking.Unlock()
	p.mu.Lock()
	c := p.connections
	var gone []string
	for peer := range p.addresses {
		if !kept[peer] {
			gone = append(gone, peer)
			delete(p.addresses, peer)
		}
	}
	p.mu.Unlock()
	for _, peer := range gone {
		c.Disconnect(peer)
	}
}

// flush sends the questions that wait for a peer.
func (p *Peers) flush(peer string) {
	p.mu.Lock()
	questions := p.waiting[peer]
	delete(p.waiting, peer)
	c := p.connections
	p.mu.Unlock()
	for _, q := range questions {
		q.timer.Stop()
		c.RequestAsync(peer, actorpb.GatewayName, q.msg, max(time.Until(q.deadline), time.Millisecond), q.done)
	}
}

func (p *Peers) giveUp(peer string, q *question) {
	address, _ := p.Address(peer)
	p.fail(peer, q, fmt.Errorf("ask %s at %s: %w", peer, address, remote.ErrNotConnected))
}

// fail answers a question that still waits.
func (p *Peers) fail(peer string, q *question, err error) {
	if p.take(peer, q) {
		q.timer.Stop()
		q.done(nil, err)
	}
}

// take removes a question, and reports whether it was still waiting.
func (p *Peers) take(peer string, q *question) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	questions := p.waiting[peer]
	for i, waiting := range questions {
		if waiting == q {
			p.waiting[peer] = append(questions[:i:i], questions[i+1:]...)
			return true
		}
	}
	return false
}
