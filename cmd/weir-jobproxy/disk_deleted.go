package main

import (
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
)

// mostDescriptors is how many open files of the job's processes one look goes through. The
// next look begins behind the process at which it ended.
const mostDescriptors = 10_000

// deletedMark ends what the kernel says of an open file that has no name any more.
const deletedMark = " (deleted)"

// openDeleted finds files that have been deleted and that a process of the job holds open to
// write: they take space for as long. One that is only read may be another's, such as a log or
// a data set that has been replaced meanwhile.
type openDeleted struct {
	processes func() ([]proctree.Process, error)
	// most is how many open files one look goes through.
	most int
	// next is the process with which the next look begins.
	next int
}

// fileID tells a file from any other that is there.
type fileID struct{ device, inode uint64 }

// add adds those on the devices to what folders take, each once.
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

// addOf adds those of a process, and returns how many open files it has gone through.
func (o *openDeleted) addOf(use *diskUse, pid int, workspace string, devices map[uint64]bool, seen map[fileID]bool, most int) int {
	path := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	// A process may have gone, or not be this one's to look into.
	folder, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 1
	}
	count, target := 1, make([]byte, unix.PathMax)
	eachName(folder, path, func(name string) bool {
		count++
		// To read the link does not ask its file system anything.
		n, err := unix.Readlinkat(folder, name, target)
		if err != nil || !strings.HasSuffix(string(target[:n]), deletedMark) {
			return count < most
		}
		var link, stat unix.Stat_t
		// The link's rights are what the file was opened for.
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
