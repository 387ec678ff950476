package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/rights"
)

// destinations are where files of a job are kept.
type destinations struct {
	// at are their paths, below folders that are held open: their names are followed once. Empty for
	// those in stores.
	at      []string
	folders []*os.File
	// made are the folders that were missing.
	made []*os.File
}

func (d *destinations) close() (err error) {
	for _, folder := range append(d.folders, d.made...) {
		err = errors.Join(err, folder.Close())
	}
	return err
}

// open opens a folder. It creates the folder, and missing folders above it, so that they survive
// a power failure. It follows links, but no magic ones: see rights.Open.
func (d *destinations) open(path string) (*os.File, error) {
	folder, err := rights.Open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return folder, err
	}
	above, err := d.open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if err = unix.Mkdirat(int(above.Fd()), filepath.Base(path), 0o755); err == nil {
		var made *os.File
		if made, err = hold(below(above, path)); err == nil {
			d.made = append(d.made, made)
			err = syncFolder(below(above, "."))
		}
	}
	if err = errors.Join(err, above.Close()); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return rights.Open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// below returns the path of what has the last name of path in a folder that is open.
func below(folder *os.File, path string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), filepath.Base(path))
}

// hold opens what is at a path, even a link, without any access to its content.
func hold(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
}

// handOver gives what was kept, and the folders that were made for it, from a user that is one job's own to
// the proxy's user: a later job with that id must neither own nor change it. Others may read what the job
// let them read, and write nothing. It works on open files only, and on nothing that is not the user's:
// others may have the right to rename what is in the same folder.
func (d *destinations) handOver(from uint32, move func()) error {
	var held []*os.File
	for _, path := range d.at {
		if path == "" {
			continue
		}
		kept, err := hold(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was not placed, or another process has removed it.
		} else if err != nil {
			complain(bare(err))
			continue
		}
		held = append(held, kept)
	}
	var failed error
	for _, file := range append(d.made, held...) {
		if failed == nil {
			failed = takeOver(file, from)
		}
	}
	for _, file := range held {
		if failed == nil {
			failed = takeOverBelow(file, from, move)
		}
		failed = errors.Join(failed, file.Close())
	}
	if errors.Is(failed, unix.EPERM) || errors.Is(failed, unix.EACCES) || errors.Is(failed, unix.ENOTSUP) {
		// A shared file system may not support owners, or may squash root.
		complain(fmt.Errorf("kept files still belong to user %d: %w", from, failed))
		return nil
	}
	return failed
}

// takeOver makes the proxy's user the owner of a file, folder or link that belongs to a user.
func takeOver(file *os.File, from uint32) error {
	var is unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &is); err != nil || is.Uid != from {
		return err
	}
	err := unix.Fchownat(int(file.Fd()), "", os.Geteuid(), os.Getegid(), unix.AT_EMPTY_PATH)
	if err != nil || is.Mode&unix.S_IFMT == unix.S_IFLNK || is.Mode&0o022 == 0 {
		return err
	}
	return unix.Chmod(filepath.Join("/proc/self/fd", strconv.Itoa(int(file.Fd()))), is.Mode&0o755)
}

// takeOverBelow takes over what is in a folder, which belongs to the proxy's user by now.
func takeOverBelow(folder *os.File, from uint32, move func()) error {
	info, err := folder.Stat()
	if err != nil || !info.IsDir() {
		return err
	}
	root, err := os.OpenRoot(filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd()))))
	if err != nil {
		return err
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		move()
		// Everything above path belongs to the proxy's user, so nobody can put another file there.
		entry, err := hold(filepath.Join(root.Name(), path))
		if err != nil {
			return err
		}
		return errors.Join(takeOver(entry, from), entry.Close())
	})
	return errors.Join(err, root.Close())
}
