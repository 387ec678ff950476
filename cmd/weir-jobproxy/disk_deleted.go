package main

import (
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
)

// mostDescriptors is how many open files one measurement goes through. The next measurement begins
// after the process at which the last one ended.
const mostDescriptors = 10_000

// deletedMark is the suffix of the kernel's name for an open file that was deleted.
const deletedMark = " (deleted)"

// openDeleted finds deleted files that a process of the job holds open for writing: they take
// space until they are closed. A deleted file that is open only for reading may belong to
// someone else, such as a log or a data set that was replaced.
type openDeleted struct {
	processes func() ([]proctree.Process, error)
	// `most` is how many open files one measurement goes through.
	most int
	// `next` is the index of the process at which the next measurement begins.
	next int
}

// fileID identifies a file among those that exist.
type fileID struct{ device, inode uint64 }

// add adds the deleted files on these devices to the usage, each once.
func (o *openDeleted) add(use *diskUse, workspace string, devices map[uint64]bool) {
	processes, err := o.processes()
	if err != nil {
		complain(err)
		return
	}
	seen, left := map[fileID]bool{}, o.most
	for i := range processes {
		at := (o.next + i) % len(processes)
		if left -= o.addOf(use, processes[at].Pid, workspace, devices, seen, left); left <= 0 {
			o.next = (at + 1) % len(processes)
			return
		}
		use.move()
	}
	o.next = 0
}

// addOf adds the deleted files of one process. It returns how many open files of the process it has
// gone through, plus one for the process.
func (o *openDeleted) addOf(use *diskUse, pid int, workspace string, devices map[uint64]bool, seen map[fileID]bool, most int) int {
	path := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	// The process may have gone, or the proxy may have no right to inspect it.
	folder, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 1
	}
	count, target := 1, make([]byte, unix.PathMax)
	eachName(folder, path, func(name string) bool {
		count++
		// Reading the link makes no request to the file system of the file, which may hang.
		n, err := unix.Readlinkat(folder, name, target)
		if err != nil || !strings.HasSuffix(string(target[:n]), deletedMark) {
			return count < most
		}
		var link, stat unix.Stat_t
		// The mode of the link says how the file was opened.
		if unix.Fstatat(folder, name, &link, unix.AT_SYMLINK_NOFOLLOW) != nil || link.Mode&unix.S_IWUSR == 0 {
			return count < most
		}
		if unix.Fstatat(folder, name, &stat, 0) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink > 0 || !devices[stat.Dev] {
			return count < most
		}
		if id := (fileID{stat.Dev, stat.Ino}); !seen[id] {
			seen[id] = true
			use.note(strings.TrimPrefix(string(target[:n]), workspace+"/"), stat.Blocks*blockSize)
		}
		return count < most
	})
	return count
}
