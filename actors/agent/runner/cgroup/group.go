package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// period is the period of a cpu quota, in microseconds: the kernel's default.
const period = 100_000

// MaxWeight is the largest weight of a group.
const MaxWeight = 10000

// Limits are the limits of a group; 0 means no limit.
type Limits struct {
	// CPU is in cores. CPUWeight is 1 to MaxWeight; the kernel's default is 100.
	CPU       float64
	CPUWeight int
	// Memory limits memory and swap together, in bytes; on v2 a job does not swap at all.
	Memory int64
	// Pids limits processes and threads together.
	Pids int
}

// Group is the group of one job. Its methods may be called by several
// goroutines, except Create, Start and Remove.
type Group struct {
	place  proxyproto.Placement
	limits Limits
}

// Open returns the group at place, which need not exist yet.
func Open(place proxyproto.Placement) *Group { return &Group{place: place} }

// Job is the placement of a job in the node's placement.
func Job(node proxyproto.Placement, job string) proxyproto.Placement {
	for _, folder := range []*string{&node.Unified, &node.Memory, &node.CPU, &node.Pids} {
		if *folder != "" {
			*folder = filepath.Join(*folder, job)
		}
	}
	return node
}

// Jobs lists the names of the groups in the node's placement.
func Jobs(node proxyproto.Placement) ([]string, error) {
	var names []string
	for _, folder := range folders(node) {
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() && !slices.Contains(names, entry.Name()) {
				names = append(names, entry.Name())
			}
		}
	}
	return names, nil
}

// RemoveNode removes the node's own group, which must be empty.
func RemoveNode(node proxyproto.Placement) error {
	if err := removeFolders(node); err != nil {
		return fmt.Errorf("remove cgroup of the node: %w", err)
	}
	return nil
}

// Create makes the group and sets its limits. If that fails, the group is
// removed.
func (g *Group) Create(limits Limits) error {
	g.limits = limits
	for _, folder := range folders(g.place) {
		if err := makeFolder(folder); err != nil {
			return errors.Join(fmt.Errorf("create cgroup: %w", err), removeFolders(g.place))
		}
	}
	for _, s := range g.settings(limits) {
		if !s.wanted {
			continue
		}
		err := writeFile(s.folder, s.name, s.value)
		if s.optional && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return errors.Join(fmt.Errorf("limit cgroup: %w", err), removeFolders(g.place))
		}
	}
	return nil
}

// setting is a value for a control file. Some kernels lack the file of an optional setting.
type setting struct {
	wanted              bool
	folder, name, value string
	optional            bool
}

// settings returns the limits as values for the control files of v1 or v2.
func (g *Group) settings(limits Limits) []setting {
	place, memory := g.place, strconv.FormatInt(limits.Memory, 10)
	if place.Hybrid() {
		return []setting{
			{limits.Memory > 0, place.Memory, "memory.limit_in_bytes", memory, false},
			{limits.Memory > 0, place.Memory, "memory.memsw.limit_in_bytes", memory, true},
			// A new group has the kernel's default period.
			{limits.CPU > 0, place.CPU, "cpu.cfs_quota_us", strconv.FormatInt(quota(limits.CPU), 10), false},
			// The default is 100 in v2 and 1024 in v1, the minimum in v1 is 2.
			{limits.CPUWeight > 0, place.CPU, "cpu.shares", strconv.Itoa(max(2, limits.CPUWeight*1024/100)), false},
			// The thread that starts the job counts too: see pidsLimit.
			{limits.Pids > 0, place.Pids, "pids.max", strconv.Itoa(limits.Pids + 1), false},
		}
	}
	return []setting{
		{limits.Memory > 0, place.Unified, "memory.max", memory, false},
		{limits.Memory > 0, place.Unified, "memory.swap.max", "0", true},
		// With memory.oom.group the kernel kills the whole job, not one process of it.
		{true, place.Unified, "memory.oom.group", "1", false},
		{limits.CPU > 0, place.Unified, "cpu.max", fmt.Sprintf("%d %d", quota(limits.CPU), period), false},
		{limits.CPUWeight > 0, place.Unified, "cpu.weight", strconv.Itoa(limits.CPUWeight), false},
		{limits.Pids > 0, place.Unified, "pids.max", strconv.Itoa(limits.Pids), false},
	}
}

// quota is the cpu time of the given number of cores in a period, in microseconds, at least the
// kernel's minimum of 1 ms.
func quota(cores float64) int64 { return max(1000, int64(cores*period)) }

// Processes lists the processes of the group.
func (g *Group) Processes() ([]int, error) {
	words, err := readWords(filepath.Join(g.place.Unified, "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("list processes of cgroup: %w", err)
	}
	pids := make([]int, 0, len(words))
	for _, word := range words {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("list processes of cgroup: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Kill ends every process of the group and waits until none is left.
func (g *Group) Kill(patience time.Duration) error {
	events, err := os.Open(filepath.Join(g.place.Unified, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	defer events.Close()
	// Most jobs have ended by themselves. In an empty group no process can fork.
	if left, err := populated(events); err == nil && !left {
		return nil
	}
	if err := writeFile(g.place.Unified, "cgroup.kill", "1"); err != nil {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	if err := waitEmpty(events, patience); err != nil {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	return nil
}

// waitEmpty waits until no process is left. `events` is the open file cgroup.events, which shows
// that.
func waitEmpty(events *os.File, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		left, err := populated(events)
		if err != nil || !left {
			return err
		}
		wait := time.Until(deadline)
		if wait <= 0 {
			return fmt.Errorf("processes still running after %v", patience)
		}
		// The kernel announces a change of the file as an exceptional event.
		poll := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(poll, int(min(wait, time.Second).Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// populated reads from cgroup.events whether the group or one below it has a process.
func populated(events *os.File) (bool, error) {
	buffer := make([]byte, 256)
	n, err := events.ReadAt(buffer, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.Contains(string(buffer[:n]), "populated 1"), err
}

// Remove removes the group, which must be empty; a missing one is fine. A group
// stays busy for a moment after its last process has gone.
func (g *Group) Remove(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait *= 2 {
		err := g.removeAll()
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		time.Sleep(min(wait, 50*time.Millisecond))
	}
}

// removeAll removes the group and the groups that the job made inside.
func (g *Group) removeAll() error {
	var errs []error
	for _, folder := range folders(g.place) {
		err := removeFolder(folder)
		// Few jobs make groups of their own; a group is busy for a moment after its last process too.
		if err != nil && !isLeaf(folder) {
			err = removeTree(folder)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeTree removes a group with the groups inside.
func removeTree(folder string) error {
	var inside []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			inside = append(inside, path)
		}
		return nil
	})
	for _, path := range slices.Backward(inside) {
		if err == nil {
			err = removeFolder(path)
		}
	}
	return err
}
