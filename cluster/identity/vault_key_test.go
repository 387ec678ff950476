package identity_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cluster/identity"
	"weir/cluster/vault"
)

// TestVaultKey (T3) gives the key to replicas: to new ones when they are issued, to those of an older
// cluster later, and to nobody else.
func TestVaultKey(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "authority")
	authority, err := identity.CreateAuthority(dir, "c1")
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *identity.Authority, role identity.Role, name string) string {
		t.Helper()
		folder := filepath.Join(root, name)
		if err := a.Issue(folder, identity.Identity{Role: role, Name: name}, nil, 0); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	keyOf := func(folder string) []byte {
		t.Helper()
		credentials, err := identity.LoadCredentials(folder)
		if err != nil {
			t.Fatal(err)
		}
		return credentials.VaultKey()
	}
	r1, r2, agent := issue(authority, identity.Replica, "r1"), issue(authority, identity.Replica, "r2"), issue(authority, identity.Agent, "n1")
	key := keyOf(r1)
	if len(key) != vault.KeySize || !bytes.Equal(keyOf(r2), key) || keyOf(agent) != nil {
		t.Errorf("keys %x, %x, %x", key, keyOf(r2), keyOf(agent))
	}
	if info, err := os.Stat(filepath.Join(r1, "vault.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	// The cluster is older.
	for _, folder := range []string{dir, r1, r2} {
		if err := os.Remove(filepath.Join(folder, "vault.key")); err != nil {
			t.Fatal(err)
		}
	}
	if authority, err = identity.OpenAuthority(dir); err != nil {
		t.Fatal(err)
	}
	if r3 := issue(authority, identity.Replica, "r3"); keyOf(r1) != nil || keyOf(r3) != nil {
		t.Error("replicas of an older cluster have a key")
	}
	for _, wantMade := range []bool{true, false} {
		var made bool
		if authority, made, err = identity.MakeVaultKey(dir); err != nil || made != wantMade {
			t.Errorf("made %t, %v", made, err)
		}
	}
	for _, wantGiven := range []bool{true, false} {
		if given, err := authority.GiveVaultKey(r1); err != nil || given != wantGiven {
			t.Errorf("given %t, %v", given, err)
		}
	}
	if key := keyOf(r1); len(key) != vault.KeySize || !bytes.Equal(keyOf(issue(authority, identity.Replica, "r4")), key) {
		t.Errorf("the key is %x", key)
	}
	if _, err := authority.GiveVaultKey(agent); err == nil || !strings.Contains(err.Error(), "only replicas have the key") {
		t.Errorf("given to an agent: %v", err)
	}
	if err := os.WriteFile(filepath.Join(r2, "vault.key"), make([]byte, vault.KeySize), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := authority.GiveVaultKey(r2); err == nil || !strings.Contains(err.Error(), "it has another vault.key") {
		t.Errorf("given to a replica with another: %v", err)
	}
	other, err := identity.CreateAuthority(filepath.Join(root, "other"), "c2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.GiveVaultKey(r1); !errors.Is(err, identity.ErrWrongCluster) {
		t.Errorf("given to a replica of another cluster: %v", err)
	}
	if err := os.WriteFile(filepath.Join(r2, "vault.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.LoadCredentials(r2); err == nil || !strings.Contains(err.Error(), "vault.key: is 5 bytes long, want 32") {
		t.Errorf("a short key: %v", err)
	}
}
