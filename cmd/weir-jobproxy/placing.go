package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// placing moves copies of files to their destinations, and can move them back.
type placing struct {
	// aside are the paths of the copies. After an exchange the replaced file is at such a path.
	aside []string
	// undo has the copies that can be moved back, in the order in which they were placed.
	undo []placed
	// stays are destinations that cannot be restored.
	stays []string
}

// placed is a copy that was moved to its destination.
type placed struct {
	destination, folder string
	takeBack            func() error
}

// place moves a copy to a path, which people know as its destination. If the file system supports it, the copy and an existing
// file are exchanged atomically; the existing file is removed afterwards.
func (p *placing) place(aside, path, destination string) error {
	folder := filepath.Dir(path)
	err := exchange(aside, path)
	switch {
	case err == nil:
		p.undo = append(p.undo, placed{destination, folder, func() error { return exchange(aside, path) }})
	case errors.Is(err, unix.ENOENT):
		// There is no file at the destination yet.
		if err = os.Rename(aside, path); err == nil {
			p.undo = append(p.undo, placed{destination, folder, func() error { return os.Rename(path, aside) }})
		}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		// This file system cannot exchange files.
		if err = os.Rename(aside, path); err == nil {
			p.stays = append(p.stays, destination)
		}
	}
	if err != nil {
		return nameless(err)
	}
	return bare(syncFolder(folder))
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// nameless returns only the cause: the caller names the files.
func nameless(err error) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}

// takeBack moves back the copies that were placed before err, the last one first. It adds
// destinations that could not be restored to err.
func (p *placing) takeBack(err error) error {
	for _, put := range slices.Backward(p.undo) {
		undone := put.takeBack()
		if undone == nil {
			undone = syncFolder(put.folder)
		}
		if undone != nil {
			p.stays = append(p.stays, fmt.Sprintf("%s (%v)", put.destination, nameless(undone)))
		}
	}
	if len(p.stays) == 0 {
		return err
	}
	return fmt.Errorf("%w; these copies are left in place: %s", err, strings.Join(p.stays, ", "))
}
