package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

var (
	// ErrNoCertificate is returned when a peer shows no certificate.
	ErrNoCertificate = errors.New("no certificate")
	// ErrForeignAuthority is returned for a certificate of another authority.
	ErrForeignAuthority = errors.New("certificate from another authority")
	// ErrExpired is returned for a certificate that has expired.
	ErrExpired = errors.New("certificate has expired")
	// ErrNotYetValid is returned for a certificate whose validity has not begun.
	ErrNotYetValid = errors.New("certificate is not yet valid")
	// ErrWrongCluster is returned for a certificate of another cluster.
	ErrWrongCluster = errors.New("wrong cluster")
	// ErrWrongRole is returned for a peer whose role is not admitted.
	ErrWrongRole = errors.New("wrong role")
	// ErrRefused is returned when the peer refused the connection.
	ErrRefused = errors.New("rejected by the peer")
)

// ServerConfig returns the configuration of a TLS server that admits only the
// allowed roles of its own cluster.
func (c *Credentials) ServerConfig(allowed ...Role) *tls.Config {
	return c.ServerConfigFor(func(string) []Role { return allowed })
}

// ServerConfigFor is ServerConfig for a server of several protocols: `allowed` gets the protocol
// that ALPN chose, or "" if it chose none, and returns the roles that may speak it. The caller sets
// NextProtos.
func (c *Credentials) ServerConfigFor(allowed func(protocol string) []Role) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current.Load().cert, nil
		},
		// VerifyConnection verifies the chain, and returns more precise errors.
		ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			return c.verifyPeer(state, x509.ExtKeyUsageClientAuth, allowed(state.NegotiatedProtocol))
		},
		// Without resumption each connection verifies the peer's current certificate.
		SessionTicketsDisabled: true,
	}
}

// ClientConfig returns the configuration of a TLS client that accepts only peers of its own cluster
// with the role `want`. The peer's host name is not checked.
func (c *Credentials) ClientConfig(want Role) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c.current.Load().cert, nil
		},
		// Skip the verification of host names, which do not identify processes of
		// a cluster. VerifyConnection verifies the chain, and cluster and role instead.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return c.verifyPeer(state, x509.ExtKeyUsageServerAuth, []Role{want})
		},
	}
}

func (c *Credentials) verifyPeer(state tls.ConnectionState, usage x509.ExtKeyUsage, allowed []Role) error {
	peer, err := verifyChain(state.PeerCertificates, c.current.Load().roots, usage, time.Now())
	if err != nil {
		return err
	}
	if peer.Cluster != c.self.Cluster {
		return fmt.Errorf("%w: %s: this is cluster %q", ErrWrongCluster, peer, c.self.Cluster)
	}
	if !slices.Contains(allowed, peer.Role) {
		return fmt.Errorf("%w: %s: want one of %v", ErrWrongRole, peer, allowed)
	}
	if err := c.guard.refusing()(shown(state.PeerCertificates[0], peer)); err != nil {
		return fmt.Errorf("%s: %w", peer, err)
	}
	return nil
}

// verifyChain verifies chain, the leaf first, and returns the leaf's identity.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) (Identity, error) {
	if len(chain) == 0 {
		return Identity{}, ErrNoCertificate
	}
	leaf := chain[0]
	id, err := ofCertificate(leaf)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrForeignAuthority, err)
	}
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		KeyUsages:     []x509.ExtKeyUsage{usage},
		CurrentTime:   now,
	})
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
		return id, nil
	case !errors.As(err, &invalid):
		return Identity{}, fmt.Errorf("%w: %s: %w", ErrForeignAuthority, id, err)
	case invalid.Reason == x509.IncompatibleUsage:
		// A server needs the certificate of a replica, or of an agent with hosts.
		return Identity{}, fmt.Errorf("%w: %s: %w", ErrWrongRole, id, err)
	case invalid.Reason != x509.Expired:
		return Identity{}, fmt.Errorf("%s: %w", id, err)
	case now.Before(invalid.Cert.NotBefore):
		return Identity{}, fmt.Errorf("%w: %s is valid from %s on, but it is %s now: check both clocks", ErrNotYetValid, id, stamp(invalid.Cert.NotBefore), stamp(now))
	}
	return Identity{}, fmt.Errorf("%w: %s was valid until %s, but it is %s now", ErrExpired, id, stamp(invalid.Cert.NotAfter), stamp(now))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// PeerIdentity returns the identity of the peer of a connection that a
// ServerConfig or ClientConfig has verified.
func PeerIdentity(state tls.ConnectionState) (Identity, error) {
	if len(state.PeerCertificates) == 0 {
		return Identity{}, fmt.Errorf("peer identity: %w", ErrNoCertificate)
	}
	id, err := ofCertificate(state.PeerCertificates[0])
	if err != nil {
		return Identity{}, fmt.Errorf("peer identity: %w", err)
	}
	return id, nil
}

// Explain adds to err the cause that crypto/tls hides: ErrNoCertificate when a client showed no
// certificate to this server, ErrRefused when the peer sent an alert, and a hint when the peer
// speaks plaintext. Other errors are returned unchanged.
func Explain(err error) error {
	var unexpected tls.RecordHeaderError
	var operation *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unexpected):
		return fmt.Errorf("peer sent plaintext instead of TLS: %w", err)
	case errors.As(err, &operation) && operation.Op == "remote error":
		return fmt.Errorf("%w: see its log: %w", ErrRefused, err)
	case strings.Contains(err.Error(), "client didn't provide a certificate"):
		return fmt.Errorf("%w: %w", ErrNoCertificate, err)
	}
	return err
}
