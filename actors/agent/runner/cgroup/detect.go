package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// controllers are what a node needs, in v1 or v2.
var controllers = []string{"memory", "cpu", "pids"}

// mount is a hierarchy of control groups and the group of this process in it.
type mount struct {
	// folder is where the hierarchy is mounted, own the directory of the
	// group in which this process is.
	folder, own string
}

// layout is what a machine offers.
type layout struct {
	unified *mount
	v1      map[string]mount
}

// Leaf is the name of a v2 group that is for the agent alone: the group above is then
// taken for its own. An agent that is started again while its jobs run needs it, as
// the group above them cannot take a process in.
const Leaf = "weir-agent"

// nodePrefix begins the names of nodes' groups. With leafSuffix behind it, it is the leaf into
// which an agent goes to make room for that of its node.
const (
	nodePrefix = "weir-"
	leafSuffix = "-agent"
)

// Detect finds out how the machine does control groups and makes the node's
// group, in which each job will have its own. root is "/" but in tests. An
// error says why there is none to use; nothing is left behind then.
func Detect(root, node string) (proxyproto.Placement, error) {
	found, err := readLayout(root)
	if err != nil {
		return proxyproto.Placement{}, fmt.Errorf("detect cgroups: %w", err)
	}
	if found.unified == nil {
		return proxyproto.Placement{}, errors.New("detect cgroups: no v2 hierarchy is mounted")
	}
	name := nodePrefix + node
	if filepath.Base(found.unified.own) == Leaf {
		found.unified.own = filepath.Dir(found.unified.own)
	}
	place := proxyproto.Placement{Unified: filepath.Join(found.unified.own, name)}
	available, err := readWords(filepath.Join(found.unified.own, "cgroup.controllers"))
	if err != nil {
		return proxyproto.Placement{}, fmt.Errorf("detect cgroups: %w", err)
	}
	var missing []string
	for _, controller := range controllers {
		if !slices.Contains(available, controller) {
			missing = append(missing, controller)
		}
	}
	switch {
	case len(missing) == 0:
		err = makeRoom(found.unified.own, name)
	case len(found.v1) == len(controllers):
		place.Memory = filepath.Join(found.v1["memory"].own, name)
		place.CPU = filepath.Join(found.v1["cpu"].own, name)
		place.Pids = filepath.Join(found.v1["pids"].own, name)
	default:
		err = fmt.Errorf("controllers %s: neither in %s nor mounted as v1 hierarchies", strings.Join(missing, ", "), found.unified.own)
	}
	if err == nil {
		err = Prepare(place)
	}
	if err != nil {
		return proxyproto.Placement{}, errors.Join(fmt.Errorf("detect cgroups: %w", err), removeFolders(place))
	}
	return place, nil
}

// makeRoom has the controllers of the agent's own v2 group handed down.
func makeRoom(own, name string) error {
	err := enableControllers(own)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	// The group holds processes. If this one is all, it can make room.
	leaf := filepath.Join(own, name+leafSuffix)
	if err := makeFolder(leaf); err != nil {
		return err
	}
	if err := writeFile(leaf, "cgroup.procs", "0"); err != nil {
		return err
	}
	err = enableControllers(own)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: processes other than the agent's are in this group; start the agent in its own group, as a systemd service with Delegate=yes does", err)
	}
	return err
}

func enableControllers(folder string) error {
	enabled, err := readWords(filepath.Join(folder, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	var wanted []string
	for _, controller := range controllers {
		if !slices.Contains(enabled, controller) {
			wanted = append(wanted, "+"+controller)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return writeFile(folder, "cgroup.subtree_control", strings.Join(wanted, " "))
}

// Prepare makes the node's group, which Detect has made once already, if it is
// missing.
func Prepare(place proxyproto.Placement) error {
	for _, folder := range folders(place) {
		if err := makeFolder(folder); err != nil {
			return fmt.Errorf("prepare cgroup of the node: %w", err)
		}
	}
	if place.None() || place.Hybrid() {
		return nil
	}
	if err := enableControllers(place.Unified); err != nil {
		return fmt.Errorf("prepare cgroup of the node: %w", err)
	}
	return nil
}

// Lock makes sure that no other process of this machine uses the node's group,
// until unlock is called. It fails with EWOULDBLOCK when one does.
func Lock(place proxyproto.Placement) (unlock func() error, err error) {
	if place.None() {
		return func() error { return nil }, nil
	}
	folder, err := os.Open(place.Unified)
	if err != nil {
		return nil, fmt.Errorf("lock cgroup of the node: %w", err)
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock cgroup of the node %s: %w", place.Unified, err), folder.Close())
	}
	return folder.Close, nil
}

// readLayout reads which hierarchies are mounted where, and the groups of this
// process.
func readLayout(root string) (layout, error) {
	mounts, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return layout{}, err
	}
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return layout{}, err
	}
	// Lines are "id:controllers:path", with no controllers for v2.
	paths := make(map[string]string)
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			return layout{}, fmt.Errorf("/proc/self/cgroup: line %q is not id:controllers:path", line)
		}
		for _, controller := range strings.Split(fields[1], ",") {
			paths[controller] = fields[2]
		}
	}
	found := layout{v1: make(map[string]mount)}
	for line := range strings.Lines(string(mounts)) {
		found.add(root, line, paths)
	}
	return found, nil
}

