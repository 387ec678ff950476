package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// Start calls start with attributes that put the process which it starts into
// the group, from its first instruction on. start must start it in the calling
// goroutine, which must be locked to its thread and end with it soon: on v1 the thread
// may stay in the groups until then, but for that which limits pids.
func (g *Group) Start(attributes *syscall.SysProcAttr, start func() error) error {
	err := g.Join(attributes, start)
	if err == nil && g.place.Hybrid() {
		err = g.limitPids()
	}
	if err != nil && g.place.Hybrid() {
		return errors.Join(err, g.Kill(time.Second))
	}
	return err
}

// Join calls start, which is to start a process with attributes beside those that are in the
// group. Its thread may be in the group until it ends.
func (g *Group) Join(attributes *syscall.SysProcAttr, start func() error) error {
	folder, err := open(g.place.Unified, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("enter cgroup: %w", err)
	}
	defer shut(folder)
	attributes.UseCgroupFD = true
	attributes.CgroupFD = folder
	if !g.place.Hybrid() {
		return start()
	}
	return g.startInside(start)
}

// limitPids takes back what the calling thread had of the v1 limit. The thread leaves first:
// until it has ended it would take a place that is the job's.
func (g *Group) limitPids() error {
	if g.limits.Pids == 0 {
		return nil
	}
	if err := leave([]string{g.place.Pids}); err != nil {
		return err
	}
	if err := writeFile(g.place.Pids, "pids.max", strconv.Itoa(g.limits.Pids)); err != nil {
		return fmt.Errorf("limit cgroup: %w", err)
	}
	return nil
}

// itself names the thread that writes it. By its number, the kernel would have it wait until
// every processor of the machine has been through its scheduler (some 10 ms), and all
// others that move meanwhile.
const itself = "0"

// startInside calls start in a thread that joins the v1 groups, and leaves them as it ends.
func (g *Group) startInside(start func() error) error {
	var joined []string
	for _, folder := range folders(proxyproto.Placement{Memory: g.place.Memory, CPU: g.place.CPU, Pids: g.place.Pids}) {
		if err := writeFile(folder, "tasks", itself); err != nil {
			return errors.Join(fmt.Errorf("enter cgroup: %w", err), leave(joined))
		}
		joined = append(joined, folder)
	}
	err := start()
	if unix.Gettid() == unix.Getpid() {
		// The first thread of a process never ends before it.
		err = errors.Join(err, leave(joined))
	}
	return err
}

// leave takes the calling thread back to the group of its process: that in which the
// node's group lies.
func leave(joined []string) error {
	for _, folder := range joined {
		if err := writeFile(filepath.Dir(filepath.Dir(folder)), "tasks", itself); err != nil {
			return fmt.Errorf("leave cgroup: %w", err)
		}
	}
	return nil
}

// MemoryEvents counts what happened at a group's memory limit.
type MemoryEvents struct {
	// Killed says that the kernel killed a process of the group for lack of memory,
	// LimitHit that the group's own limit was met when it did.
	Killed, LimitHit bool
}

// chargeBatch is how far below its limit a v1 group may be refused memory, in
// bytes: the kernel charges 64 pages ahead.
const chargeBatch = 64 * 4096

// MemoryEvents reads them.
func (g *Group) MemoryEvents() (MemoryEvents, error) {
	if !g.place.Hybrid() {
		counts, err := readKeyed(g.place.Unified, "memory.events")
		if err != nil {
			return MemoryEvents{}, fmt.Errorf("read memory events: %w", err)
		}
		killed := counts["oom_kill"] > 0
		return MemoryEvents{Killed: killed, LimitHit: killed && counts["oom"] > 0}, nil
	}
	kills, err := countKills(g.place.Memory)
	if err != nil {
		return MemoryEvents{}, fmt.Errorf("read memory events: %w", err)
	}
	if kills == 0 {
		return MemoryEvents{}, nil
	}
	// memory.failcnt would say it, but recent kernels no longer count there.
	limit, err := readInt(g.place.Memory, "memory.limit_in_bytes")
	if err != nil {
		return MemoryEvents{}, fmt.Errorf("read memory events: %w", err)
	}
	peak, err := readInt(g.place.Memory, "memory.max_usage_in_bytes")
	if err != nil {
		return MemoryEvents{}, fmt.Errorf("read memory events: %w", err)
	}
	return MemoryEvents{Killed: true, LimitHit: peak > limit-chargeBatch}, nil
}

// countKills counts the kernel's kills in a v1 group, and in those that the job may have
// made in it: v1 does not add them up.
func countKills(folder string) (int64, error) {
	counts, err := readKeyed(folder, "memory.oom_control")
	if err != nil {
		return 0, err
	}
	kills := counts["oom_kill"]
	// A folder without folders has two names.
	var stat unix.Stat_t
	if err := unix.Lstat(folder, &stat); err != nil || stat.Nlink <= 2 {
		return kills, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			// It may have gone meanwhile.
			inside, err := countKills(filepath.Join(folder, entry.Name()))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, err
			}
			kills += inside
		}
	}
	return kills, nil
}

// WatchMemory calls notify each time the group runs out of memory, until stop
// is called. On v1 that is just before the kernel kills a process. On v2 a system may have too
// few watches for all jobs of a node; then notify is not called, and MemoryEvents tell still.
func (g *Group) WatchMemory(notify func()) (stop func(), err error) {
	if g.place.Hybrid() {
		return g.watchV1(notify)
	}
	return g.watchV2(notify)
}

// watchV1 registers an event descriptor with the memory controller.
func (g *Group) watchV1(notify func()) (func(), error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch memory: %w", err)
	}
	file := os.NewFile(uintptr(event), "memory event")
	control, err := os.Open(g.place.Memory + "/memory.oom_control")
	if err == nil {
		err = writeFile(g.place.Memory, "cgroup.event_control", fmt.Sprintf("%d %d", event, control.Fd()))
		err = errors.Join(err, control.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch memory: %w", err), file.Close())
	}
	go func() {
		count := make([]byte, 8)
		for {
			if _, err := file.Read(count); err != nil {
				return
			}
			notify()
		}
	}()
	return func() { _ = file.Close() }, nil
}

// watchV2 waits for memory.events to change. An inotify descriptor announces
// it; unlike the file itself it can be waited for without a thread.
func (g *Group) watchV2(notify func()) (func(), error) {
	watcher, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		// A user has 128 unless the system says otherwise (fs.inotify.max_user_instances).
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch memory: %w", err)
	}
	file := os.NewFile(uintptr(watcher), "memory event")
	if _, err := unix.InotifyAddWatch(watcher, g.place.Unified+"/memory.events", unix.IN_MODIFY); err != nil {
		return nil, errors.Join(fmt.Errorf("watch memory: %w", err), file.Close())
	}
	go func() {
		events := make([]byte, 4096)
		for {
			if _, err := file.Read(events); err != nil {
				return
			}
			notify()
		}
	}()
	return func() { _ = file.Close() }, nil
}
