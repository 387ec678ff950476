package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRenameNew with and without what not all file systems have.
func TestRenameNew(t *testing.T) {
	fails := func(err error) func(*folder, string, *folder, string) error {
		return func(*folder, string, *folder, string) error { return err }
	}
	for how, rename := range map[string]func(from *folder, name string, to *folder, as string) error{
		"by the file system":        noReplace,
		"no such flag":              fails(unix.EINVAL),
		"no such call":              fails(unix.ENOSYS),
		"no such call of this kind": fails(unix.EOPNOTSUPP),
	} {
		for there, test := range map[string]struct {
			is      func(name string) error
			wantErr bool
		}{
			"nothing":            {is: func(string) error { return nil }},
			"a file":             {is: func(name string) error { return os.WriteFile(name, nil, 0o600) }, wantErr: true},
			"a folder":           {is: func(name string) error { return os.Mkdir(name, 0o700) }, wantErr: true},
			"a folder with much": {is: func(name string) error { return os.MkdirAll(filepath.Join(name, "much"), 0o700) }, wantErr: true},
		} {
			t.Run(how+", there is "+there, func(t *testing.T) {
				dir := t.TempDir()
				from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
				if err := errors.Join(os.Mkdir(from, 0o700), test.is(to)); err != nil {
					t.Fatal(err)
				}
				held, err := hold(unix.AT_FDCWD, dir, dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer held.close()
				err = renameNew(held, "from", held, "to", rename)
				if test.wantErr != errors.Is(err, fs.ErrExist) || !test.wantErr && err != nil {
					t.Errorf("rename: %v", err)
				}
			})
		}
	}
}
