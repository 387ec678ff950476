package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
	"weir/actors/agent/runner/rights"
)

// copyBlock is how much of a file is copied, in bytes, before the context is checked again.
const copyBlock = 16 << 20

// withRights calls the function `work` with the file rights of a user; nil for the proxy's rights.
func withRights(user *proxyproto.User, work func() error) error {
	if user == nil {
		return work()
	}
	return rights.As(user.UID, user.GID, work)
}

// inTheName adds the user to a permission error.
func inTheName(user *proxyproto.User, err error) error {
	if user == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: the job runs as user %d, group %d", err, user.UID, user.GID)
}

// keepFiles copies files that a completed job leaves in its workspace to their destinations,
// with the rights of its user. Those of a user that is the job's own then belong to the proxy's user.
func keepFiles(ctx context.Context, spec *proxyproto.Spec, ending *progress) error {
	if len(spec.Outputs) == 0 {
		return nil
	}
	// The user may have no access to folders above the workspace.
	root, err := os.OpenRoot(spec.Workspace)
	if err != nil {
		return fmt.Errorf("keep files: %w", err)
	}
	to := destinations{at: make([]string, len(spec.Outputs))}
	err = inTheName(spec.User, withRights(spec.User, func() error { return keepAll(ctx, root, spec, &to, ending) }))
	if spec.User != nil && spec.User.Own {
		// After an error too: folders were made, and maybe not all could be taken back.
		err = errors.Join(err, to.handOver(spec.User.UID, ending.move))
	}
	return errors.Join(err, to.close(), root.Close())
}

// keepAll first copies all files under temporary names and uploads those for stores, then moves
// the copies to their destinations, so that nobody sees a partial file. If a move fails, the
// earlier moves are undone.
func keepAll(ctx context.Context, root *os.Root, spec *proxyproto.Spec, to *destinations, ending *progress) error {
	outputs, at := spec.Outputs, to.at
	p := placing{aside: make([]string, len(outputs))}
	defer func() {
		for _, path := range p.aside {
			complain(os.RemoveAll(path))
		}
	}()
	for _, phase := range []struct {
		stored bool
		do     func(i int, kept proxyproto.KeptFile) error
	}{
		{false, func(i int, kept proxyproto.KeptFile) error {
			folder, err := to.open(filepath.Dir(kept.Destination))
			if err != nil {
				return explainSpace(kept.Destination, bare(err))
			}
			to.folders = append(to.folders, folder)
			at[i] = filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), filepath.Base(kept.Destination))
			// Another job may keep a file with the same destination.
			p.aside[i] = partial(at[i] + "." + spec.JobID)
			return copyAside(ctx, root, kept.Path, p.aside[i], ending.move)
		}},
		{true, func(_ int, kept proxyproto.KeptFile) error {
			err := putKept(ctx, root, kept, ending.move)
			if err == nil {
				p.stays = append(p.stays, withoutQuery(kept.Destination))
			}
			return err
		}},
		{false, func(i int, kept proxyproto.KeptFile) error { return p.place(p.aside[i], at[i], kept.Destination) }},
	} {
		for i, kept := range outputs {
			if isURL(kept.Destination) != phase.stored {
				continue
			}
			err := ctx.Err()
			ending.begin(fmt.Sprintf("keep %s as %s", kept.Path, withoutQuery(kept.Destination)))
			if err == nil {
				err = phase.do(i, kept)
			}
			if err != nil {
				return p.takeBack(fmt.Errorf("keep %s as %s: %w", kept.Path, withoutQuery(kept.Destination), err))
			}
		}
	}
	return nil
}

// copyAside copies a file or folder of the workspace, and calls move whenever it progresses.
func copyAside(ctx context.Context, root *os.Root, from, aside string, move func()) error {
	info, err := root.Lstat(from)
	if err != nil {
		return missing(err)
	}
	if err = os.RemoveAll(aside); err != nil {
		return bare(err)
	}
	if !info.IsDir() {
		return copyEntry(ctx, root, from, aside, move)
	}
	var folders []string
	err = fs.WalkDir(root.FS(), filepath.Clean(from), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		move()
		within, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(aside, within)
		if entry.IsDir() {
			folders = append(folders, target)
			return explainSpace(aside, bare(os.Mkdir(target, 0o755)))
		}
		if err := copyEntry(ctx, root, path, target, move); err != nil {
			return fmt.Errorf("%s: %w", within, err)
		}
		return nil
	})
	for _, folder := range folders {
		if err == nil {
			move()
			err = bare(syncFolder(folder))
		}
	}
	return err
}

// missing explains an error for a file that does not exist.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the job has not created it")
	}
	return bare(err)
}

// copyEntry copies a file, or a symbolic link as it is.
func copyEntry(ctx context.Context, root *os.Root, path, target string, move func()) error {
	info, err := root.Lstat(path)
	if err != nil {
		return missing(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(path)
		if err != nil {
			return bare(err)
		}
		return bare(os.Symlink(to, target))
	}
	from, err := openRegular(root, path)
	if err != nil {
		return err
	}
	err = copyTo(ctx, from, target, info.Mode().Perm(), move)
	return errors.Join(err, from.Close())
}

// openRegular opens a regular file in the workspace. O_NONBLOCK keeps a pipe from blocking the
// proxy.
func openRegular(root *os.Root, path string) (*os.File, error) {
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, missing(err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is neither a file, a folder nor a link, but %v", info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(bare(err), file.Close())
	}
	return file, nil
}

// copyTo copies a file and syncs it.
func copyTo(ctx context.Context, from *os.File, target string, mode fs.FileMode, move func()) error {
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
	if err != nil {
		return bare(err)
	}
	for at := int64(0); err == nil; at += copyBlock {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(to, from, copyBlock)
			writeBehind(to, at)
			move()
		}
	}
	if errors.Is(err, io.EOF) {
		err = to.Sync()
	}
	if err = errors.Join(bare(err), to.Close()); err != nil {
		return explainSpace(target, err)
	}
	return nil
}

// writeBehind makes the disk start writing a block, and waits for the previous block. This leaves
// little to write at the end of a big file on a slow disk, when no progress is visible.
func writeBehind(to *os.File, at int64) {
	// This is only advice: the final sync writes the rest.
	_ = unix.SyncFileRange(int(to.Fd()), at, copyBlock, unix.SYNC_FILE_RANGE_WRITE)
	if at > 0 {
		const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
		_ = unix.SyncFileRange(int(to.Fd()), at-copyBlock, copyBlock, wait)
	}
}

// putKept uploads a file to a store.
func putKept(ctx context.Context, root *os.Root, kept proxyproto.KeptFile, move func()) error {
	info, err := root.Lstat(kept.Path)
	if err != nil {
		return missing(err)
	}
	if info.IsDir() {
		return errors.New("it is a folder, but a URL can take only one file")
	}
	file, err := openRegular(root, kept.Path)
	if err != nil {
		return err
	}
	err = stores.put(ctx, kept.Destination, file, move)
	return errors.Join(err, file.Close())
}