// add takes one line of mountinfo: "id parent device root mountpoint options
// [optional...] - type source superoptions".
func (l *layout) add(root, line string, paths map[string]string) {
	head, tail, _ := strings.Cut(line, " - ")
	fields, types := strings.Fields(head), strings.Fields(tail)
	if len(fields) < 5 || len(types) < 3 {
		return
	}
	at := func(path string) mount {
		folder := filepath.Join(root, fields[4])
		// In a container the mount shows a part of the hierarchy only.
		below, err := filepath.Rel(fields[3], path)
		if err != nil || strings.HasPrefix(below, "..") {
			below = ""
		}
		return mount{folder: folder, own: filepath.Join(folder, below)}
	}
	switch types[0] {
	case "cgroup2":
		if path, member := paths[""]; member && l.unified == nil {
			found := at(path)
			l.unified = &found
		}
	case "cgroup":
		options := strings.Split(types[2], ",")
		for _, controller := range controllers {
			if path, member := paths[controller]; member && slices.Contains(options, controller) {
				if _, known := l.v1[controller]; !known {
					l.v1[controller] = at(path)
				}
			}
		}
	}
}

// MemoryLimit is the memory that the group of this process may use, in bytes; 0
// where there is no limit. Groups above count too.
func MemoryLimit(root string) (int64, error) {
	found, err := readLayout(root)
	if err != nil {
		return 0, fmt.Errorf("read memory limit: %w", err)
	}
	var lowest int64
	see := func(limit int64, err error) {
		// v1 says "no limit" with the largest multiple of a page.
		if err == nil && limit < 1<<62 && (lowest == 0 || limit < lowest) {
			lowest = limit
		}
	}
	if m, exists := found.v1["memory"]; exists {
		for _, folder := range m.upwards() {
			see(readInt(folder, "memory.limit_in_bytes"))
		}
	}
	if found.unified != nil {
		for _, folder := range found.unified.upwards() {
			see(readInt(folder, "memory.max"))
		}
	}
	return lowest, nil
}

// CPULimit is the cores that the group of this process may use; 0 where there
// is no limit. Groups above count too.
func CPULimit(root string) (float64, error) {
	found, err := readLayout(root)
	if err != nil {
		return 0, fmt.Errorf("read cpu limit: %w", err)
	}
	var lowest float64
	see := func(quota, period int64) {
		if quota > 0 && period > 0 {
			if cores := float64(quota) / float64(period); lowest == 0 || cores < lowest {
				lowest = cores
			}
		}
	}
	if m, exists := found.v1["cpu"]; exists {
		for _, folder := range m.upwards() {
			quota, errQuota := readInt(folder, "cpu.cfs_quota_us")
			period, errPeriod := readInt(folder, "cpu.cfs_period_us")
			if errQuota == nil && errPeriod == nil {
				see(quota, period)
			}
		}
	}
	if found.unified != nil {
		for _, folder := range found.unified.upwards() {
			var quota, period int64
			if words, err := readWords(filepath.Join(folder, "cpu.max")); err == nil && len(words) == 2 && words[0] != "max" {
				if _, err := fmt.Sscan(words[0]+" "+words[1], &quota, &period); err == nil {
					see(quota, period)
				}
			}
		}
	}
	return lowest, nil
}

// upwards lists the directories from the process' own group to the mount.
func (m mount) upwards() []string {
	list := []string{m.own}
	for folder := m.own; folder != m.folder && len(folder) > len(m.folder); {
		folder = filepath.Dir(folder)
		list = append(list, folder)
	}
	return list
}
