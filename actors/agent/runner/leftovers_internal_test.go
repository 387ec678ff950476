package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemoveDeepFolders (T2) removes what a job can leave: folders in more folders than a process may open,
// with names that no path can hold, and without the rights to read them. It must not use up the files
// that the agent may open, and nothing outside may go.
func TestRemoveDeepFolders(t *testing.T) {
	top := filepath.Join(t.TempDir(), "job")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.Mkdir(top, 0o700), os.WriteFile(outside, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	const depth = 3000
	at, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := range depth {
		if err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			for wide := range 50 {
				name := "wide" + strconv.Itoa(wide)
				err = errors.Join(err, unix.Mkdirat(at, name, 0o700), unix.Mkdirat(at, name+"/more", 0o000), unix.Symlinkat(outside, at, "link"+name))
			}
		}
		var next int
		if err = errors.Join(err, unix.Mkdirat(at, "d", 0o700)); err == nil {
			next, err = unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		err = errors.Join(err, unix.Fchmod(at, 0o000), unix.Close(at))
		at = next
	}
	if err = errors.Join(err, unix.Close(at)); err != nil {
		t.Fatal(err)
	}
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	few := usual
	few.Cur = min(usual.Cur, depth/4)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err = removeTree(top)
	if restored := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); restored != nil {
		t.Fatal(restored)
	}
	if err != nil {
		t.Fatalf("%.300v", err)
	}
	if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Error(err)
	}
	if err := removeTree(top); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}
