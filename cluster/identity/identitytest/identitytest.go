// Package identitytest makes credentials for tests, valid and invalid.
package identitytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/cluster/identity"
)

// Cluster is a cluster's authority in a folder of the test.
type Cluster struct {
	Authority *identity.Authority
	dir       string
}

// New makes an authority whose cluster id is cluster.
func New(t testing.TB, cluster string) *Cluster {
	t.Helper()
	dir := t.TempDir()
	authority, err := identity.CreateAuthority(dir, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{Authority: authority, dir: dir}
}

// Dir returns the authority's folder.
func (c *Cluster) Dir() string { return c.dir }

// Credentials issues and loads credentials.
func (c *Cluster) Credentials(t testing.TB, role identity.Role, name string) *identity.Credentials {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "credentials")
	if err := c.Authority.Issue(dir, identity.Identity{Role: role, Name: name}, []string{"localhost", "127.0.0.1"}, 0); err != nil {
		t.Fatal(err)
	}
	credentials, err := identity.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

// Certificate signs a certificate with the authority's key, with any cluster id
// and dates, even if Authority.Issue would refuse them.
func (c *Cluster) Certificate(t testing.TB, id identity.Identity, from, until time.Time) tls.Certificate {
	t.Helper()
	authority, err := tls.LoadX509KeyPair(filepath.Join(c.dir, "ca.crt"), filepath.Join(c.dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		NotBefore:             from,
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{{Scheme: "weir", Host: id.Cluster, Path: "/" + id.Role.String() + "/" + id.Name}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, &key.PublicKey, authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Folder writes a credentials folder with cert, without checking it.
func (c *Cluster) Folder(t testing.TB, cert tls.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.ReadFile(filepath.Join(c.dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	gossip, err := os.ReadFile(filepath.Join(c.dir, "gossip.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"ca.crt":     root,
		"tls.crt":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		"tls.key":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"gossip.key": gossip,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
