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
	"sync"
	"sync/atomic"
	"time"
)

// howToIssue ends errors about credentials that have to be issued again.
const howToIssue = "issue a credentials folder with the cluster's authority"

// Credentials are the certificate, key and roots with which a process proves its
// identity and verifies others'. They are safe for concurrent use.
type Credentials struct {
	dir      string
	self     Identity
	vaultKey []byte
	current  atomic.Pointer[material]
	guard    guard

	// mu serializes Reload and HeedGossipKeys.
	mu  sync.Mutex
	use func(keys [][]byte) error
}

// material is the part of Credentials that Reload replaces.
type material struct {
	cert tls.Certificate
	// authorities are in roots. A Reload that finds the same keeps roots.
	authorities []*x509.Certificate
	roots       *x509.CertPool
	// gossipKeys are those of a replica: the first encrypts.
	gossipKeys [][]byte
	// holds is what others are told of it.
	holds Standing
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
		if c.vaultKey, err = readVaultKey(dir); err != nil {
			return nil, fmt.Errorf("load credentials: %w", err)
		}
	}
	c.current.Store(loaded)
	return c, nil
}

// Identity returns the identity in the certificate.
func (c *Credentials) Identity() Identity { return c.self }

// GossipKeys returns the keys of gossip, none unless the role is Replica. The first
// encrypts; what others have encrypted may have any of them.
func (c *Credentials) GossipKeys() [][]byte {
	var keys [][]byte
	for _, key := range c.current.Load().gossipKeys {
		keys = append(keys, bytes.Clone(key))
	}
	return keys
}

// HeedGossipKeys has use called with the keys of gossip, now and after each Reload that finds
// others. An error is returned, by Reload later on.
func (c *Credentials) HeedGossipKeys(use func(keys [][]byte) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use = use
	return use(c.GossipKeys())
}

// VaultKey returns the key that seals secrets, nil if the folder has none or the
// role is not Replica.
func (c *Credentials) VaultKey() []byte { return bytes.Clone(c.vaultKey) }

// Expires returns when the certificate expires. Other processes reject it after that time.
func (c *Credentials) Expires() time.Time { return c.current.Load().cert.Leaf.NotAfter }

// Serves reports whether the certificate is valid for a server.
func (c *Credentials) Serves() bool {
	return slices.Contains(c.current.Load().cert.Leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
}

// Reload reads the folder again, so that a renewed certificate and other roots take effect
// for connections made from then on, and other keys for gossip. Review closes connections with
// certificates of roots that are gone. The identity must be the same. On error the credentials stay unchanged.
func (c *Credentials) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	self, loaded, err := load(c.dir, time.Now())
	if err != nil {
		return fmt.Errorf("reload credentials: %w", err)
	}
	if self != c.self {
		return fmt.Errorf("reload credentials: %s: is for %s, but this process is %s: restart it to change its identity", filepath.Join(c.dir, certFile), self, c.self)
	}
	before := c.current.Load()
	if slices.EqualFunc(before.authorities, loaded.authorities, (*x509.Certificate).Equal) {
		loaded.roots = before.roots
	}
	if c.use != nil && !slices.EqualFunc(before.gossipKeys, loaded.gossipKeys, bytes.Equal) {
		if err := c.use(loaded.gossipKeys); err != nil {
			return fmt.Errorf("reload credentials: %s: %w", filepath.Join(c.dir, gossipKeyFile), err)
		}
	}
	c.current.Store(loaded)
	return nil
}

func load(dir string, now time.Time) (Identity, *material, error) {
	loaded, cluster, err := read(dir)
	if err != nil {
		return Identity{}, nil, err
	}
	path := filepath.Join(dir, certFile)
	self, err := verifyChain([]*x509.Certificate{loaded.cert.Leaf}, loaded.roots, x509.ExtKeyUsageClientAuth, now)
	if err != nil {
		return Identity{}, nil, fmt.Errorf("%s: %w: %s", path, err, howToIssue)
	}
	if cluster != self.Cluster {
		return Identity{}, nil, fmt.Errorf("%s: %w: is for cluster %q, but %s belongs to %q", path, ErrWrongCluster, self.Cluster, authorityCertFile, cluster)
	}
	if self.Role == Replica {
		if loaded.gossipKeys, err = readGossipKeys(dir); err != nil {
			return Identity{}, nil, err
		}
	}
	loaded.holds = loaded.standing()
	return self, loaded, nil
}

// read reads the files of every credentials folder, without a look at what the certificate says. It
// returns the cluster of the roots.
func read(dir string) (*material, string, error) {
	authorities, cluster, err := readBundle(filepath.Join(dir, authorityCertFile))
	if err != nil {
		return nil, "", err
	}
	leaf, err := readCert(filepath.Join(dir, certFile))
	if err != nil {
		return nil, "", err
	}
	key, err := readKey(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, "", err
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return nil, "", fmt.Errorf("%s: does not belong to %s: %s", filepath.Join(dir, keyFile), certFile, howToIssue)
	}
	roots := x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	return &material{
		cert: tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, authorities: authorities, roots: roots,
	}, cluster, nil
}

// readCert reads a file with one certificate.
func readCert(path string) (*x509.Certificate, error) {
	certs, err := readCerts(path)
	if err == nil && len(certs) > 1 {
		return nil, fmt.Errorf("%s: holds %d certificates, want one: %s", path, len(certs), howToIssue)
	}
	if err != nil {
		return nil, err
	}
	return certs[0], nil
}

// readBundle reads a file with the certificates of authorities, which must all belong to one cluster.
func readBundle(path string) (authorities []*x509.Certificate, cluster string, err error) {
	if authorities, err = readCerts(path); err != nil {
		return nil, "", err
	}
	for i, authority := range authorities {
		of, err := clusterOfAuthority(authority)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w: %s", path, err, howToIssue)
		}
		if i > 0 && of != cluster {
			return nil, "", fmt.Errorf("%s: %w: holds authorities of the clusters %q and %q, which would trust each other: remove those of the other cluster, or %s",
				path, ErrWrongCluster, cluster, of, howToIssue)
		}
		cluster = of
	}
	return authorities, cluster, nil
}

// readCerts reads a file with one certificate or more.
func readCerts(path string) (certs []*x509.Certificate, err error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	for len(bytes.TrimSpace(text)) > 0 || len(certs) == 0 {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s: is not a PEM certificate: %s", path, howToIssue)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", path, err, howToIssue)
		}
		certs, text = append(certs, cert), rest
	}
	return certs, nil
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

// readGossipKeys reads the keys of gossip in a replica's folder: one, or two while they are replaced.
func readGossipKeys(dir string) ([][]byte, error) {
	path := filepath.Join(dir, gossipKeyFile)
	content, err := readFile(path)
	if err != nil {
		return nil, err
	}
	switch len(content) {
	case gossipKeySize:
		return [][]byte{content}, nil
	case 2 * gossipKeySize:
		return [][]byte{content[:gossipKeySize], content[gossipKeySize:]}, nil
	}
	return nil, fmt.Errorf("%s: is %d bytes long, want %d, or %d while the key is replaced: copy it from another replica or from the authority's folder",
		path, len(content), gossipKeySize, 2*gossipKeySize)
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
