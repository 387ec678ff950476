package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// kernelLog is where the kernel says whom it killed for lack of memory, which is the
// only one who knows when a process grows and dies between two looks at it.
const kernelLog = "/dev/kmsg"

// mostLost is how many records of the kernel's log may be lost in a row.
const mostLost = 1000

// victims collects from the kernel's log whom it killed in one control group. The zero
// value knows the group "".
type victims struct {
	// group ends the path of the job's group in any namespace: its node's and its own
	// name.
	group  string
	chosen map[int]bool
	list   []proxyproto.ProcessMemory
}

func newVictims(place proxyproto.Placement) *victims {
	folder := place.Unified
	if place.Hybrid() {
		folder = place.Memory
	}
	node, job := filepath.Split(folder)
	return &victims{group: "/" + filepath.Join(filepath.Base(node), job), chosen: map[int]bool{}}
}

// take takes a record of the log. A kill has two that count: the first names the group,
// the second the memory.
func (v *victims) take(record string) {
	if _, choice, is := strings.Cut(record, ";oom-kill:"); is {
		_, choice, _ = strings.Cut(choice, ",task_memcg=")
		group, choice, _ := strings.Cut(choice, ",task=")
		if pid, err := strconv.Atoi(between(choice, ",pid=", ",uid=")); err == nil && v.covers(group) {
			v.chosen[pid] = true
		}
		return
	}
	_, kill, is := strings.Cut(record, ": Killed process ")
	number, kill, _ := strings.Cut(kill, " (")
	pid, err := strconv.Atoi(number)
	end := strings.LastIndex(kill, ") total-vm:")
	if !is || err != nil || end < 0 || !v.chosen[pid] {
		return
	}
	var kilobytes int64
	for _, part := range []string{" anon-rss:", " file-rss:", " shmem-rss:"} {
		// What a kernel does not tell counts as nothing.
		n, _ := strconv.ParseInt(between(kill[end:], part, "kB"), 10, 64)
		kilobytes += n
	}
	v.list = append(v.list, proxyproto.ProcessMemory{Pid: pid, Name: kill[:end], Bytes: kilobytes << 10})
}

// between returns what follows the last after, up to the next before.
func between(text, after, before string) string {
	i := strings.LastIndex(text, after)
	if i < 0 {
		return ""
	}
	found, _, _ := strings.Cut(text[i+len(after):], before)
	return found
}

// covers says whether a path is that of the group, or of one that the job made in it.
func (v *victims) covers(path string) bool {
	return strings.HasSuffix(path, v.group) || strings.Contains(path, v.group+"/")
}

// read takes all that the kernel's log holds. It is the system's to let it be read.
func (v *victims) read() error {
	fd, err := unix.Open(kernelLog, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = v.takeAll(func(record []byte) (int, error) { return unix.Read(fd, record) })
	return errors.Join(err, unix.Close(fd))
}

// takeAll takes records until there is none. A read gives one record.
func (v *victims) takeAll(read func(record []byte) (int, error)) error {
	record := make([]byte, 8<<10)
	for lost := 0; ; {
		n, err := read(record)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINVAL):
			// Overwritten meanwhile, or longer than any that counts: the next read gives
			// the next one, as long as this is the log of a kernel.
			if lost++; lost == mostLost {
				return fmt.Errorf("read %s: no record in %d tries: %w", kernelLog, lost, err)
			}
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return nil
		case err != nil:
			return err
		default:
			lost = 0
			v.take(string(record[:n]))
		}
	}
}
