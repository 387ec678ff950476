package storage

import (
	"context"
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// discard implements backend.
func (l *local) discard(_ context.Context, out target, completed bool) error {
	parent, err := l.open(filepath.Dir(out.path))
	if isAbsent(err) || errors.Is(err, ErrForbidden) {
		// Nothing was staged here. If the allowed folders have changed since, whoever
		// changed them has to remove the remains.
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.close()
	staging, err := stage(parent, out)
	if isAbsent(err) || errors.Is(err, errNotOurs) {
		// Without the staging folder nothing can be identified as this operation's output.
		return nil
	}
	if err != nil {
		return plain(err)
	}
	defer staging.close()
	if !completed {
		if err := retract(parent, staging, out); err != nil {
			return plain(err)
		}
	}
	if err := staging.clear(); err != nil {
		return plain(err)
	}
	return plain(parent.removeFolder(filepath.Base(out.staging())))
}

// retract removes an output that consists of staged files.
func retract(parent, staging *folder, out target) error {
	name := filepath.Base(out.path)
	if !out.folder {
		if same(staging, whole, parent, name) {
			return parent.remove(name)
		}
		return nil
	}
	there, err := parent.into(name)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer there.close()
	staged, err := staging.inodes()
	if err != nil {
		return err
	}
	published, err := there.inodes()
	if err != nil {
		return err
	}
	ours := map[inode]bool{}
	for _, file := range staged {
		ours[file] = true
	}
	for _, file := range published {
		if !ours[file] {
			return nil
		}
	}
	if len(published) == 0 {
		return nil
	}
	for part := range published {
		if err := there.remove(part); err != nil {
			return err
		}
	}
	err = parent.removeFolder(name)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		// Somebody else has put a file there meanwhile.
		return nil
	}
	return err
}

// inodes returns the inode of each name in a folder; none if the folder is gone.
func (d *folder) inodes() (map[string]inode, error) {
	names, err := d.names()
	if gone(err) != nil {
		return nil, err
	}
	found := map[string]inode{}
	for _, name := range names {
		is, err := d.stat(name)
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found[name] = inodeOf(is)
	}
	return found, nil
}
