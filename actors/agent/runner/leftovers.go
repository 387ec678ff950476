package runner

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// mostOpen is how many folders within each other removeTree has open at once. A job can make more of them
// than the agent may open.
const mostOpen = 100

// removeTree removes a folder whose content may be protected from its owner, and may be as deep as a job
// has made it. Errors name the last part of a path only, because the path may be of any length.
func removeTree(folder string) error {
	fd, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: folder, Err: err}
	}
	if err := (remover{top: fd}).empty(fd, 0); err != nil {
		return err
	}
	return os.Remove(folder)
}

// remover removes what is in the open folder top.
type remover struct{ top int }

// empty removes what is in an open folder, which it closes.
func (r remover) empty(fd, depth int) error {
	folder := os.NewFile(uintptr(fd), "folder")
	defer folder.Close()
	// A job may have taken away its own right to write into its folders. Only the owner may change that,
	// and root, who needs no such right.
	_ = unix.Fchmod(fd, 0o700)
	for {
		// What is removed or added while a folder is read may make the kernel skip names.
		names, err := folder.Readdirnames(1024)
		if errors.Is(err, io.EOF) {
			if _, err = folder.Seek(0, io.SeekStart); err == nil {
				names, err = folder.Readdirnames(1024)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		for _, name := range names {
			if err == nil {
				err = r.remove(fd, name, depth)
			}
		}
		if err != nil {
			return err
		}
	}
}

// remove removes a name in an open folder. A folder that is too deep it moves to the top.
func (r remover) remove(in int, name string, depth int) error {
	err := unix.Unlinkat(in, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(in, name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST):
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	// The same as in empty.
	_ = unix.Fchmodat(in, name, 0o700, 0)
	if depth == mostOpen {
		if err := unix.Renameat(in, name, r.top, rand.Text()); err != nil {
			return &os.PathError{Op: "move", Path: name, Err: err}
		}
		return nil
	}
	fd, err := unix.Openat(in, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	if err := r.empty(fd, depth+1); err != nil {
		return err
	}
	if err := unix.Unlinkat(in, name, unix.AT_REMOVEDIR); err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}
