package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"

	"weir/cluster/identity"
)

// Directory knows the addresses of peers.
type Directory interface {
	// Address returns the host:port of peer, role/name. It must not block.
	Address(peer string) (addr string, ok bool)
}

// Dialer connects to peers. *wire.Dialer is one.
type Dialer interface {
	// Upgrade returns a connection to the peer at addr that speaks the protocol after an upgrade at path. The error
	// is an http.ErrNotSupported if the peer does not know the protocol.
	Upgrade(ctx context.Context, addr, path, protocol string) (net.Conn, error)
	// StreamClient returns a new client, with connections of its own, that speaks HTTP/2 and has no timeout. It
	// need not look for dead peers.
	StreamClient() *http.Client
	// URL returns the base URL of the peer at addr.
	URL(addr string) string
}

// Candidate is a peer whose stream is about to be established.
type Candidate struct {
	// Peer is the candidate's name, as role/name. Identity is proven by its certificate, unless the
	// cluster is insecure.
	Peer     string
	Identity identity.Identity
	// Incarnation identifies the candidate's process among processes of the same name.
	Incarnation uint64
	// Version is its software version.
	Version string
	// Rival is the incarnation of another process of the same name whose stream is up. That stream
	// ends if the candidate is admitted. 0 means none.
	Rival uint64
}

// PeerChange reports that the stream of a peer has been established or has ended.
type PeerChange struct {
	Peer        string
	Identity    identity.Identity
	Incarnation uint64
	Version     string
	Up          bool
	// Reason says why the stream has ended.
	Reason string
	// Bye says that the peer ended the stream on purpose, with a Bye.
	Bye bool
}

// Config configures a Remote.
type Config struct {
	// Self is this process. Its cluster must be the one that IdentityOf returns for peers. With the
	// plaintext ports of cluster/wire, that is "insecure".
	Self identity.Identity
	// Incarnation identifies this process among processes of the same name: random, not 0, new at each
	// start. Default: chosen by Start.
	Incarnation uint64
	// Version is this software's version, which peers log.
	Version string
	// Directory and Dialer are needed only for Connect. Set both or none.
	Directory Directory
	Dialer    Dialer
	// IdentityOf returns the identity of the peer that opens a stream at Handler, such as
	// wire.IdentityOfRequest. If it is nil, Handler refuses all streams.
	IdentityOf func(*http.Request) (identity.Identity, error)
	// Admit is called before a stream comes up; an error refuses the stream and is
	// sent to the peer. It is called with locks held, so it must not block or call
	// the Remote. Default: all streams are admitted.
	Admit func(Candidate) error
	// OnPeer is called when a peer connects or disconnects, in order for each peer,
	// one call at a time. It must not wait for Close.
	OnPeer func(PeerChange)
	// Limits bounds queues and waits. Default: DefaultLimits.
	Limits Limits
	// Logger gets the messages for operators. Default: the system's.
	Logger *slog.Logger
}

// complete fills in defaults and validates c.
func (c *Config) complete() error {
	if err := c.Self.Validate(); err != nil {
		return fmt.Errorf("self: %w", err)
	}
	if (c.Directory == nil) != (c.Dialer == nil) {
		return errors.New("directory and dialer must be set together")
	}
	c.Incarnation, c.Limits = cmp.Or(c.Incarnation, newIncarnation()), cmp.Or(c.Limits, DefaultLimits())
	if c.Admit == nil {
		c.Admit = func(Candidate) error { return nil }
	}
	if c.OnPeer == nil {
		c.OnPeer = func(PeerChange) {}
	}
	return c.Limits.Validate()
}

// newIncarnation returns a random number other than 0.
func newIncarnation() uint64 { return rand.Uint64N(math.MaxUint64) + 1 }
