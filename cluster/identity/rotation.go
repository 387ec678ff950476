package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Phase is how far the replacement of an authority and its gossip key has come. Processes of two
// phases next to each other understand each other, so a step may begin once every process has taken
// up the step before: see Awaits.
type Phase uint8

// The phases. Each step of a rotation leads from one to the next, and the last to Settled.
const (
	// Settled: one authority and one gossip key.
	Settled Phase = iota
	// Started: the next authority is trusted too, and the next gossip key decrypts too.
	Started
	// Switched: the next authority issues, and the next gossip key encrypts. The old ones still count.
	Switched
)

// Folders within an authority's folder, each with a ca.crt, ca.key and gossip.key.
const (
	// nextDir has the next authority in the phase Started.
	nextDir = "next"
	// issuingDir is its name from the phase Switched on: to rename it is the switch. The files beside
	// it are then the old authority's, or copies of its own once a finish was interrupted.
	issuingDir = "issuing"
	// finishedDir is its name when these copies are whole. It is about to be removed.
	finishedDir = "finished"
)

var (
	// ErrNotStarted is returned by SwitchRotation and FinishRotation if the step before is missing.
	ErrNotStarted = errors.New("the step before is missing")
	// ErrSwitched is returned by StartRotation while another rotation has to be finished.
	ErrSwitched = errors.New("a rotation is under way already")
)

func phaseOf(dir string) (Phase, error) {
	for _, found := range []struct {
		dir   string
		phase Phase
	}{{issuingDir, Switched}, {nextDir, Started}} {
		// The certificate is written last: a folder without it does not count.
		_, err := os.Stat(filepath.Join(dir, found.dir, authorityCertFile))
		if err == nil {
			return found.phase, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Settled, err
		}
	}
	return Settled, nil
}

