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
}

// Connections is what Peers needs of a *remote.Remote.
type Connections interface {
	Connect(peer string) error
	Connected(peer string) bool
	RequestAsync(peer, name string, msg proto.Message, timeout time.Duration, done func(proto.Message, error))
}

// Peers reaches replicas by streams that it opens when they are needed. It is the
// directory of the agent's Remote, and hears from it which streams are up:
//
//	peers := agent.NewPeers(500 * time.Millisecond)
//	r, err := remote.Start(system, remote.Config{Directory: peers, OnPeer: peers.OnPeer, …})
//	peers.Use(r)
type Peers struct {
	patience time.Duration

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
	peer := remote.PeerName(identity.Identity{Role: identity.Replica, Name: replica.ID})
	p.mu.Lock()
	p.addresses[peer] = replica.Address
	c := p.connections
	p.mu.Unlock()
	if c.Connected(peer) {
		c.RequestAsync(peer, actorpb.GatewayName, msg, timeout, done)
		return
	}
	q := &question{msg: msg, deadline: time.Now().Add(timeout), done: done}
	p.mu.Lock()
	p.waiting[peer] = append(p.waiting[peer], q)
	q.timer = time.AfterFunc(min(timeout, p.patience), func() { p.giveUp(peer, q) })
	p.mu.Unlock()
	if err := c.Connect(peer); err != nil {
		p.fail(peer, q, fmt.Errorf("ask %s: %w", replica, err))
		return
	}
	// The stream may have come up in between.
	if c.Connected(peer) {
		p.flush(peer)
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
