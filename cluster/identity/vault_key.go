package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"weir/cluster/vault"
)

// readVaultKey returns the vault key in a folder, nil if it has none.
func readVaultKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, vaultKeyFile)
	key, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(key) != vault.KeySize:
		return nil, fmt.Errorf("%s: is %d bytes long, want %d: copy it from another replica or from the authority's folder", path, len(key), vault.KeySize)
	}
	return key, nil
}

// MakeVaultKey gives the authority in dir a vault key if it has none, and reports whether it made
// one. Replicas have it from GiveVaultKey, or from Issue if they are new.
func MakeVaultKey(dir string) (*Authority, bool, error) {
	a, err := OpenAuthority(dir)
	if err != nil || a.vaultKey != nil {
		return a, false, err
	}
	if err := (newFile{vaultKeyFile, vault.NewKey(), 0o600}).writeTo(dir); err != nil {
		return nil, false, fmt.Errorf("make vault key: %w", err)
	}
	a, err = OpenAuthority(dir)
	return a, true, err
}

// GiveVaultKey writes the authority's vault key into the credentials folder of a replica, and reports
// whether the folder did not have it before. A folder with another key is an error.
func (a *Authority) GiveVaultKey(folder string) (bool, error) {
	const what = "give vault key to"
	credentials, err := LoadCredentials(folder)
	if err != nil {
		return false, err
	}
	switch id := credentials.Identity(); {
	case id.Cluster != a.cluster:
		return false, fmt.Errorf("%s %s: %w: it belongs to cluster %q, the authority to %q", what, folder, ErrWrongCluster, id.Cluster, a.cluster)
	case id.Role != Replica:
		return false, fmt.Errorf("%s %s: it is for %s %q: only replicas have the key", what, folder, id.Role, id.Name)
	case bytes.Equal(credentials.vaultKey, a.vaultKey):
		return false, nil
	case credentials.vaultKey != nil:
		return false, fmt.Errorf("%s %s: it has another vault.key: all replicas need that of the authority's folder; secrets sealed with the other key are lost without it", what, folder)
	}
	if err := (newFile{vaultKeyFile, a.vaultKey, 0o600}).writeTo(folder); err != nil {
		return false, fmt.Errorf("%s %s: %w", what, folder, err)
	}
	return true, nil
}
