package identity_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
)

func TestAuthorityIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "authority")
	made, err := identity.CreateAuthority(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Cluster()) != 16 {
		t.Errorf("random cluster id %q, want 16 digits", made.Cluster())
	}
	opened, err := identity.OpenAuthority(dir)
	if err != nil || opened.Cluster() != made.Cluster() {
		t.Fatalf("OpenAuthority = %v, %v; want cluster %q", opened, err, made.Cluster())
	}
	if _, err := identity.CreateAuthority(dir, "other"); !errors.Is(err, identity.ErrExists) {
		t.Errorf("second CreateAuthority: %v, want ErrExists", err)
	}
	if _, err := identity.CreateAuthority(t.TempDir(), "not/an/id"); err == nil {
		t.Error("CreateAuthority took a malformed cluster id")
	}
}

func TestSecretsAreForTheOwnerOnly(t *testing.T) {
	root := t.TempDir()
	authority, err := identity.CreateAuthority(filepath.Join(root, "ca"), "c1")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range identity.Roles() {
		if err := authority.Issue(filepath.Join(root, role.String()), identity.Identity{Role: role, Name: "x"}, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"ca/ca.key", "ca/gossip.key", "replica/tls.key", "replica/gossip.key", "agent/tls.key"} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, want 0600", path, info.Mode())
		}
	}
	for _, role := range []string{"agent", "user", "operator", "gateway"} {
		if _, err := os.Stat(filepath.Join(root, role, "gossip.key")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s has the key of gossip: %v", role, err)
		}
	}
}

