package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
)

// howToIssue ends errors about credentials that have to be issued again.
const howToIssue = "issue a credentials folder with the cluster's authority"

// Credentials are the certificate, key and root with which a process proves its
// identity and verifies others'. They are safe for concurrent use.
type Credentials struct {
	dir       string
	self      Identity
	gossipKey []byte
	vaultKey  []byte
	current   atomic.Pointer[material]
	guard     guard
}

// material is the part of Credentials that Reload replaces.
type material struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

// LoadCredentials reads the credentials folder dir and checks that the
// certificate belongs to the key, was issued by the folder's authority and is
// valid now. An error names the file and what to do about it.
func LoadCredentials(dir string) (*Credentials, error) {
	self, loaded, err := load(dir, time.Now())
	if err != nil {
		return nil, fmt.Errorf("load credentials: %w", err)
	}
	c := &Credentials{dir: dir, self: self}
	if self.Role == Replica {
		if c.gossipKey, err = readGossipKey(dir); err != nil {
			return nil, fmt.Errorf("load credentials: %w", err)
		}
		if c.vaultKey, err = readVaultKey(dir); err != nil {
			return nil, fmt.Errorf("load credentials: %w", err)
		}
	}
	c.current.Store(loaded)
	return c, nil
}

// Identity returns the identity in the certificate.
func (c *Credentials) Identity() Identity { return c.self }

// GossipKey returns the key that encrypts gossip, nil unless the role is
// Replica.
func (c *Credentials) GossipKey() []byte { return bytes.Clone(c.gossipKey) }

// VaultKey returns the key that seals secrets, nil if the folder has none or the
// role is not Replica.
func (c *Credentials) VaultKey() []byte { return bytes.Clone(c.vaultKey) }

// Expires returns when the certificate expires. Other processes reject it after that time.
func (c *Credentials) Expires() time.Time { return c.current.Load().cert.Leaf.NotAfter }

// Serves reports whether the certificate is valid for a server.
func (c *Credentials) Serves() bool {
	return slices.Contains(c.current.Load().cert.Leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
}

// Reload reads the folder again, so that a renewed certificate takes effect
// for connections made from then on. The identity must be the same. On error
// the credentials stay unchanged.
func (c *Credentials) Reload() error {
	self, loaded, err := load(c.dir, time.Now())
	if err != nil {
		return fmt.Errorf("reload credentials: %w", err)
	}
	if self != c.self {
		return fmt.Errorf("reload credentials: %s: is for %s, but this process is %s: restart it to change its identity", filepath.Join(c.dir, certFile), self, c.self)
	}
	c.current.Store(loaded)
	return nil
}

func load(dir string, now time.Time) (Identity, *material, error) {
	authority, _, err := readCert(filepath.Join(dir, authorityCertFile))
	if err != nil {
		return Identity{}, nil, err
	}
	path := filepath.Join(dir, certFile)
	leaf, _, err := readCert(path)
	if err != nil {
		return Identity{}, nil, err
	}
	key, err := readKey(filepath.Join(dir, keyFile))
	if err != nil {
		return Identity{}, nil, err
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return Identity{}, nil, fmt.Errorf("%s: does not belong to %s: %s", filepath.Join(dir, keyFile), certFile, howToIssue)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	self, err := verifyChain([]*x509.Certificate{leaf}, roots, x509.ExtKeyUsageClientAuth, now)
	if err != nil {
		return Identity{}, nil, fmt.Errorf("%s: %w: %s", path, err, howToIssue)
	}
	cluster, err := clusterOfAuthority(authority)
	if err != nil {
		return Identity{}, nil, fmt.Errorf("%s: %w: %s", filepath.Join(dir, authorityCertFile), err, howToIssue)
	}
	if cluster != self.Cluster {
		return Identity{}, nil, fmt.Errorf("%s: %w: is for cluster %q, but %s belongs to %q", path, ErrWrongCluster, self.Cluster, authorityCertFile, cluster)
	}
	return self, &material{
		cert:  tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf},
		roots: roots,
	}, nil
}

func readCert(path string) (*x509.Certificate, []byte, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, nil, fmt.Errorf("%s: is not a PEM certificate: %s", path, howToIssue)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %s", path, err, howToIssue)
	}
	return cert, text, nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s: is not a PEM private key: %s", path, howToIssue)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: is not a PKCS #8 private key: %s", path, howToIssue)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: is not an ECDSA private key: %s", path, howToIssue)
	}
	return key, nil
}

func readGossipKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, gossipKeyFile)
	key, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if len(key) != gossipKeySize {
		return nil, fmt.Errorf("%s: is %d bytes long, want %d: copy it from another replica or from the authority's folder", path, len(key), gossipKeySize)
	}
	return key, nil
}

func readFile(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s", err, howToIssue)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: run as the folder's owner", err)
	}
	return content, err
}
