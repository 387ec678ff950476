package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFolder(t *testing.T) {
	f, err := openFolder(filepath.Join(t.TempDir(), "new"))
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