func TestIssue(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	dir := filepath.Join(t.TempDir(), "r1")
	id := identity.Identity{Role: identity.Replica, Name: "r1"}
	if err := cluster.Authority.Issue(dir, id, []string{"localhost", "127.0.0.1"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	credentials, err := identity.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	id.Cluster = "c1"
	if got := credentials.Identity(); got != id {
		t.Errorf("identity %v, want %v", got, id)
	}
	if keys := credentials.GossipKeys(); len(keys) != 1 || len(keys[0]) != 32 || bytes.Equal(keys[0], make([]byte, 32)) {
		t.Errorf("gossip keys %x, want one of 32 random bytes", keys)
	}
	if left := time.Until(credentials.Expires()); left > time.Hour || left < 50*time.Minute {
		t.Errorf("expires in %v, want an hour", left)
	}
	if err := cluster.Authority.Issue(dir, id, nil, 0); !errors.Is(err, identity.ErrExists) {
		t.Errorf("second Issue into one folder: %v, want ErrExists", err)
	}
	for name, bad := range map[string]identity.Identity{
		"another cluster": {Cluster: "c2", Role: identity.Agent, Name: "a"},
		"no role":         {Name: "a"},
		"path as name":    {Role: identity.Agent, Name: "../a"},
	} {
		if err := cluster.Authority.Issue(t.TempDir(), bad, nil, 0); err == nil {
			t.Errorf("%s: issued", name)
		}
	}
	if err := cluster.Authority.Issue(t.TempDir(), id, nil, -time.Hour); err == nil {
		t.Error("negative validity: issued")
	}
}

func TestLoadCredentialsSaysWhatIsWrong(t *testing.T) {
	cluster, other := identitytest.New(t, "c1"), identitytest.New(t, "c1")
	id := identity.Identity{Cluster: "c1", Role: identity.Replica, Name: "r1"}
	now := time.Now()
	good := func(t *testing.T) string {
		return cluster.Folder(t, cluster.Certificate(t, id, now.Add(-time.Hour), now.Add(time.Hour)))
	}
	replace := func(file, content string) func(*testing.T) string {
		return func(t *testing.T) string {
			dir := good(t)
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			return dir
		}
	}
	for name, test := range map[string]struct {
		folder   func(*testing.T) string
		want     error
		wantText []string
	}{
		"good":         {folder: good},
		"no folder":    {folder: func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, want: os.ErrNotExist, wantText: []string{"ca.crt", "issue a credentials folder"}},
		"not a cert":   {folder: replace("tls.crt", "hello"), wantText: []string{"tls.crt", "not a PEM certificate"}},
		"not a key":    {folder: replace("tls.key", "hello"), wantText: []string{"tls.key", "not a PEM private key"}},
		"short gossip": {folder: replace("gossip.key", "hello"), wantText: []string{"gossip.key", "5 bytes", "want 32"}},
		"foreign CA":   {folder: func(t *testing.T) string { return cluster.Folder(t, other.Certificate(t, id, now, now.Add(time.Hour))) }, want: identity.ErrForeignAuthority, wantText: []string{"tls.crt"}},
		"expired": {folder: func(t *testing.T) string {
			return cluster.Folder(t, cluster.Certificate(t, id, time.Unix(0, 0), time.Unix(1e9, 0)))
		}, want: identity.ErrExpired, wantText: []string{"tls.crt", "2001-09-09"}},
		"not yet valid": {folder: func(t *testing.T) string {
			return cluster.Folder(t, cluster.Certificate(t, id, now.Add(time.Hour), now.Add(2*time.Hour)))
		}, want: identity.ErrNotYetValid, wantText: []string{"tls.crt", "check both clocks"}},
		"another cluster": {folder: func(t *testing.T) string {
			return cluster.Folder(t, cluster.Certificate(t, identity.Identity{Cluster: "c2", Role: identity.Replica, Name: "r1"}, now, now.Add(time.Hour)))
		}, want: identity.ErrWrongCluster, wantText: []string{"c1", "c2"}},
		"key of another": {folder: func(t *testing.T) string {
			dir, key := good(t), filepath.Join(good(t), "tls.key")
			if err := os.Rename(key, filepath.Join(dir, "tls.key")); err != nil {
				t.Fatal(err)
			}
			return dir
		}, wantText: []string{"tls.key", "does not belong to tls.crt"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := identity.LoadCredentials(test.folder(t))
			if test.want == nil && test.wantText == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			for _, text := range test.wantText {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q does not say %q", err, text)
				}
			}
		})
	}
}

func TestReload(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	id := identity.Identity{Cluster: "c1", Role: identity.Agent, Name: "a1"}
	now := time.Now()
	dir := cluster.Folder(t, cluster.Certificate(t, id, now.Add(-time.Hour), now.Add(time.Hour)))
	credentials, err := identity.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	swap := func(other string) {
		t.Helper()
		for _, file := range []string{"tls.crt", "tls.key"} {
			if err := os.Rename(filepath.Join(other, file), filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	swap(cluster.Folder(t, cluster.Certificate(t, id, now.Add(-time.Hour), now.Add(48*time.Hour))))
	if err := credentials.Reload(); err != nil {
		t.Fatal(err)
	}
	renewed := credentials.Expires()
	if time.Until(renewed) < 24*time.Hour {
		t.Errorf("expires %v after the renewal", renewed)
	}
	id.Name = "a2"
	swap(cluster.Folder(t, cluster.Certificate(t, id, now.Add(-time.Hour), now.Add(72*time.Hour))))
	if err := credentials.Reload(); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("Reload took another identity: %v", err)
	}
	if !credentials.Expires().Equal(renewed) {
		t.Error("a refused Reload changed the credentials")
	}
}

// TestRenew (T6) renews a certificate while its process runs: it is valid as long as before, from now on, and
// all else stays, even the mode of the file. A certificate that has expired can be renewed, one of another
// authority cannot.
func TestRenew(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	id := identity.Identity{Cluster: "c1", Role: identity.Agent, Name: "a1"}
	dir := filepath.Join(t.TempDir(), "a1")
	if err := cluster.Authority.Issue(dir, id, []string{"host1", "127.0.0.9"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	credentials, err := identity.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tls.crt")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	before, err := identity.FolderCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	if identity.RenewalDue(before, time.Now()) || !identity.RenewalDue(before, time.Now().Add(41*time.Minute)) {
		t.Error("renewal is due by another measure than a third of the validity")
	}
	if err := cluster.Authority.Renew(dir); err != nil {
		t.Fatal(err)
	}
	if err := credentials.Reload(); err != nil {
		t.Fatal(err)
	}
	after, err := identity.FolderCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	if identity.Serial(after) == identity.Serial(before) || after.NotAfter.Before(before.NotAfter) || time.Until(after.NotAfter) > time.Hour {
		t.Errorf("serial %s valid until %s, before %s until %s", identity.Serial(after), after.NotAfter, identity.Serial(before), before.NotAfter)
	}
	if !slices.Equal(after.DNSNames, before.DNSNames) || len(after.IPAddresses) != 1 || !after.IPAddresses[0].Equal(before.IPAddresses[0]) || !credentials.Serves() {
		t.Errorf("names %v %v, usage %v: were %v %v %v", after.DNSNames, after.IPAddresses, after.ExtKeyUsage, before.DNSNames, before.IPAddresses, before.ExtKeyUsage)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v: want 0640", info.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("files %v, %v: want ca.crt, tls.crt and tls.key", files, err)
	}

	now := time.Now()
	expired := cluster.Folder(t, cluster.Certificate(t, id, now.Add(-2*time.Hour), now.Add(-time.Hour)))
	if err := cluster.Authority.Renew(expired); err != nil {
		t.Errorf("an expired certificate: %v", err)
	} else if _, err := identity.LoadCredentials(expired); err != nil {
		t.Errorf("after its renewal: %v", err)
	}
	foreign := cluster.Folder(t, identitytest.New(t, "c1").Certificate(t, id, now, now.Add(time.Hour)))
	if err := cluster.Authority.Renew(foreign); !errors.Is(err, identity.ErrForeignAuthority) {
		t.Errorf("a certificate of another authority: %v", err)
	}
}
