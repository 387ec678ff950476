// Package rights lets the agent and the job proxy, which may be root, access files for a job with
// only the rights of that job.
package rights

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// As calls the function `work` with the file access rights of a user with a single group. Files
// that `work` creates belong to that user. `work` must not leave its goroutine: the rights are
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

// become gives the calling thread the file access rights of a user. The kernel drops root's
// privileges over all files along with it.
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
	return nil
}
