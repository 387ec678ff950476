// Package disktest gives tests small disks of their own, also ones that hang.
package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Small mounts an empty disk of so many bytes and returns its folder. It is
// unmounted when the test has ended, however it did. Where nothing may be mounted, as
// by others than root and in most containers, the test is skipped.
func Small(t testing.TB, bytes int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("weir-test", dir, "tmpfs", 0, "mode=0700,size="+strconv.FormatInt(bytes, 10))
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		t.Skipf("the small disk that this test fills may not be mounted here (it takes root with CAP_SYS_ADMIN): %v", err)
	case err != nil:
		t.Fatalf("mount a small disk on %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// Fill takes what space a disk has, but for so many bytes, and returns the file that
// holds it.
func Fill(t testing.TB, dir string, but int64) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for {
		var disk unix.Statfs_t
		if err := unix.Fstatfs(int(file.Fd()), &disk); err != nil {
			t.Fatal(err)
		}
		left := int64(disk.Bavail)*disk.Bsize - but
		if left <= 0 {
			return path
		}
		_, err := file.Write(make([]byte, min(left, 1<<20)))
		switch {
		case errors.Is(err, unix.ENOSPC) && but == 0:
			// Whoever else uses the disk has taken some of it since.
			return path
		case err != nil:
			t.Fatalf("fill %s: %v", dir, err)
		}
	}
}
