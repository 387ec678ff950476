package main

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainTime is how long output may still come after every process of the job has gone: an
// outsider may hold the pipe open.
const drainTime = 2 * time.Second

// drain reads a pipe that gets a deadline when the job has gone. Data that is in the pipe at the
// deadline is still read: the disk that stores it may be slow.
type drain struct {
	pipe *os.File
	// late says that the deadline has passed. left is how much of the pipe's data is still to be
	// read, in bytes.
	late bool
	left int
}

// finish sets the deadline.
func (d *drain) finish() {
	// This fails only if the pipe has been read to its end and closed.
	_ = d.pipe.SetReadDeadline(time.Now().Add(drainTime))
}

// copyBuffer is the size of a pipe, in bytes: one read empties it.
const copyBuffer = 64 << 10

// each passes the data to the function take, until the end of the pipe or an error. `first` is the
// size of the first buffer. Once a read fills that buffer, a larger one is used.
func (d *drain) each(first int, take func([]byte) error) error {
	buffer := make([]byte, first)
	for {
		n, err := d.Read(buffer)
		if n > 0 {
			if err := take(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if n == len(buffer) && n < copyBuffer {
			buffer = make([]byte, copyBuffer)
		}
	}
}

// Read implements io.Reader. os.ErrDeadlineExceeded means that an outsider holds the pipe open.
func (d *drain) Read(p []byte) (int, error) {
	if !d.late {
		n, err := d.pipe.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if d.left, err = unread(d.pipe); err != nil {
			return 0, err
		}
		d.late = true
	}
	// The remaining data is available at once. So is the end of the pipe, unless an outsider holds
	// the pipe open.
	_ = d.pipe.SetReadDeadline(time.Now().Add(drainTime))
	n, err := d.pipe.Read(p[:max(1, min(len(p), d.left))])
	if d.left == 0 && err == nil {
		return 0, os.ErrDeadlineExceeded
	}
	d.left -= n
	return n, err
}

// unread returns how many bytes can be read without blocking.
func unread(from syscall.Conn) (n int, err error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	// TIOCINQ is FIONREAD.
	controlErr := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n, errors.Join(err, controlErr)
}

// again repeats a system call that a signal has interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
