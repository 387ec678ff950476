// Package disktest provides tests with small disks, also ones that hang, and with folders that
// other users can reach.
package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Small mounts an empty disk of the given size and returns its folder. The disk is unmounted
// when the test has ended, whatever its result. The test is skipped if it may not mount, for
// example without root and in most containers.
func Small(t testing.TB, bytes int64) string {
	t.Helper()
	return SmallIn(t, t.TempDir(), bytes)
}

// SmallIn is Small for a disk within a folder.
func SmallIn(t testing.TB, folder string, bytes int64) string {
	t.Helper()
	dir := filepath.Join(folder, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("weir-test", dir, "tmpfs", 0, "mode=0700,size="+strconv.FormatInt(bytes, 10))
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		t.Skipf("cannot mount the small disk that this test fills (needs root with CAP_SYS_ADMIN): %v", err)
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

// Reachable is OpenFolder for a test, which is skipped if there is no such folder.
func Reachable(t testing.TB) string {
	t.Helper()
	folder, found := OpenFolder()
	if !found {
		t.Skip("no folder for temporary files is open to all users: set TMPDIR to one that is")
	}
	return folder
}

// OpenFolder finds a folder for temporary files that every user of the machine can pass
// through, preferably the default one.
func OpenFolder() (folder string, found bool) {
	for _, folder := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		open := true
		for path := folder; open && path != filepath.Dir(path); path = filepath.Dir(path) {
			info, err := os.Stat(path)
			open = err == nil && info.Mode()&0o001 != 0
		}
		if open {
			return folder, true
		}
	}
	return "", false
}

// Fill fills a disk except for the given number of bytes, and returns the file that it wrote.
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
			// Another user of the disk has taken the rest since.
			return path
		case err != nil:
			t.Fatalf("fill %s: %v", dir, err)
		}
	}
}
