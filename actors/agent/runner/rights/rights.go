// Package rights lets the agent and the job proxy, which may be root, access files for a job with
// only the rights of that job.
package rights

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// As calls the function `work` with the file access rights of a user with a single group, and
// without any capability. Files that `work` creates belong to that user. `work` must not leave its goroutine: the rights are
// those of one thread. As fails for another user unless this process is root.
func As(uid, gid uint32, work func() error) error {
	if int(uid) == os.Geteuid() && int(gid) == os.Getegid() {
		return work()
	}
	done := make(chan error, 1)
	go func() {
		// The thread stays locked, so that it ends with the goroutine, and its rights with it.
		runtime.LockOSThread()
		if err := become(int(uid), int(gid)); err != nil {
			done <- fmt.Errorf("take the rights of user %d: %w", uid, err)
			return
		}
		done <- work()
	}()
	return <-done
}

// Open opens a file whose name a user gave, close-on-exec. It fails with ELOOP if the name leads
// through a magic link, such as /proc/self/fd/3: that would be a file that this process has open,
// whatever the rights of the user are.
func Open(path string, flags int, mode uint32) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), path), nil
		case unix.EINTR, unix.EAGAIN:
		default:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// become gives the calling thread the file access rights of a user, and takes its capabilities away.
func become(uid, gid int) error {
	// The functions of package syscall would change all threads.
	if err := unix.Setgroups([]int{gid}); err != nil {
		return err
	}
	if _, err := unix.SetfsgidRetGid(gid); err != nil {
		return err
	}
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		return err
	}
	// The system call returns the previous user and no error, so check whether the change took
	// effect.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != uid {
		return unix.EPERM
	}
	// The kernel has dropped those over files, but no others, such as those over other processes.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
