package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"weir/cluster/vault"
)

// Names of the files in the folder of an authority and in a credentials folder.
const (
	authorityCertFile = "ca.crt"
	authorityKeyFile  = "ca.key"
	certFile          = "tls.crt"
	keyFile           = "tls.key"
	gossipKeyFile     = "gossip.key"
	vaultKeyFile      = "vault.key"
)

const (
	// DefaultValidity is how long an issued certificate is valid by default:
	// long enough to renew by hand, short enough that renewal is practised.
	DefaultValidity = 365 * 24 * time.Hour

	// authorityValidity is how long an authority's certificate is valid. Its
	// renewal touches every process, so it should outlive the machines.
	authorityValidity = 10 * 365 * 24 * time.Hour

	// backdate moves the start of validity into the past, so that a machine
	// whose clock is a little behind accepts a fresh certificate.
	backdate = 5 * time.Minute

	// gossipKeySize is the size of gossip's key in bytes: it selects AES-256.
	gossipKeySize = 32
)

// ErrExists is returned when a folder already has a file that would be written.
var ErrExists = errors.New("already exists")

// Authority is a cluster's certificate authority.
type Authority struct {
	cluster string
	// cert and key issue certificates.
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// phase is that of a rotation, and other the authority that takes over or goes; see Rotation.
	phase Phase
	other *x509.Certificate
	// gossipKeys are what replicas get: the first encrypts.
	gossipKeys [][]byte
	// vaultKey is nil if the cluster has none: it is of a version without secrets.
	vaultKey []byte
}

// CreateAuthority makes the authority of a new cluster in dir, which is created if missing. An
// empty clusterID stands for a random one. CreateAuthority returns ErrExists rather than overwrite
// an authority.
func CreateAuthority(dir, clusterID string) (*Authority, error) {
	if clusterID == "" {
		clusterID = randomClusterID()
	}
	if !wellFormed.MatchString(clusterID) {
		return nil, fmt.Errorf("create authority %s: %w", dir, malformed("cluster id", clusterID))
	}
	files, err := newAuthority(clusterID, time.Now())
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", dir, err)
	}
	// The certificate is written last: a folder without it does not count as an authority.
	if err := writeFolder(dir, append([]newFile{{vaultKeyFile, vault.NewKey(), 0o600}}, files...)...); err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	return OpenAuthority(dir)
}

// newAuthority makes the key, the gossip key and the certificate of an authority, the certificate last.
func newAuthority(clusterID string, now time.Time) ([]newFile, error) {
	template := &x509.Certificate{
		SerialNumber:          randomSerial(),
		Subject:               pkix.Name{CommonName: "weir cluster " + clusterID},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityValidity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		URIs:                  []*url.URL{{Scheme: scheme, Host: clusterID}},
	}
	certPEM, keyPEM, err := certify(template, nil, nil)
	if err != nil {
		return nil, err
	}
	gossipKey := make([]byte, gossipKeySize)
	_, _ = rand.Read(gossipKey) // Never fails, by the contract of crypto/rand.
	return []newFile{{authorityKeyFile, keyPEM, 0o600}, {gossipKeyFile, gossipKey, 0o600}, {authorityCertFile, certPEM, 0o644}}, nil
}

