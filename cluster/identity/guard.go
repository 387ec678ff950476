package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"
)

var (
	// ErrRevoked is returned for a certificate that the cluster no longer accepts.
	ErrRevoked = errors.New("certificate has been revoked")
	// ErrNotMember is returned for a replica that is not a member of the cluster.
	ErrNotMember = errors.New("not a member of the cluster")
)

// guard keeps the open connections of a process, so that none outlives the certificate of its peer.
type guard struct {
	mu sync.Mutex
	// revoked returns what returns an error for a certificate that is no longer accepted, nil if all are; it is nil if none is known.
	revoked func() func(Shown) error
	// member returns an error for the name of a replica that is no member; nil if none is known.
	member func(name string) error
	open   map[*Guarded]struct{}
}

// Shown is what a certificate says.
type Shown struct {
	Who    Identity
	Serial string
	Issued time.Time
}

func shown(cert *x509.Certificate, who Identity) Shown {
	return Shown{Who: who, Serial: Serial(cert), Issued: Issued(cert)}
}

// Heed makes the function that revoked returns decide which certificates are no longer accepted, besides those
// that have expired. It returns an error that says why, and is nil while all are accepted. Call Review for connections
// that are open.
func (c *Credentials) Heed(revoked func() func(Shown) error) {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	c.guard.revoked = revoked
}

// HeedMembers makes the function member decide which replicas are members. It returns an error that
// says why one is not. Review closes the connections of a member that no longer is one.
func (c *Credentials) HeedMembers(member func(name string) error) {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	c.guard.member = member
}

// Member returns ErrNotMember if the peer is a replica, but no member of the cluster. Without
// HeedMembers every replica counts as a member.
func (c *Credentials) Member(peer Identity) error { return c.guard.excludes(peer) }

func (g *guard) excludes(peer Identity) error {
	if peer.Role != Replica {
		return nil
	}
	g.mu.Lock()
	member := g.member
	g.mu.Unlock()
	if member == nil {
		return nil
	}
	if err := member(peer.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrNotMember, err)
	}
	return nil
}

// refusing returns the function that returns an error for a certificate that the cluster no longer accepts, as of now.
func (g *guard) refusing() func(Shown) error {
	g.mu.Lock()
	revoked := g.revoked
	g.mu.Unlock()
	var why func(Shown) error
	if revoked != nil {
		why = revoked()
	}
	return func(peer Shown) error {
		if why == nil {
			return nil
		}
		if err := why(peer); err != nil {
			return fmt.Errorf("%w: %w", ErrRevoked, err)
		}
		return nil
	}
}

// Guarded is a connection below TLS that Review closes when the certificate of its peer is no
// longer accepted.
type Guarded struct {
	net.Conn
	guard *guard
	peer  *x509.Certificate
	shown Shown
	// roots are those with which the certificate was last verified.
	roots *x509.CertPool
	// joined: the peer was a member when it was last looked at, or need not be one.
	joined bool
}

// Guard returns a connection on which TLS is about to begin, and the configuration with which it
// must begin.
func (c *Credentials) Guard(conn net.Conn, config *tls.Config) (*Guarded, *tls.Config) {
	g := &Guarded{Conn: conn, guard: &c.guard}
	config = config.Clone()
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		roots := c.current.Load().roots // If verify finds newer ones, Review verifies again.
		if err := verify(state); err != nil {
			return err
		}
		who, err := PeerIdentity(state)
		if err != nil {
			return err
		}
		joined := g.guard.excludes(who) == nil
		g.guard.mu.Lock()
		g.peer, g.shown, g.joined, g.roots = state.PeerCertificates[0], shown(state.PeerCertificates[0], who), joined, roots
		if g.guard.open == nil {
			g.guard.open = make(map[*Guarded]struct{})
		}
		g.guard.open[g] = struct{}{}
		g.guard.mu.Unlock()
		// Review finds the connection from now on. What changed since verify looked is found here.
		if c.current.Load().roots != roots || !joined {
			return verify(state)
		}
		return g.guard.refusing()(g.shown)
	}
	return g, config
}

// Close implements net.Conn.
func (g *Guarded) Close() error {
	g.guard.mu.Lock()
	delete(g.guard.open, g)
	g.guard.mu.Unlock()
	return g.Conn.Close()
}

// Review closes the connections whose peer has a certificate that has expired, is no longer
// accepted or is of an authority that Reload has found to be gone, or was a member and no longer is one, and returns why, for each of them. It is for one
// goroutine at a time.
func (c *Credentials) Review(now time.Time) (closed []error) {
	c.guard.mu.Lock()
	open := make([]*Guarded, 0, len(c.guard.open))
	for g := range c.guard.open {
		open = append(open, g)
	}
	c.guard.mu.Unlock()
	roots, refuses := c.current.Load().roots, c.guard.refusing()
	for _, g := range open {
		err := refuses(g.shown)
		if err == nil && g.roots != roots {
			_, err = verifyChain([]*x509.Certificate{g.peer}, roots, x509.ExtKeyUsageAny, now)
			g.roots = roots
		}
		if err == nil && now.After(g.peer.NotAfter) {
			err = fmt.Errorf("%w: it was valid until %s", ErrExpired, stamp(g.peer.NotAfter))
		}
		excluded := c.guard.excludes(g.shown.Who)
		if err == nil && g.joined {
			err = excluded
		}
		g.joined = excluded == nil
		if err != nil {
			_ = g.Close()
			closed = append(closed, fmt.Errorf("connection with %s (%s) closed: %w", g.shown.Who, g.RemoteAddr(), err))
		}
	}
	return closed
}

// Serial returns the serial number of a certificate as text.
func Serial(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// Issued returns when a certificate was issued, to the second.
func Issued(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(backdate) }

// RenewalDue reports whether less than a third of a certificate's validity is left.
func RenewalDue(cert *x509.Certificate, now time.Time) bool {
	return cert.NotAfter.Sub(now) < cert.NotAfter.Sub(Issued(cert))/3
}

// OfCertificate returns the identity in a certificate of a cluster.
func OfCertificate(cert *x509.Certificate) (Identity, error) { return ofCertificate(cert) }

// FolderCertificate reads the certificate in a credentials folder.
func FolderCertificate(dir string) (*x509.Certificate, error) {
	return ReadCertificate(filepath.Join(dir, certFile))
}

// ReadCertificate reads the certificate in a file.
func ReadCertificate(path string) (*x509.Certificate, error) {
	return readCert(path)
}
