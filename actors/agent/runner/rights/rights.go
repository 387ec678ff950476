// Package rights lets the agent and the job proxy, which may be root, use files that jobs
// name with no more rights than the jobs have.
package rights

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// As does work, which is all done by one goroutine, with the rights to files of a user, who
// is in one group. Files that it makes are the user's. Only root can be another.
func As(uid, gid uint32, work func() error) error {
	if int(uid) == os.Geteuid() && int(gid) == os.Getegid() {
		return work()
	}
	done := make(chan error, 1)
	go func() {
		// The thread is not unlocked: with the goroutine it ends, and its rights with it.
		runtime.LockOSThread()
		if err := become(int(uid), int(gid)); err != nil {
			done <- fmt.Errorf("take the rights of user %d: %w", uid, err)
			return
		}
		done <- work()
	}()
	return <-done
}

// become gives the calling thread the rights to files of a user. As the kernel has it, root
// gives up its right to do anything with all files.
func become(uid, gid int) error {
	// Not the functions of package syscall, which change all threads.
	if err := unix.Setgroups([]int{gid}); err != nil {
		return err
	}
	if _, err := unix.SetfsgidRetGid(gid); err != nil {
		return err
	}
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		return err
	}
	// The kernel says who the thread was, not whether it may be somebody else.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != uid {
		return unix.EPERM
	}
	return nil
}
