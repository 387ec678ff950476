package devcluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckReachable names the folder that keeps jobs out, and what to do.
func TestCheckReachable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has jobs that are other users")
	}
	dir := t.TempDir()
	for folder := dir; folder != os.TempDir(); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(dir, "closed")
	if err := errors.Join(os.Mkdir(closed, 0o750), CheckReachable(closed)); err != nil {
		t.Errorf("a file in an open folder: %v", err)
	}
	err := CheckReachable(dir, filepath.Join(closed, "file"))
	if err == nil || !strings.Contains(err.Error(), "folder "+closed+" is closed to other users") || !strings.Contains(err.Error(), "chmod o+x "+closed) {
		t.Errorf("a file in a closed folder: %v", err)
	}
}

// TestDataRoots: replicas that are root do not write everywhere unless they are told to.
func TestDataRoots(t *testing.T) {
	c := &Cluster{paths: layout{t.TempDir()}}
	want := "/"
	if os.Geteuid() == 0 {
		want = c.paths.files()
	}
	if err := c.openFiles(); err != nil || len(c.config.DataRoots) != 1 || c.config.DataRoots[0] != want {
		t.Errorf("by default: %v, %v, want %s", c.config.DataRoots, err, want)
	}
	c.config.DataRoots = []string{"/"}
	if err := c.openFiles(); err != nil || c.config.DataRoots[0] != "/" {
		t.Errorf("as told: %v, %v", c.config.DataRoots, err)
	}
}
