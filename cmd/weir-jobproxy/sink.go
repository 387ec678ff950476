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
	"weir/scheduling/records"
)

// writeBack is how much is written before the disk is told to begin with it, in bytes:
// what waits for the end is written then all at once.
const writeBack = 8 << 20

// sink takes a fed job's standard output.
type sink struct {
	feed *proxyproto.Feed
	// owner is whose the output will be; nil: the proxy's.
	owner  *proxyproto.User
	ending *progress
	// path is where the output is until the job has completed: beside where it goes, or
	// in the job's folder when that is a URL.
	path string
	// folder is the one of path. It is held, so that who may write above it cannot lead the
	// proxy elsewhere.
	folder *os.Root
	file   *os.File
	reader drain
	done   chan struct{}

	rows, bytes atomic.Int64
	unended     bool
	// started is of how much the disk has been told to begin with it.
	started int64
	err     error
}

// openSink returns the sink and the end of the pipe for a job that is a user.
func openSink(feed *proxyproto.Feed, user *proxyproto.User, folder string, ending *progress) (*sink, *os.File, error) {
	if user != nil && user.OfOneJob() {
		// Nobody is that user when the job has gone.
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

// create makes the file anew, and an earlier file is not written to: it might be another one's
// too.
func (k *sink) create() error {
	// The folder is no link.
	fd, err := unix.Open(filepath.Dir(k.path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return errors.New("its folder is a link, which is not followed")
	}
	if err != nil {
		return err
	}
	k.folder, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err = errors.Join(err, unix.Close(fd)); err != nil {
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

// isURL tells destinations that are put to a store from paths.
func isURL(destination string) bool {
	return strings.HasPrefix(destination, "http://") || strings.HasPrefix(destination, "https://")
}

// partial is the name of what is not all there yet of a path.
func partial(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
}

// run takes output to its end, and calls fail when it cannot be kept.
func (k *sink) run(fail func(error)) {
	defer close(k.done)
	err := k.reader.each(pipeSize, k.take)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		k.err = k.failed(errors.New("somebody who is no process of the job holds it open"))
	case err != nil:
		k.err = k.failed(err)
		fail(k.err)
	}
}

// take counts and keeps some output.
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
		// This is advice.
		_ = unix.SyncFileRange(int(k.file.Fd()), k.started, length, unix.SYNC_FILE_RANGE_WRITE)
		k.started = written
	}
	return nil
}

// finish waits for the last output. No process of the job is left.
func (k *sink) finish() {
	k.reader.finish()
	<-k.done
	complain(k.reader.pipe.Close())
	if k.unended {
		k.rows.Add(1)
	}
}

// keep puts the output where it goes, so that it is there after a power failure too.
func (k *sink) keep(ctx context.Context) (*proxyproto.OutputCount, error) {
	err := k.err
	k.ending.begin("keep the output " + withoutQuery(k.feed.Output))
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

// publish renames the output, when all of it is on disk, to its name.
func (k *sink) publish(ctx context.Context) error {
	name := filepath.Base(k.feed.Output)
	for _, step := range []func() error{
		k.give,
		k.file.Sync,
		ctx.Err,
		func() error { return k.folder.Rename(filepath.Base(k.path), name) },
		func() error { return k.checkName(name) },
		k.syncFolder,
	} {
		if err := step(); err != nil {
			return k.failed(err)
		}
	}
	return nil
}

func (k *sink) syncFolder() error {
	folder, err := k.folder.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// outputMode is that of outputs, whatever the umask is: as replicas make them that are put
// together.
const outputMode = 0o644

// give makes the whole output its owner's, by its descriptor, whatever has its name.
func (k *sink) give() error {
	err := k.file.Chmod(outputMode)
	if err != nil || k.owner == nil {
		return err
	}
	err = k.file.Chown(int(k.owner.UID), int(k.owner.GID))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
		// A shared file system may know neither root nor owners.
		complain(k.failed(err))
		return nil
	}
	return err
}

// checkName says that a name is not that of what was written. Who may write above the folder
// can put another one in its place.
func (k *sink) checkName(name string) error {
	written, err := k.file.Stat()
	if err != nil {
		return err
	}
	named, err := k.folder.Lstat(name)
	if err == nil && !os.SameFile(written, named) {
		err = errors.New("somebody has put another file in its place")
	}
	return err
}

// discard leaves nothing but an output that has been published.
func (k *sink) discard() {
	complain(k.file.Close())
	complain(k.folder.Remove(filepath.Base(k.path)), os.ErrNotExist)
	complain(k.folder.Close())
}

func (k *sink) failed(err error) error {
	return fmt.Errorf("output %s: write %s: %w", k.feed.Part, k.path, explainSpace(k.path, bare(err)))
}

// explainSpace adds to an error for want of space which file system has how much.
func explainSpace(path string, err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	folder := filepath.Dir(path)
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
