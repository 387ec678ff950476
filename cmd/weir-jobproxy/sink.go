package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
	"weir/actors/agent/runner/rights"
	"weir/scheduling/records"
)

// writeBack is how many bytes are written before write-back to disk is started. Without this, the
// whole write-back would happen at the end.
const writeBack = 8 << 20

// sink stores a fed job's standard output.
type sink struct {
	feed *proxyproto.Feed
	// owner is the user that will own the output; nil for the proxy's own.
	owner  *proxyproto.User
	ending *progress
	// path is the file that holds the output until the job has completed: next to its
	// destination, or in the job's folder if the destination is a URL.
	path string
	// folder is the folder of path. It is held open, so that a user who may write above it
	// cannot redirect the proxy.
	folder *os.Root
	file   *os.File
	reader drain
	done   chan struct{}

	rows, bytes atomic.Int64
	unended     bool
	// started is how many bytes have had their write-back to disk started.
	started int64
	err     error
}

// openSink returns the sink, and the write end of the pipe for a job that runs as user.
func openSink(feed *proxyproto.Feed, user *proxyproto.User, folder string, ending *progress) (*sink, *os.File, error) {
	if user != nil && user.Own {
		// A user of only one job no longer exists after the job.
		user = nil
	}
	k := &sink{feed: feed, owner: user, ending: ending, path: filepath.Join(folder, "spool"), done: make(chan struct{})}
	if !isURL(feed.Output) {
		k.path = partial(feed.Output)
	}
	if err := k.create(); err != nil {
		return nil, nil, k.failed(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		k.discard()
		return nil, nil, k.failed(err)
	}
	enlarge(int(writer.Fd()), pipeSize)
	k.reader.pipe = reader
	return k, writer, nil
}

// create creates the file. It removes an earlier file instead of writing to it: that file might be
// a hard link to another.
func (k *sink) create() error {
	// O_NOFOLLOW: the folder itself must not be a link.
	folder, err := rights.Open(filepath.Dir(k.path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return errors.New("its folder is a link, which is not followed")
	}
	if err != nil {
		return err
	}
	k.folder, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()))
	if err = errors.Join(err, folder.Close()); err != nil {
		return err
	}
	name := filepath.Base(k.path)
	if err = k.folder.Remove(name); err == nil || errors.Is(err, os.ErrNotExist) {
		k.file, err = k.folder.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	}
	if err != nil {
		return errors.Join(err, k.folder.Close())
	}
	return nil
}

// isURL reports whether a destination is the URL of an object in a store, not a path.
func isURL(destination string) bool {
	return strings.HasPrefix(destination, "http://") || strings.HasPrefix(destination, "https://")
}

// partial returns the path that a file has until it is complete.
func partial(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
}

// run stores output up to its end, and calls fail if it cannot.
func (k *sink) run(fail func(error)) {
	defer close(k.done)
	err := k.reader.each(pipeSize, k.take)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		k.err = k.failed(errors.New("a process outside the job holds the pipe open"))
	case err != nil:
		k.err = k.failed(err)
		fail(k.err)
	}
}

// take counts and stores a piece of output.
func (k *sink) take(data []byte) error {
	written := k.bytes.Add(int64(len(data)))
	if records.Format(k.feed.Format).Bordered() {
		k.rows.Add(int64(bytes.Count(data, []byte("\n"))))
		k.unended = data[len(data)-1] != '\n'
	}
	if _, err := k.file.Write(data); err != nil {
		return err
	}
	if length := written - k.started; length >= writeBack {
		// Advice only: an error does not matter.
		_ = unix.SyncFileRange(int(k.file.Fd()), k.started, length, unix.SYNC_FILE_RANGE_WRITE)
		k.started = written
	}
	return nil
}

// finish waits for the last output. It is called once all processes of the job have ended.
func (k *sink) finish() {
	k.reader.finish()
	<-k.done
	complain(k.reader.pipe.Close())
	if k.unended {
		k.rows.Add(1)
	}
}

// keep moves the output to its destination, so that it survives a power failure.
func (k *sink) keep(ctx context.Context) (*proxyproto.OutputCount, error) {
	err := k.err
	k.ending.begin("store the output " + withoutQuery(k.feed.Output))
	switch {
	case err != nil:
	case !isURL(k.feed.Output):
		err = k.publish(ctx)
	default:
		if err = stores.put(ctx, k.feed.Output, k.file, k.ending.move); err != nil {
			err = fmt.Errorf("output %s: %w", k.feed.Part, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return &proxyproto.OutputCount{Part: k.feed.Part, Rows: k.rows.Load(), Bytes: k.bytes.Load()}, nil
}

// publish renames the output to its final name once all of it is on disk.
func (k *sink) publish(ctx context.Context) error {
	name := filepath.Base(k.feed.Output)
	for _, step := range []func() error{
		k.give,
		k.file.Sync,
		ctx.Err,
		func() error { return k.folder.Rename(filepath.Base(k.path), name) },
		func() error { return k.checkName(name) },
		func() error { return syncOpened(k.folder.Open(".")) },
	} {
		if err := step(); err != nil {
			return k.failed(err)
		}
	}
	return nil
}

// outputMode is the mode of outputs, whatever the umask: the same that replicas give to
// assembled outputs.
const outputMode = 0o644

// give sets the mode and owner of the complete output, through its descriptor.
func (k *sink) give() error {
	err := k.file.Chmod(outputMode)
	if err != nil || k.owner == nil {
		return err
	}
	err = k.file.Chown(int(k.owner.UID), int(k.owner.GID))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
		// A shared file system may not support owners, or may squash root.
		complain(k.failed(err))
		return nil
	}
	return err
}

// checkName returns an error if a name does not refer to the file that was written: a user who
// may write to the folder can replace it.
func (k *sink) checkName(name string) error {
	written, err := k.file.Stat()
	if err != nil {
		return err
	}
	named, err := k.folder.Lstat(name)
	if err == nil && !os.SameFile(written, named) {
		err = errors.New("another file has been put in its place")
	}
	return err
}

// discard removes the output unless it has been published.
func (k *sink) discard() {
	complain(k.file.Close())
	complain(k.folder.Remove(filepath.Base(k.path)), os.ErrNotExist)
	complain(k.folder.Close())
}

func (k *sink) failed(err error) error {
	return fmt.Errorf("output %s: write %s: %w", k.feed.Part, k.path, explainSpace(k.path, bare(err)))
}

// explainSpace adds the free space of the file system to an error for lack of space.
func explainSpace(path string, err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	folder := filepath.Dir(path)
	if resolved, err := filepath.EvalSymlinks(folder); err == nil {
		// It may be the name of a descriptor.
		folder = resolved
	}
	var space unix.Statfs_t
	if statErr := unix.Statfs(folder, &space); statErr != nil {
		return err
	}
	return fmt.Errorf("%w: the file system at %s has %d bytes free of %d", err, mountPoint(folder),
		int64(space.Bavail)*space.Bsize, int64(space.Blocks)*space.Bsize)
}

// mountPoint is the highest folder above a path on the same file system.
func mountPoint(path string) string {
	var of, parent unix.Stat_t
	if unix.Stat(path, &of) != nil {
		return path
	}
	for path != "/" {
		above := filepath.Dir(path)
		if above == path || unix.Stat(above, &parent) != nil || parent.Dev != of.Dev {
			break
		}
		path = above
	}
	return path
}
