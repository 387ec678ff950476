package runner

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// tellTimeout limits how long a message to a proxy may wait for room in the socket's
// buffer, which it fits unless the proxy has been stopped for long.
const tellTimeout = 100 * time.Millisecond

// send writes a line. What there is room for is written at once, without a deadline, which on
// a busy machine could be over before the write has begun.
func send(conn *net.UnixConn, line []byte) error {
	if err := conn.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var written int
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		written, failed = unix.Write(int(fd), line)
		return true
	})
	switch {
	case err != nil:
		return err
	case failed == nil && written == len(line):
		return nil
	case failed != nil && !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR):
		return failed
	}
	if err := conn.SetWriteDeadline(time.Now().Add(tellTimeout)); err != nil {
		return err
	}
	_, err = conn.Write(line[max(written, 0):])
	return err
}
