package remote

import (
	"weir/cluster/identity"
	"weir/messages/remotepb"
)

const (
	// protocol is the newest protocol version that this side supports.
	protocol = 1
	// oldestProtocol is the oldest protocol version that this side supports.
	oldestProtocol = 1
)

// counterpart is a peer as its hello describes it, after checkHello.
type counterpart struct {
	id              identity.Identity
	name            string
	incarnation     uint64
	version         string
	maxMessageBytes int
}

// checkHello decides whether the sender of hello may be a peer of self. certified is the identity
// in the sender's certificate; nil without TLS. dialed is the peer that this side dialed. It is ""
// if the other side opened the stream, so that the sender may be any peer.
func checkHello(self identity.Identity, certified *identity.Identity, dialed string, hello *remotepb.Hello) (counterpart, error) {
	if hello == nil {
		return counterpart{}, refusef("first frame is not a hello: is the peer a weir process?")
	}
	if hello.GetProtocol() < oldestProtocol {
		return counterpart{}, refusef("protocol %d of weir %q is too old: %s supports %d and later: upgrade the older side",
			hello.GetProtocol(), hello.GetVersion(), PeerName(self), oldestProtocol)
	}
	if hello.GetCluster() != self.Cluster {
		return counterpart{}, refusef("%s belongs to cluster %q, but %s to cluster %q", hello.GetPeer(), hello.GetCluster(), PeerName(self), self.Cluster)
	}
	role, name, err := ParsePeer(hello.GetPeer())
	if err != nil {
		return counterpart{}, refusef("%v", err)
	}
	id := identity.Identity{Cluster: self.Cluster, Role: role, Name: name}
	if err := id.Validate(); err != nil {
		return counterpart{}, refusef("%v", err)
	}
	switch {
	case certified != nil && *certified != id:
		return counterpart{}, refusef("certificate identifies %s, but hello is from %s", certified, id)
	case dialed != "" && hello.GetPeer() != dialed:
		return counterpart{}, refusef("dialed %s, but reached %s: is the address right?", dialed, hello.GetPeer())
	case hello.GetTo() != PeerName(self):
		return counterpart{}, refusef("hello is for %s, but this is %s: is the address right?", hello.GetTo(), PeerName(self))
	case id == self:
		return counterpart{}, refusef("%s is connecting to itself, or two processes share its name", PeerName(self))
	case hello.GetIncarnation() == 0:
		return counterpart{}, refusef("hello of %s has no incarnation", hello.GetPeer())
	case hello.GetMaxMessageBytes() == 0:
		return counterpart{}, refusef("hello of %s has no message limit", hello.GetPeer())
	}
	return counterpart{
		id:              id,
		name:            hello.GetPeer(),
		incarnation:     hello.GetIncarnation(),
		version:         hello.GetVersion(),
		maxMessageBytes: int(min(hello.GetMaxMessageBytes(), uint64(1)<<31-1)),
	}, nil
}
