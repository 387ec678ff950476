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
	folder, err := os.Open(g.place.Unified)
	if err != nil {
		return fmt.Errorf("enter cgroup: %w", err)
	}
	defer folder.Close()
	attributes.UseCgroupFD = true
	attributes.CgroupFD = int(folder.Fd())
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
func (g *Group) MemoryEvents() (events MemoryEvents, err error) {
	if events, err = g.memoryEvents(); err != nil {
		err = fmt.Errorf("read memory events: %w", err)
	}
	return events, err
}

func (g *Group) memoryEvents() (MemoryEvents, error) {
	if !g.place.Hybrid() {
		counts, err := readKeyed(g.place.Unified, "memory.events")
		killed := counts["oom_kill"] > 0
		return MemoryEvents{Killed: killed, LimitHit: killed && counts["oom"] > 0}, err
	}
	kills, err := countKills(g.place.Memory)
	if err != nil || kills == 0 {
		return MemoryEvents{}, err
	}
	// memory.failcnt would say it, but recent kernels no longer count there.
	limit, limitErr := readInt(g.place.Memory, memoryV1.limit)
	peak, peakErr := readInt(g.place.Memory, memoryV1.peak)
	return MemoryEvents{Killed: true, LimitHit: peak > limit-chargeBatch}, errors.Join(limitErr, peakErr)
}

// countKills counts the kernel's kills in a v1 group, and in those that the job may have
// made in it: v1 does not add them up.
func countKills(folder string) (kills int64, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		counts, err := readKeyed(path, "memory.oom_control")
		kills += counts["oom_kill"]
		if path != folder && errors.Is(err, fs.ErrNotExist) {
			// It has gone meanwhile.
			return nil
		}
		return err
	})
	return kills, err
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
	return watch(event, notify, func() error {
		control, err := os.Open(g.place.Memory + "/memory.oom_control")
		if err != nil {
			return err
		}
		defer control.Close()
		return writeFile(g.place.Memory, "cgroup.event_control", fmt.Sprintf("%d %d", event, control.Fd()))
	})
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
	return watch(watcher, notify, func() error {
		_, err := unix.InotifyAddWatch(watcher, g.place.Unified+"/memory.events", unix.IN_MODIFY)
		return err
	})
}

// watch calls notify each time that a descriptor of events, which register has connected with
// the group, has one, until stop is called.
func watch(descriptor int, notify func(), register func() error) (stop func(), err error) {
	file := os.NewFile(uintptr(descriptor), "memory event")
	if err := register(); err != nil {
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
