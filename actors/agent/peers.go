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

// Replicas sends questions to replicas.
type Replicas interface {
	// Ask sends msg to the gateway of a replica. It calls done once, with the answer or an error,
	// within timeout, from any goroutine.
	Ask(replica Replica, msg proto.Message, timeout time.Duration, done func(proto.Message, error))
	// Keep closes the connections to replicas that are not in members, the leader's full list. Ask
	// may still be called for such a replica.
	Keep(members []*actorpb.Replica)
}

// Connections is the part of a *remote.Remote that Peers needs.
type Connections interface {
	Connect(peer string) error
	Disconnect(peer string)
	Connected(peer string) bool
	RequestAsync(peer, name string, msg proto.Message, timeout time.Duration, done func(proto.Message, error))
}

// Peers reaches replicas by streams. It opens a stream when it is needed, and closes it when the
// replica has been removed. Peers is also the directory of the agent's Remote, which reports to
// Peers which streams are up:
//
//	peers := agent.NewPeers(500 * time.Millisecond)
//	r, err := remote.Start(system, remote.Config{Directory: peers, OnPeer: peers.OnPeer, …})
//	peers.Use(r)
type Peers struct {
	// linking keeps Keep from removing the address of a peer while a stream to it is being
	// requested.
	linking sync.Mutex

	mu          sync.Mutex
	patience    time.Duration
	connections Connections
	addresses   map[string]string
	// up holds a channel for each peer that questions wait for. The channel is closed when the
	// stream is up.
	up map[string]chan struct{}
}

// NewPeers returns Peers that let a question wait up to patience for a stream: half a second is
// long for a handshake, and short when a dead replica is asked before a live one.
func NewPeers(patience time.Duration) *Peers {
	return &Peers{patience: patience, addresses: map[string]string{}, up: map[string]chan struct{}{}}
}

// SetPatience changes how long a question waits for a stream.
func (p *Peers) SetPatience(patience time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.patience = patience
}

// Use sets the connections. It must be called before Ask.
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

// OnPeer wakes the questions that wait for a stream that has come up.
func (p *Peers) OnPeer(change remote.PeerChange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if up := p.up[change.Peer]; change.Up && up != nil {
		close(up)
		delete(p.up, change.Peer)
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
	deadline := time.Now().Add(timeout)
	go func() {
		if err := p.await(peer, replica.Address, timeout); err != nil {
			done(nil, fmt.Errorf("ask %s: %w", replica, err))
			return
		}
		c.RequestAsync(peer, actorpb.GatewayName, msg, max(time.Until(deadline), time.Millisecond), done)
	}()
}

// await requests a stream to a peer and waits until it is up.
func (p *Peers) await(peer, address string, timeout time.Duration) error {
	p.mu.Lock()
	late := time.NewTimer(min(timeout, p.patience))
	defer late.Stop()
	if p.up[peer] == nil {
		p.up[peer] = make(chan struct{})
	}
	up := p.up[peer]
	p.mu.Unlock()
	c, err := p.link(peer, address)
	// The stream may have come up in between.
	if err != nil || c.Connected(peer) {
		return err
	}
	select {
	case <-up:
		return nil
	case <-late.C:
		return remote.ErrNotConnected
	}
}

func peerOf(replica string) string {
	return remote.PeerName(identity.Identity{Role: identity.Replica, Name: replica})
}

// know stores a peer's address and returns the connections.
func (p *Peers) know(peer, address string) Connections {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses[peer] = address
	return p.connections
}

// link requests a stream to a peer.
func (p *Peers) link(peer, address string) (Connections, error) {
	p.linking.Lock()
	defer p.linking.Unlock()
	c := p.know(peer, address)
	return c, c.Connect(peer)
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
