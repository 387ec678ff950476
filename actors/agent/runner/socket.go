package runner

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// sockets are the listening sockets in the folder of a job. They are held open, so that the next job that gets the
// folder gets them too: what nobody holds open cannot be opened again. nil: not held.
type sockets struct{ control, discovery *os.File }

// close closes the sockets. They have no data to lose.
func (s sockets) close() {
	for _, file := range []*os.File{s.control, s.discovery} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// takeSockets returns the sockets of the job, which the caller has to close or to pass on.
func (j *Job) takeSockets() sockets {
	j.mu.Lock()
	defer j.mu.Unlock()
	held := j.sockets
	j.sockets = sockets{}
	return held
}

// hangUp closes the connections that nobody has accepted. Who made them was of an ended job.
func hangUp(socket *os.File) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(descriptor uintptr) {
		// It is shared with the proxy of the ended job, which may have waited for connections.
		if failed = unix.SetNonblock(int(descriptor), true); failed != nil {
			return
		}
		for {
			waiting, _, err := unix.Accept4(int(descriptor), unix.SOCK_CLOEXEC)
			switch {
			case err == nil:
				_ = unix.Close(waiting) // nothing was written through it
			case errors.Is(err, unix.EAGAIN):
				return
			case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ECONNABORTED):
				failed = err
				return
			}
		}
	})
	return errors.Join(err, failed)
}

// listen opens the socket for the proxy, or takes the one that came with the folder.
func (j *Job) listen() error {
	if j.sockets.control != nil {
		return hangUp(j.sockets.control)
	}
	return j.withPath(proxyproto.SocketFile, func(path string) error {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		listener.SetUnlinkOnClose(false)
		j.sockets.control, err = listener.File()
		return errors.Join(err, listener.Close(), os.Chmod(path, 0o600))
	})
}

func (j *Job) dial() (*net.UnixConn, error) {
	var conn *net.UnixConn
	err := j.withPath(proxyproto.SocketFile, func(path string) (err error) {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	return conn, err
}

// withPath calls use with a short path of a socket in the job's folder: the address of a socket has
// at most 108 bytes, but the folder's path may be longer.
func (j *Job) withPath(name string, use func(path string) error) error {
	folder, err := os.Open(j.runner.paths.job(j.id))
	if err != nil {
		return err
	}
	defer folder.Close()
	return use(filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), name))
}

// asMade reports whether the job that owned a socket has left it as it was made. A job could have given rights to
// its discovery socket.
func asMade(path string) bool {
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFSOCK || stat.Nlink != 1 {
		return false
	}
	size, err := unix.Llistxattr(path, nil)
	return err == nil && size == 0 || errors.Is(err, unix.ENOTSUP)
}
