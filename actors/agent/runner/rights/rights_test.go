package rights_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/actors/agent/runner/rights"
)

const nobody = 65534

// TestWhatAUserMay (T2): work in the name of a user has the rights of that user, and no capability.
func TestWhatAUserMay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	root := t.TempDir()
	for path := root; len(path) > len(os.TempDir()); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret, open := filepath.Join(root, "secret"), filepath.Join(root, "open")
	if err := errors.Join(os.WriteFile(secret, nil, 0o600), os.Mkdir(open, 0o777), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(open, "own")
	err := rights.As(nobody, nobody, func() error {
		for what, err := range map[string]error{
			"read":      second(os.ReadFile(secret)),
			"make":      os.WriteFile(filepath.Join(root, "new"), nil, 0o644),
			"remove":    os.Remove(secret),
			"change":    os.Chmod(open, 0o700),
			"give away": os.Chown(open, nobody, nobody),
		} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v, want a lack of rights", what, err)
			}
		}
		status, err := os.ReadFile("/proc/thread-self/status")
		if err != nil || !strings.Contains(string(status), "CapEff:\t0000000000000000\n") || !strings.Contains(string(status), "CapPrm:\t0000000000000000\n") {
			t.Errorf("capabilities, %v:\n%s", err, status)
		}
		return os.WriteFile(own, nil, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(own)
	if err != nil {
		t.Fatal(err)
	}
	if of := info.Sys().(*syscall.Stat_t); of.Uid != nobody || of.Gid != nobody {
		t.Errorf("what was made is of %d:%d", of.Uid, of.Gid)
	}
	// The other threads are who they were.
	if _, err := os.ReadFile(secret); err != nil {
		t.Error(err)
	}
}

func second(_ []byte, err error) error { return err }

func TestWhoItIsAlready(t *testing.T) {
	failed := errors.New("failed")
	if err := rights.As(uint32(os.Geteuid()), uint32(os.Getegid()), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

func TestOnlyRootCanBeAnother(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can")
	}
	if err := rights.As(nobody, nobody, func() error { t.Error("it was done"); return nil }); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
