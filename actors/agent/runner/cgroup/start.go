package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// Start sets attributes and calls start, which starts a process with them. The process is in the
// group before its first instruction. The calling goroutine must be locked to its thread, which is not
// the first of its process, and both goroutine and thread must end soon: on v1 the thread may stay in
// the groups until it ends, except in the group that limits pids. start must not change goroutines; it
// may change the thread's namespaces. After an error a process may be left.
func (g *Group) Start(attributes *syscall.SysProcAttr, start func() error) error {
	if !g.place.Hybrid() || g.limits.Pids == 0 {
		return g.Join(attributes, start)
	}
	limit, err := g.openLimit()
	if err != nil {
		return fmt.Errorf("limit cgroup: %w", err)
	}
	if err = g.Join(attributes, start); err == nil {
		err = limit.set(g.limits.Pids)
	}
	return errors.Join(err, limit.close())
}

// Join is like Start, but for a further process of the group: Join does not change the pids limit.
// On v1 the calling thread may stay in all the groups until it ends.
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

// pidsLimit is the limit of a v1 group, and the group that the calling thread is to leave for before the
// limit is set: otherwise the thread would count against the job's limit until it ends. The two are
// opened before the thread has namespaces in which they may be read-only.
type pidsLimit struct{ above, limit control }

func (g *Group) openLimit() (p pidsLimit, err error) {
	if p.above, err = openControl(tasksAbove(g.place.Pids), unix.O_WRONLY); err != nil {
		return p, err
	}
	if p.limit, err = openControl(filepath.Join(g.place.Pids, "pids.max"), unix.O_WRONLY); err != nil {
		return p, errors.Join(err, unix.Close(p.above.fd))
	}
	return p, nil
}

// set lowers the limit by 1, which Create had added for the calling thread.
func (p pidsLimit) set(pids int) error {
	if err := p.above.write(itself); err != nil {
		return fmt.Errorf("leave cgroup: %w", err)
	}
	if err := p.limit.write(strconv.Itoa(pids)); err != nil {
		return fmt.Errorf("limit cgroup: %w", err)
	}
	return nil
}

func (p pidsLimit) close() error { return errors.Join(unix.Close(p.above.fd), unix.Close(p.limit.fd)) }

// itself stands for the thread that writes it. A thread that writes its number instead has to wait
// until every processor of the machine has been through its scheduler (some 10 ms), and every other
// thread that moves meanwhile has to wait too.
const itself = "0"

// startInside joins the v1 groups with the calling thread and calls start. The thread leaves the
// groups when it ends.
func (g *Group) startInside(start func() error) error {
	var joined []string
	for _, folder := range folders(proxyproto.Placement{Memory: g.place.Memory, CPU: g.place.CPU, Pids: g.place.Pids}) {
		if err := writeFile(folder, "tasks", itself); err != nil {
			return errors.Join(fmt.Errorf("enter cgroup: %w", err), leave(joined))
		}
		joined = append(joined, folder)
	}
	return start()
}

// leave moves the calling thread back to the group of its process.
func leave(joined []string) error {
	for _, folder := range joined {
		path := tasksAbove(folder)
		if err := writeFile(filepath.Dir(path), filepath.Base(path), itself); err != nil {
			return fmt.Errorf("leave cgroup: %w", err)
		}
	}
	return nil
}

// tasksAbove is the file of the threads of the group in which the node's group lies: the one of its
// agents and proxies.
func tasksAbove(folder string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(folder)), "tasks")
}

// MemoryEvents counts what happened at a group's memory limit.
type MemoryEvents struct {
	// Killed says that the kernel killed a process of the group for lack of memory. LimitHit says
	// that the group had then reached its own limit.
	Killed, LimitHit bool
}

// chargeBatch is how far below its limit a v1 group may be refused memory, in
// bytes: the kernel charges 64 pages ahead.
const chargeBatch = 64 * 4096

// MemoryEvents reads what happened at the group's memory limit so far.
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
	// Recent kernels no longer count in memory.failcnt, so compare peak and limit.
	limit, limitErr := readInt(g.place.Memory, memoryV1.limit)
	peak, peakErr := readInt(g.place.Memory, memoryV1.peak)
	return MemoryEvents{Killed: true, LimitHit: peak > limit-chargeBatch}, errors.Join(limitErr, peakErr)
}

// childless is how many links a folder without folders in it has: file systems that count them at all count also "."
// and the name.
const childless = 2

// isLeaf reports whether a group has no groups in it, as far as is known.
func isLeaf(folder string) bool {
	var stat unix.Stat_t
	return unix.Stat(folder, &stat) == nil && stat.Nlink == childless
}

// countKills counts the kernel's kills in a v1 group and in the groups that the job may have
// made below it: v1 counts each group alone.
func countKills(folder string) (kills int64, err error) {
	if isLeaf(folder) {
		counts, err := readKeyed(folder, "memory.oom_control")
		return counts["oom_kill"], err
	}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		counts, err := readKeyed(path, "memory.oom_control")
		kills += counts["oom_kill"]
		if path != folder && errors.Is(err, fs.ErrNotExist) {
			// The group has been removed meanwhile.
			return nil
		}
		return err
	})
	return kills, err
}

// WatchMemory calls notify each time the group runs out of memory, until stop
// is called. On v1 that is just before the kernel kills a process. On v2 the system may have too
// few inotify instances for all jobs; then notify is never called, but MemoryEvents still works.
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

// watchV2 waits for memory.events to change. An inotify descriptor announces the change. Unlike the
// file, it can be waited for without a thread.
func (g *Group) watchV2(notify func()) (func(), error) {
	watcher, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		// The default limit is 128 instances a user (fs.inotify.max_user_instances).
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

// watch calls register, which connects the descriptor to events of the group. It then calls notify
// after each event until stop is called.
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
