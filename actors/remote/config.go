package remote

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"weir/cluster/identity"
)

// Directory knows where peers listen.
type Directory interface {
	// Address returns the host:port of peer, role/name. It must not block.
	Address(peer string) (addr string, ok bool)
}

// Dialer makes the clients by which peers are reached. *wire.Dialer is one.
type Dialer interface {
	// HTTPClient returns a new client, with connections of its own, that speaks
	// HTTP/2. A stream lasts, so the timeout asked for is 0, none.
	HTTPClient(timeout time.Duration) *http.Client
	// URL returns the base URL of the peer at addr.
	URL(addr string) string
}

// Candidate is a peer whose stream is about to come up.
type Candidate struct {
	// Peer is its name, role/name, and Identity the same, proven by its
	// certificate where there are certificates.
	Peer     string
	Identity identity.Identity
	// Incarnation tells its lives apart.
	Incarnation uint64
	// Version is its software version.
	Version string
	// Rival is the incarnation of another process of the same name which is
	// connected at this moment and would be cut off; 0 when there is none.
	Rival uint64
}

// PeerChange says that the stream of a peer has come up or ended.
type PeerChange struct {
	Peer        string
	Identity    identity.Identity
	Incarnation uint64
	Version     string
	Up          bool
	// Reason says why the stream has ended.
	Reason string
	// Bye: the peer has ended it, and said so.
	Bye bool
}

// Config says who a Remote is and whom it may reach.
type Config struct {
	// Self is this process. Its cluster is the one that IdentityOf reports of
	// peers: over plaintext ports of cluster/wire that is "insecure".
	Self identity.Identity
	// Incarnation tells the lives of this process apart: random, not 0, new at
	// each start. Default: chosen by Start.
	Incarnation uint64
	// Version is this software's version, told to peers for their logs.
	Version string
	// Directory and Dialer are needed to Connect; a process that never does may
	// leave both out.
	Directory Directory
	Dialer    Dialer
	// IdentityOf says who opens a stream at Handler, by certificate;
	// wire.IdentityOfRequest does. Without it Handler refuses everybody.
	IdentityOf func(*http.Request) (identity.Identity, error)
	// Admit is asked before a stream comes up; an error refuses it, and the peer
	// is told. It is called with locks held, so it must not block, nor call the
	// Remote. Default: all may come.
	Admit func(Candidate) error
	// OnPeer is told of peers that come and go, in order for each peer, one call
	// at a time. It must not wait for Close.
	OnPeer func(PeerChange)
	// Limits bounds queues and waits. Default: DefaultLimits.
	Limits Limits
	// Logger gets what an operator cares about. Default: the system's.
	Logger *slog.Logger
}

// complete fills in defaults and returns an error that names what is missing.
func (c *Config) complete() error {
	if err := c.Self.Validate(); err != nil {
		return fmt.Errorf("self: %w", err)
	}
	if (c.Directory == nil) != (c.Dialer == nil) {
		return errors.New("directory and dialer must be set together")
	}
	if c.Incarnation == 0 {
		c.Incarnation = newIncarnation()
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
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
