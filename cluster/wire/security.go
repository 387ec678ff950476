package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"weir/cluster/identity"
)

// protocol is what a connection carries.
type protocol uint8

const (
	raftProtocol protocol = iota + 1
	gossipProtocol
	httpProtocol
)

// The names of the protocols in ALPN.
const (
	alpnRaft   = "weir-raft/1"
	alpnGossip = "weir-gossip/1"
	alpnHTTP2  = "h2"
	alpnHTTP1  = "http/1.1"
	// alpnNone stands for clients without ALPN, such as old and simple HTTP clients:
	// they speak HTTP/1.1.
	alpnNone = ""
)

var protocolNames = [...]string{raftProtocol: "raft", gossipProtocol: "gossip", httpProtocol: "http"}

func (p protocol) String() string {
	if p > 0 && int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return fmt.Sprintf("protocol(%d)", uint8(p))
}

// alpn returns the protocol's name in a TLS handshake.
func (p protocol) alpn() string {
	if p == raftProtocol {
		return alpnRaft
	}
	return alpnGossip
}

// protocolOf returns the protocol with that name in ALPN.
func protocolOf(name string) (protocol, bool) {
	switch name {
	case alpnRaft:
		return raftProtocol, true
	case alpnGossip:
		return gossipProtocol, true
	case alpnHTTP2, alpnHTTP1, alpnNone:
		return httpProtocol, true
	}
	return 0, false
}

// rolesOf returns the roles that may speak the protocol with that name in ALPN.
// An unknown protocol has none.
func rolesOf(name string) []identity.Role {
	switch p, _ := protocolOf(name); p {
	case raftProtocol, gossipProtocol:
		return []identity.Role{identity.Replica}
	case httpProtocol:
		return identity.Roles()
	}
	return nil
}

// Bytes at the start of a connection.
const (
	// byteRaft and byteGossip choose the protocol of a plaintext connection.
	byteRaft   = 0x01
	byteGossip = 0x02
	// preface follows that byte. Together they are as long as the header of a TLS
	// record, so that a peer that expects TLS sees the mistake and answers at once.
	preface = "weir"
	// byteAccepted is what the accepting replica answers on raft and gossip
	// connections, under TLS too.
	byteAccepted = 0x06
	// byteHandshake is the first byte that a TLS client sends.
	byteHandshake = 0x16
)

// Security says how connections are protected: Mutual or Insecure.
type Security interface {
	// validate returns an error if the value is unusable.
	validate() error
}

// Mutual protects connections with mutual TLS 1.3.
type Mutual struct {
	// Credentials prove this process's identity and verify the peers'.
	Credentials *identity.Credentials
	// Reload has a Dialer read the credentials folder again before each connection, for processes
	// that do not do so by themselves. If that fails, the credentials stay as they were.
	Reload bool
}

func (m Mutual) validate() error {
	if m.Credentials == nil {
		return errors.New("mutual TLS without credentials: load a credentials folder")
	}
	return nil
}

// server returns the TLS configuration of a Mux, for the roles `only` if there are any.
func (m Mutual) server(only []identity.Role) *tls.Config {
	if only != nil {
		config := m.Credentials.ServerConfig(only...)
		config.NextProtos = []string{alpnHTTP1}
		return config
	}
	config := m.membersOnly(m.Credentials.ServerConfigFor(rolesOf), ofReplicas)
	config.NextProtos = []string{alpnRaft, alpnGossip, alpnHTTP2, alpnHTTP1}
	return config
}

// membersOnly makes connections for which the function needs says so need a peer that is a member of
// the cluster, if the peer is a replica.
func (m Mutual) membersOnly(config *tls.Config, needs func(protocol) bool) *tls.Config {
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := verify(state); err != nil {
			return err
		}
		if p, _ := protocolOf(state.NegotiatedProtocol); !needs(p) {
			return nil
		}
		peer, err := identity.PeerIdentity(state)
		if err != nil {
			return err
		}
		if err := m.Credentials.Member(peer); err != nil {
			return fmt.Errorf("%s: %w", peer, err)
		}
		return nil
	}
	return config
}

// ofReplicas: only replicas speak the protocol. A replica that is no member may still ask over HTTP to
// become one.
func ofReplicas(p protocol) bool { return p == raftProtocol || p == gossipProtocol }

// shake does the handshake of a client with a replica. A replica calls members only, over HTTP too: what
// one that was removed answers would be taken for the cluster's word.
func (m Mutual) shake(ctx context.Context, raw net.Conn, protocols ...string) (*tls.Conn, error) {
	if m.Reload {
		_ = m.Credentials.Reload() // The handshake says what is wrong with the old ones, if anything.
	}
	guarded, config := m.Credentials.Guard(raw, m.membersOnly(m.Credentials.ClientConfig(identity.Replica), func(protocol) bool { return true }))
	config.NextProtos = protocols
	secured := tls.Client(guarded, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = guarded.Close()
		return nil, err
	}
	return secured, nil
}

// Insecure leaves connections unprotected and accepts any claimed identity. It
// is for experiments on one machine.
type Insecure struct {
	// Self is the identity that a Dialer claims in HTTP requests. The zero value
	// claims none, and peers then treat it as an operator.
	Self identity.Identity
}

func (i Insecure) validate() error {
	if i.Self == (identity.Identity{}) {
		return nil
	}
	self := i.Self
	self.Cluster = InsecureCluster
	return self.Validate()
}