// StartRotation makes the next authority and gossip key beside those in dir, for the same cluster. An
// authority that has them already is left as it is. Update then hands both to each credentials folder.
func StartRotation(dir string) (*Authority, error) {
	a, err := OpenAuthority(dir)
	switch {
	case err != nil:
		return nil, err
	case a.phase == Switched:
		return nil, fmt.Errorf("start rotation: %s: %w: it has switched to the next authority: finish it first (weir tls rotate finish)", dir, ErrSwitched)
	case a.phase == Started:
		return a, nil
	}
	// The order in which authorities were made shows in their certificates, which count in seconds.
	made := time.Now()
	if after := Issued(a.cert).Add(time.Second); made.Before(after) {
		made = after
	}
	files, err := newAuthority(a.cluster, made)
	if err == nil {
		next := filepath.Join(dir, nextDir)
		// An interrupted start has left a part.
		err = errors.Join(os.RemoveAll(next), os.RemoveAll(filepath.Join(dir, finishedDir)))
		if err == nil {
			err = writeFolder(next, files...)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start rotation: %w", err)
	}
	return OpenAuthority(dir)
}

// SwitchRotation has the next authority in dir issue certificates, and the next gossip key encrypt.
// If they do already, nothing changes. Update then gives each credentials folder a certificate of it.
func SwitchRotation(dir string) (*Authority, error) {
	a, err := OpenAuthority(dir)
	switch {
	case err != nil:
		return nil, err
	case a.phase == Settled:
		return nil, fmt.Errorf("switch rotation: %s: %w: no next authority has been made: begin with weir tls rotate start", dir, ErrNotStarted)
	case a.phase == Switched:
		return a, nil
	}
	if err := os.Rename(filepath.Join(dir, nextDir), filepath.Join(dir, issuingDir)); err != nil {
		return nil, fmt.Errorf("switch rotation: %w", err)
	}
	return OpenAuthority(dir)
}

// FinishRotation gives up the old authority in dir and the old gossip key: first in the credentials
// folders, by calling each with an authority of which the old one is no longer part, then in dir,
// where the old key is deleted. Without a rotation it only calls each. On an error of each, dir is
// left as it is, so that the step can be repeated.
func FinishRotation(dir string, each func(*Authority) error) error {
	a, err := OpenAuthority(dir)
	if err != nil {
		return err
	}
	if a.phase == Started {
		return fmt.Errorf("finish rotation: %s: %w: certificates are still issued by the old authority: run weir tls rotate switch first", dir, ErrNotStarted)
	}
	a.gossipKeys = a.gossipKeys[:1]
	before := a.phase
	a.phase = Settled // other is known still, so that its certificates can be replaced.
	if err := each(a); err != nil {
		return err
	}
	if before == Switched {
		for _, file := range []string{authorityKeyFile, gossipKeyFile, authorityCertFile} {
			content, err := os.ReadFile(filepath.Join(dir, issuingDir, file))
			if err == nil {
				err = replaceFile(filepath.Join(dir, file), content)
			}
			if err != nil {
				return fmt.Errorf("finish rotation: %w", err)
			}
		}
		if err := os.Rename(filepath.Join(dir, issuingDir), filepath.Join(dir, finishedDir)); err != nil {
			return fmt.Errorf("finish rotation: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, finishedDir)); err != nil {
		return fmt.Errorf("finish rotation: %w", err)
	}
	return nil
}

// Phase returns how far a rotation of the authority has come.
func (a *Authority) Phase() Phase { return a.phase }

// bundle returns the ca.crt of credentials folders: the authorities that processes are to trust.
func (a *Authority) bundle() []byte {
	if a.phase == Settled {
		return bundle(a.cert)
	}
	return bundle(a.cert, a.other)
}

func bundle(authorities ...*x509.Certificate) (text []byte) {
	authorities = slices.DeleteFunc(authorities, func(cert *x509.Certificate) bool { return cert == nil })
	for _, cert := range byAge(authorities) {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return text
}

// byAge returns authorities in the order in which they were made.
func byAge(authorities []*x509.Certificate) []*x509.Certificate {
	return slices.SortedStableFunc(slices.Values(authorities), func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) })
}

// Update brings a credentials folder to what the authority hands out now: roots, gossip keys, and a
// certificate of its own in place of one of the authority that it replaces, with the same identity,
// key, alternative names and length of validity. It returns the names of the files that changed. Each
// is replaced in one step, and a process that reads the folder meanwhile finds what fits.
func (a *Authority) Update(dir string) (changed []string, err error) {
	if changed, err = a.update(dir, false); err != nil {
		return changed, fmt.Errorf("update credentials %s: %w", dir, err)
	}
	return changed, nil
}

func (a *Authority) update(dir string, renew bool) (changed []string, err error) {
	old, id, err := a.issued(dir)
	if err != nil {
		return nil, err
	}
	var files []newFile
	if renew || old.CheckSignatureFrom(a.cert) != nil {
		own, err := a.reissue(old, id)
		if err != nil {
			return nil, err
		}
		// The folder trusts both authorities while its certificate changes from one to the other.
		files = []newFile{{name: authorityCertFile, content: bundle(a.cert, a.other)}, {name: certFile, content: own}}
	}
	files = append(files, newFile{name: authorityCertFile, content: a.bundle()})
	if id.Role == Replica {
		if _, err := readGossipKeys(dir); err != nil {
			return nil, err
		}
		files = append(files, newFile{name: gossipKeyFile, content: slices.Concat(a.gossipKeys...)})
	}
	for _, file := range files {
		path := filepath.Join(dir, file.name)
		if present, err := readFile(path); err != nil {
			return changed, err
		} else if bytes.Equal(present, file.content) {
			continue
		}
		if err := replaceFile(path, file.content); err != nil {
			return changed, err
		}
		if !slices.Contains(changed, file.name) {
			changed = append(changed, file.name)
		}
	}
	return changed, nil
}

// issued returns the certificate in a credentials folder, once it is sure that the folder is whole and of this
// authority, or of the one that takes over or goes. The certificate may have expired.
func (a *Authority) issued(dir string) (*x509.Certificate, Identity, error) {
	loaded, _, err := read(dir)
	if err != nil {
		return nil, Identity{}, err
	}
	cert := loaded.cert.Leaf
	id, err := ofCertificate(cert)
	switch {
	case err != nil:
		return nil, id, fmt.Errorf("%w: %w", ErrForeignAuthority, err)
	case id.Cluster != a.cluster:
		return nil, id, fmt.Errorf("%w: it belongs to cluster %q, the authority to %q: name folders of one cluster", ErrWrongCluster, id.Cluster, a.cluster)
	}
	err = cert.CheckSignatureFrom(a.cert)
	if err != nil && (a.other == nil || cert.CheckSignatureFrom(a.other) != nil) {
		return nil, id, fmt.Errorf("%w: %s: %w: %s", ErrForeignAuthority, id, err, howToIssue)
	}
	return cert, id, nil
}

// Fingerprint names an authority, or any certificate, in 16 digits.
func Fingerprint(cert *x509.Certificate) string { return digest(cert.Raw) }

// digest returns the first digits of a hash of content, which tell nothing about a random key.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// Standing is what a process holds of its cluster's certificates, without any secret.
type Standing struct {
	// Issuer is the fingerprint of the authority that issued the certificate.
	Issuer string
	// Roots are the fingerprints of the authorities that the process trusts, the one made last at the end.
	Roots []string
	// GossipKeys are hashes of the keys of gossip, of replicas only. The first encrypts.
	GossipKeys []string
	// Expires is when the certificate expires.
	Expires time.Time
}

// Standing returns what the process holds now. The result must not be changed.
func (c *Credentials) Standing() Standing { return c.current.Load().holds }

func (m *material) standing() Standing {
	s := Standing{Expires: m.cert.Leaf.NotAfter}
	for _, authority := range byAge(m.authorities) {
		s.Roots = append(s.Roots, Fingerprint(authority))
		if s.Issuer == "" && m.cert.Leaf.CheckSignatureFrom(authority) == nil {
			s.Issuer = Fingerprint(authority)
		}
	}
	for _, key := range m.gossipKeys {
		s.GossipKeys = append(s.GossipKeys, digest(key))
	}
	return s
}

// Inspect returns whom a credentials folder is for and what it holds, also if its certificate has expired
// or was issued by an authority that the folder does not trust: then Issuer is empty.
func Inspect(dir string) (id Identity, holds Standing, err error) {
	loaded, _, err := read(dir)
	if err == nil {
		id, err = ofCertificate(loaded.cert.Leaf)
	}
	if err == nil && id.Role == Replica {
		loaded.gossipKeys, err = readGossipKeys(dir)
	}
	if err != nil {
		return Identity{}, Standing{}, fmt.Errorf("inspect credentials: %w", err)
	}
	return id, loaded.standing(), nil
}

// Awaits returns why the next step of the rotation would cut off a process that holds s; empty: it
// would not. Connections of that process break if the step begins all the same.
func (a *Authority) Awaits(role Role, s Standing) string {
	switch a.phase {
	case Started:
		switch {
		case !slices.Contains(s.Roots, Fingerprint(a.other)):
			return "does not trust the next authority " + Fingerprint(a.other) + " yet"
		case role == Replica && !slices.Contains(s.GossipKeys, digest(a.gossipKeys[1])):
			return "does not have the next gossip key yet"
		}
	case Switched:
		switch {
		case s.Issuer != Fingerprint(a.cert):
			return "shows a certificate of the old authority " + s.Issuer + " still"
		case role == Replica && (len(s.GossipKeys) == 0 || s.GossipKeys[0] != digest(a.gossipKeys[0])):
			return "encrypts gossip with the old key still"
		}
	}
	return ""
}
