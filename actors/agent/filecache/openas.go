package filecache

import (
	"os"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
	"weir/actors/agent/runner/rights"
)

// openAs opens a file for reading with the rights of a user: an agent that runs as root must
// not read files for jobs that may not read them.
func openAs(path string, as *proxyproto.User) (file *os.File, err error) {
	open := func() (err error) {
		file, err = rights.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		return err
	}
	if as == nil {
		err = open()
		return file, err
	}
	err = rights.As(as.UID, as.GID, open)
	return file, err
}
