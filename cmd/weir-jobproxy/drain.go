package main

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// drainTime is how long output may still come after every process of the job
// has gone: somebody outside may hold the pipe open.
const drainTime = 2 * time.Second

// drain reads a pipe of which a deadline is set when the job has gone. What was in it by then
// is read however late that is: the disk on which it is kept may be slow.
type drain struct {
	pipe *os.File
	// late: the deadline is over, and left is what of the pipe's content is still to be read.
	late bool
	left int
}

// finish sets the deadline.
func (d *drain) finish() {
	// It fails only when the pipe has been read to its end and closed.
	_ = d.pipe.SetReadDeadline(time.Now().Add(drainTime))
}

// copyBuffer is the size of a pipe, so one read empties it, in bytes.
const copyBuffer = 64 << 10

// each hands what is read to take, until the end or an error. The first read is of so many bytes,
// and others are as soon as it is not enough of more.
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

// Read implements io.Reader. os.ErrDeadlineExceeded says that somebody holds the pipe open.
func (d *drain) Read(p []byte) (int, error) {
	n, err := d.pipe.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, rawErr := d.pipe.SyscallConn()
	if rawErr != nil {
		return n, rawErr
	}
	if rawErr := raw.Control(func(fd uintptr) { n, err = d.readLate(int(fd), p) }); rawErr != nil {
		return 0, rawErr
	}
	return n, err
}

// readLate reads without waiting.
func (d *drain) readLate(fd int, p []byte) (int, error) {
	if !d.late {
		// That is FIONREAD: how much there is to be read.
		held, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		if err != nil {
			return 0, err
		}
		d.late, d.left = true, held
	}
	if d.left > 0 {
		n, err := again(func() (int, error) { return unix.Read(fd, p[:min(len(p), d.left)]) })
		d.left -= max(n, 0)
		if err == nil && n > 0 {
			return n, nil
		}
	}
	ends := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := again(func() (int, error) { return unix.Poll(ends, 0) }); err != nil {
		return 0, err
	}
	if ends[0].Revents&(unix.POLLHUP|unix.POLLIN) == unix.POLLHUP {
		return 0, io.EOF
	}
	return 0, os.ErrDeadlineExceeded
}

// again repeats a system call that a signal has cut off.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
