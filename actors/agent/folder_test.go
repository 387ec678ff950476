package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestFolderLetsOthersPass who have to get at what is open to them below it.
func TestFolderLetsOthersPass(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		passable bool
		want     os.FileMode
	}{{false, 0o700}, {true, 0o711}} {
		if _, err := openFolder(closed, test.passable); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(closed); err != nil || info.Mode().Perm() != test.want {
			t.Errorf("passable %v: %v, %v, want %v", test.passable, info.Mode(), err, test.want)
		}
	}
}

func TestFolder(t *testing.T) {
	f, err := openFolder(filepath.Join(t.TempDir(), "new"), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.writeReplicas(replicas("r1", "r2")); err != nil {
		t.Fatal(err)
	}
	if got, err := f.readReplicas(); err != nil || !slices.Equal(got, replicas("r1", "r2")) {
		t.Errorf("replicas %v, %v", got, err)
	}
	if err := os.WriteFile(f.replicasFile(), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.readReplicas(); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}
