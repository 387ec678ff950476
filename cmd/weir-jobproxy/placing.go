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

// placing puts copies of files in their places, and takes them back.
type placing struct {
	// aside are the copies; what they have taken the place of is there then.
	aside []string
	// undo takes back what has been put in its place, by destination, in order.
	undo []placed
	// stays are destinations that cannot be taken back.
	stays []string
}

// placed is a copy in its place.
type placed struct {
	destination string
	takeBack    func() error
}

// place puts what was copied in the place of what is there. The two change names in one
// step, where the file system can do that; what was there is removed in the end.
func (p *placing) place(aside, destination string) error {
	err := exchange(aside, destination)
	switch {
	case err == nil:
		p.undo = append(p.undo, placed{destination, func() error { return exchange(aside, destination) }})
	case errors.Is(err, unix.ENOENT):
		// There is nothing yet.
		if err = os.Rename(aside, destination); err == nil {
			p.undo = append(p.undo, placed{destination, func() error { return os.Rename(destination, aside) }})
		}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		// This file system cannot exchange.
		if err = os.Rename(aside, destination); err == nil {
			p.stays = append(p.stays, destination)
		}
	}
	if err != nil {
		return nameless(err)
	}
	return bare(syncFolder(filepath.Dir(destination)))
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// nameless returns the cause alone: the caller says which files.
func nameless(err error) error {
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}

// takeBack undoes what was put in its place before err, the last first, and adds to err
// what stays.
func (p *placing) takeBack(err error) error {
	for _, put := range slices.Backward(p.undo) {
		undone := put.takeBack()
		if undone == nil {
			undone = syncFolder(filepath.Dir(put.destination))
		}
		if undone != nil {
			p.stays = append(p.stays, fmt.Sprintf("%s (%v)", put.destination, nameless(undone)))
		}
	}
	if len(p.stays) == 0 {
		return err
	}
	return fmt.Errorf("%w; what could not be taken back is in its place: %s", err, strings.Join(p.stays, ", "))
}