// certify makes a key and a certificate for it. The certificate is signed with signer, the key of
// parent. If signer is nil, the certificate is self-signed.
func certify(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if signer == nil {
		parent, signer = template, key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil
}

// OpenAuthority reads the authority that CreateAuthority made in dir. While it is being replaced, the
// result is the one of the two that issues certificates now.
func OpenAuthority(dir string) (*Authority, error) {
	a, err := openAuthority(dir)
	if err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	return a, nil
}

func openAuthority(dir string) (*Authority, error) {
	phase, err := phaseOf(dir)
	if err != nil {
		return nil, err
	}
	issuing, other := dir, ""
	switch phase {
	case Started:
		other = filepath.Join(dir, nextDir)
	case Switched:
		issuing, other = filepath.Join(dir, issuingDir), dir
	}
	a := &Authority{phase: phase}
	var gossipKey []byte
	if a.cert, a.cluster, gossipKey, err = readAuthority(issuing); err != nil {
		return nil, err
	}
	a.gossipKeys = [][]byte{gossipKey}
	if a.key, err = readKey(filepath.Join(issuing, authorityKeyFile)); err != nil {
		return nil, err
	}
	if !a.key.PublicKey.Equal(a.cert.PublicKey) {
		return nil, fmt.Errorf("%s: %s does not belong to %s: restore both from the same backup", issuing, authorityKeyFile, authorityCertFile)
	}
	if a.vaultKey, err = readVaultKey(dir); err != nil || other == "" {
		return a, err
	}
	var cluster string
	if a.other, cluster, gossipKey, err = readAuthority(other); err != nil {
		return nil, err
	}
	if cluster != a.cluster {
		return nil, fmt.Errorf("%s: %w: is of cluster %q, but %s of %q: restore the whole folder from a backup", other, ErrWrongCluster, cluster, issuing, a.cluster)
	}
	if a.other.Equal(a.cert) { // FinishRotation was interrupted.
		a.other = nil
	} else {
		a.gossipKeys = append(a.gossipKeys, gossipKey)
	}
	return a, nil
}

// readAuthority reads what an authority's folder has besides the key.
func readAuthority(dir string) (cert *x509.Certificate, cluster string, gossipKey []byte, err error) {
	path := filepath.Join(dir, authorityCertFile)
	if cert, err = readCert(path); err != nil {
		return nil, "", nil, err
	}
	if cluster, err = clusterOfAuthority(cert); err != nil {
		return nil, "", nil, fmt.Errorf("%s: %w", path, err)
	}
	path = filepath.Join(dir, gossipKeyFile)
	if gossipKey, err = readFile(path); err == nil && len(gossipKey) != gossipKeySize {
		err = fmt.Errorf("%s: is %d bytes long, want %d: restore it from a backup, or copy it from a replica", path, len(gossipKey), gossipKeySize)
	}
	return cert, cluster, gossipKey, err
}

// Cluster returns the id of the cluster that the authority belongs to.
func (a *Authority) Cluster() string { return a.cluster }

// Issue writes a credentials folder for id to dir, which is created if missing. An empty id.Cluster
// stands for the authority's own; any other cluster is an error. `hosts` are the DNS names and IP
// addresses at which the process can be reached. Cluster processes do not check them, but other TLS
// clients do. An agent can serve its metrics only if it has hosts. A validity of zero stands for
// DefaultValidity. Issue returns ErrExists rather than overwrite credentials.
func (a *Authority) Issue(dir string, id Identity, hosts []string, validity time.Duration) error {
	if id.Cluster == "" {
		id.Cluster = a.cluster
	}
	if err := a.checkIssue(id, validity); err != nil {
		return fmt.Errorf("issue certificate %s: %w", id, err)
	}
	if validity == 0 {
		validity = DefaultValidity
	}
	certPEM, keyPEM, err := certify(a.leaf(id, hosts, validity), a.cert, a.key)
	if err != nil {
		return fmt.Errorf("issue certificate %s: %w", id, err)
	}
	files := []newFile{{authorityCertFile, a.bundle(), 0o644}, {keyFile, keyPEM, 0o600}}
	if id.Role == Replica {
		files = append(files, newFile{gossipKeyFile, slices.Concat(a.gossipKeys...), 0o600})
		if a.vaultKey != nil {
			files = append(files, newFile{vaultKeyFile, a.vaultKey, 0o600})
		}
	}
	if err := writeFolder(dir, append(files, newFile{certFile, certPEM, 0o644})...); err != nil {
		return fmt.Errorf("issue certificate %s: %w", id, err)
	}
	return nil
}

// Renew replaces the certificate in a credentials folder that the authority has issued by one that
// is valid for as long as the old one was, from now on. Identity, key and alternative names stay, and so do the
// owner and the mode of the file. The replacement is one step: a process that reads the folder meanwhile finds
// the old certificate or the new one. While the authority is being replaced, the folder gets what Update gives.
func (a *Authority) Renew(dir string) error {
	if _, err := a.update(dir, true); err != nil {
		return fmt.Errorf("renew certificate %s: %w", filepath.Join(dir, certFile), err)
	}
	return nil
}

// reissue returns, in PEM, a certificate in place of an old one.
func (a *Authority) reissue(old *x509.Certificate, id Identity) ([]byte, error) {
	if err := a.checkIssue(id, 0); err != nil {
		return nil, err
	}
	template := a.leaf(id, nil, old.NotAfter.Sub(Issued(old)))
	template.DNSNames, template.IPAddresses, template.ExtKeyUsage = old.DNSNames, old.IPAddresses, old.ExtKeyUsage
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, old.PublicKey, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), err
}

