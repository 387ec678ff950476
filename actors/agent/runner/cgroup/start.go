package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// Start calls start with attributes that put the process which it starts into
// the group, from its first instruction on. start must start it in the calling
// goroutine.
func (g *Group) Start(attributes *syscall.SysProcAttr, start func() error) error {
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
	if err := g.startInside(start); err != nil {
		return errors.Join(err, g.Kill(time.Second))
	}
	if g.limits.Pids > 0 {
		if err := writeFile(g.place.Pids, "pids.max", strconv.Itoa(g.limits.Pids)); err != nil {
			return errors.Join(fmt.Errorf("limit cgroup: %w", err), g.Kill(time.Second))
		}
	}
	return nil
}

// startInside calls start in a thread that is in the v1 groups meanwhile.
func (g *Group) startInside(start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := strconv.Itoa(unix.Gettid())
	var joined []string
	for _, folder := range folders(proxyproto.Placement{Memory: g.place.Memory, CPU: g.place.CPU, Pids: g.place.Pids}) {
		if err := writeFile(folder, "tasks", thread); err != nil {
			return errors.Join(fmt.Errorf("enter cgroup: %w", err), leave(joined, thread))
		}
		joined = append(joined, folder)
	}
	return errors.Join(start(), leave(joined, thread))
}

// leave takes the thread back to the group of its process: that in which the
// node's group lies.
func leave(joined []string, thread string) error {
	for _, folder := range joined {
		if err := writeFile(filepath.Dir(filepath.Dir(folder)), "tasks", thread); err != nil {
			return fmt.Errorf("leave cgroup: %w", err)
		}
	}
	return nil
}

// MemoryEvents counts what happened at a group's memory limit.
type MemoryEvents struct {
	// LimitHit says that the group's own limit was met, Killed that the kernel
	// killed a process of the group for lack of memory.
	LimitHit, Killed bool
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
		return MemoryEvents{LimitHit: counts["oom"] > 0, Killed: counts["oom_kill"] > 0}, nil
	}
	counts, err := readKeyed(g.place.Memory, "memory.oom_control")
	if err != nil {
		return MemoryEvents{}, fmt.Errorf("read memory events: %w", err)
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
	return MemoryEvents{LimitHit: peak > limit-chargeBatch, Killed: counts["oom_kill"] > 0}, nil
}

// WatchMemory calls notify each time the group runs out of memory, until stop
// is called. On v1 that is just before the kernel kills a process.
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
