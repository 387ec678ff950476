package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
	"weir/actors/agent/runner/rights"
)

// localSource is a file on this machine.
type localSource struct {
	part *proxyproto.FeedPart
	// user is the user with whose rights the file is read; nil for the proxy's rights.
	user *proxyproto.User
	file *os.File
}

// read implements source. It checks the file on every call, so that a job does not spend long
// on data that will be rejected in the end.
func (l *localSource) read(_ context.Context, p []byte, offset int64) (int, error) {
	if err := l.open(); err != nil {
		return 0, err
	}
	n, err := l.file.ReadAt(p, offset)
	switch {
	case n > 0:
		return n, l.check()
	case errors.Is(err, io.EOF):
		return 0, changedError{fmt.Sprintf("it now ends at byte %d, but had %d bytes", offset, l.part.Size)}
	}
	return 0, fmt.Errorf("at byte %d: %w", offset, bare(err))
}

// open opens the file at the first call, and checks that it has not changed.
func (l *localSource) open() error {
	if l.file != nil {
		return nil
	}
	var file *os.File
	err := withRights(l.user, func() (err error) {
		// O_NONBLOCK: if the path is a pipe by now, opening it must not block the proxy.
		file, err = rights.Open(l.part.Path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return changedError{"it no longer exists"}
	}
	if err != nil {
		return inTheName(l.user, bare(err))
	}
	l.file = file
	// Advice only: an error does not matter.
	_ = unix.Fadvise(int(file.Fd()), l.part.Begin, l.part.End-l.part.Begin, unix.FADV_SEQUENTIAL)
	return l.check()
}

// check compares the file with its size and time when it was listed.
func (l *localSource) check() error {
	info, err := l.file.Stat()
	switch {
	case err != nil:
		return bare(err)
	case !info.Mode().IsRegular():
		return changedError{"it is no longer a regular file"}
	case info.Size() != l.part.Size:
		return changedError{fmt.Sprintf("it has %d bytes now, but had %d", info.Size(), l.part.Size)}
	case !l.part.ModTime.IsZero() && !info.ModTime().Equal(l.part.ModTime):
		return changedError{fmt.Sprintf("its modification time was %s, but is now %s", stamp(l.part.ModTime), stamp(info.ModTime()))}
	}
	return nil
}

// stamp formats the time of a file for people.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// close implements source.
func (l *localSource) close() error {
	if l.file == nil {
		return nil
	}
	return errors.Join(l.check(), l.file.Close())
}

// bare returns an error of the file system without the path, which the caller adds.
func bare(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