// replaceFile replaces a file's content in one step, and keeps its owner and mode.
func replaceFile(path string, content []byte) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(next.Name()))
		}
	}()
	_, err = next.Write(content)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && err == nil {
		err = next.Chown(int(owner.Uid), int(owner.Gid))
	}
	// After the owner, whose change may clear bits of the mode.
	if err = errors.Join(err, next.Chmod(info.Mode().Perm()), next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), path)
}

func (a *Authority) checkIssue(id Identity, validity time.Duration) error {
	if err := id.Validate(); err != nil {
		return err
	}
	if id.Cluster != a.cluster {
		return fmt.Errorf("%w: this authority belongs to cluster %q", ErrWrongCluster, a.cluster)
	}
	if validity < 0 {
		return fmt.Errorf("validity %v: must not be negative", validity)
	}
	return nil
}

func (a *Authority) leaf(id Identity, hosts []string, validity time.Duration) *x509.Certificate {
	now := time.Now()
	// A leaf must not outlive its authority.
	until := now.Add(validity)
	if until.After(a.cert.NotAfter) {
		until = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber:          randomSerial(),
		Subject:               pkix.Name{CommonName: id.Role.String() + " " + id.Name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{id.uri()},
	}
	if id.Role == Replica || id.Role == Agent && len(hosts) > 0 {
		// Only replicas, and agents that serve their metrics, listen on a port. Other certificates
		// are not valid for a server.
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

func clusterOfAuthority(cert *x509.Certificate) (string, error) {
	if cert.IsCA && len(cert.URIs) == 1 && cert.URIs[0].Scheme == scheme && wellFormed.MatchString(cert.URIs[0].Host) {
		return cert.URIs[0].Host, nil
	}
	return "", errors.New("is not the certificate of a weir authority")
}

// newFile is a file to be written once.
type newFile struct {
	name    string
	content []byte
	mode    fs.FileMode
}

func (f newFile) writeTo(dir string) error {
	path := filepath.Join(dir, f.name)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	_, err = file.Write(f.content)
	return errors.Join(err, file.Sync(), file.Close())
}

// writeFolder makes dir, checks that it has none of the files and no gossip key, and
// writes the files in order.
func writeFolder(dir string, files ...newFile) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, file := range append(slices.Clone(files), newFile{name: gossipKeyFile}) {
		path := filepath.Join(dir, file.name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s: %w: choose another folder, or remove it first", path, ErrExists)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, file := range files {
		if err := file.writeTo(dir); err != nil {
			return err
		}
	}
	return nil
}

func randomClusterID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // Never fails, by the contract of crypto/rand.
	return hex.EncodeToString(id[:])
}

func randomSerial() *big.Int {
	var serial [16]byte
	_, _ = rand.Read(serial[:]) // Never fails, by the contract of crypto/rand.
	serial[0] &= 0x7f           // Serial numbers are positive.
	return new(big.Int).SetBytes(serial[:])
}
