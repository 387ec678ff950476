package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// controllers are the controllers that a node needs, in v1 or v2.
var controllers = []string{"memory", "cpu", "pids"}

// mount is a hierarchy of control groups and the group of this process in it.
type mount struct {
	// folder is where the hierarchy is mounted. `own` is the directory of the group that this
	// process is in.
	folder, own string
}

// layout is what a machine offers: the v1 hierarchy of each controller, and the v2 hierarchy
// under the name unified, as in /proc/self/cgroup.
type layout map[string]mount

const unified = ""

// Leaf is the name of a v2 group that holds only the agent. An agent started in it uses the parent
// as its own group. This lets an agent restart while its jobs run: by that time the parent has
// controllers enabled for its children, so that no process can be put into the parent.
const Leaf = "weir-agent"

// nodePrefix begins the names of nodes' groups. A node's group name with leafSuffix is the leaf
// into which its agent moves: see makeRoom.
const (
	nodePrefix = "weir-"
	leafSuffix = "-agent"
)

// Detect finds the machine's layout of control groups and makes the node's group, in which each job
// will have its own. root is "/" except in tests. An error says why no groups can be used. After an
// error, nothing is left behind.
func Detect(root, node string) (proxyproto.Placement, error) {
	place, err := detect(root, nodePrefix+node)
	if err == nil {
		err = Prepare(place)
	}
	if err != nil {
		return proxyproto.Placement{}, errors.Join(fmt.Errorf("detect cgroups: %w", err), removeFolders(place))
	}
	return place, nil
}

// detect returns the placement of the node's group, which is called name, and enables the
// controllers that it needs.
func detect(root, name string) (place proxyproto.Placement, err error) {
	found, err := readLayout(root)
	if err != nil {
		return place, err
	}
	v2, mounted := found[unified]
	if !mounted {
		return place, errors.New("no v2 hierarchy is mounted")
	}
	own := v2.own
	if filepath.Base(own) == Leaf {
		own = filepath.Dir(own)
	}
	available, err := readWords(filepath.Join(own, "cgroup.controllers"))
	if err != nil {
		return place, err
	}
	place.Unified = filepath.Join(own, name)
	switch missing := missingIn(available); {
	case len(missing) == 0:
		err = makeRoom(own, name)
	case len(missingIn(slices.Collect(maps.Keys(found)))) == 0:
		place.Memory = filepath.Join(found["memory"].own, name)
		place.CPU = filepath.Join(found["cpu"].own, name)
		place.Pids = filepath.Join(found["pids"].own, name)
	default:
		err = fmt.Errorf("controllers %s: neither in %s nor mounted as v1 hierarchies", strings.Join(missing, ", "), own)
	}
	return place, err
}

// makeRoom enables the controllers for the children of the agent's own v2 group.
func makeRoom(own, name string) error {
	err := enableControllers(own)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	// The group holds processes. Move this process to a leaf. That is enough if the group holds no
	// other process.
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
	missing := missingIn(enabled)
	if len(missing) == 0 {
		return nil
	}
	return writeFile(folder, "cgroup.subtree_control", "+"+strings.Join(missing, " +"))
}

// missingIn returns the controllers that are not in a list.
func missingIn(list []string) []string {
	return slices.DeleteFunc(slices.Clone(controllers), func(name string) bool { return slices.Contains(list, name) })
}

// Prepare makes the node's group if it is missing: it may have been removed since Detect made it.
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

// readLayout reads which hierarchies are mounted where, and the groups of this
// process.
func readLayout(root string) (layout, error) {
	mounts, mountsErr := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	groups, groupsErr := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err := cmp.Or(mountsErr, groupsErr); err != nil {
		return nil, err
	}
	// Lines are "id:controllers:path", with no controllers for v2.
	paths := make(map[string]string)
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("/proc/self/cgroup: line %q is not id:controllers:path", line)
		}
		for _, controller := range strings.Split(fields[1], ",") {
			paths[controller] = fields[2]
		}
	}
	found := layout{}
	for line := range strings.Lines(string(mounts)) {
		found.add(root, line, paths)
	}
	return found, nil
}

// add parses one line of mountinfo: "id parent device root mountpoint options
// [optional...] - type source superoptions".
func (l layout) add(root, line string, paths map[string]string) {
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
	var names []string
	switch types[0] {
	case "cgroup2":
		names = []string{unified}
	case "cgroup":
		names = strings.Split(types[2], ",")
	}
	for _, name := range names {
		path, member := paths[name]
		if _, known := l[name]; member && !known {
			l[name] = at(path)
		}
	}
}

// level is the group of this process, or one above it, in a hierarchy that may have a
// controller.
type level struct {
	folder string
	v1     bool
}

// readLevels lists the levels for a controller, in its v1 hierarchy and in the v2 hierarchy, each
// from the group of this process up to the mount.
func readLevels(root, controller string) ([]level, error) {
	found, err := readLayout(root)
	if err != nil {
		return nil, err
	}
	var levels []level
	for _, name := range []string{controller, unified} {
		m, exists := found[name]
		for folder := m.own; exists; folder = filepath.Dir(folder) {
			levels = append(levels, level{folder, name != unified})
			exists = len(folder) > len(m.folder)
		}
	}
	return levels, nil
}

func (l level) memoryFiles() *memoryFiles {
	if l.v1 {
		return &memoryV1
	}
	return &memoryV2
}

// memoryLimit is the limit of a group in bytes; 0: it has none.
func (l level) memoryLimit() int64 {
	limit, err := readInt(l.folder, l.memoryFiles().limit)
	// v1 says "no limit" with the largest multiple of a page.
	if err != nil || limit < 0 || limit >= 1<<62 {
		return 0
	}
	return limit
}

// pidsLimit is the limit of a group in processes and threads; 0: it has none.
func (l level) pidsLimit() int64 {
	// The topmost group has no such file. Of a group without a limit it says max.
	limit, err := readInt(l.folder, "pids.max")
	if err != nil {
		return 0
	}
	return limit
}

// cpuLimit is the limit of a group in cores; 0: it has none.
func (l level) cpuLimit() float64 {
	files := []string{"cpu.max"}
	if l.v1 {
		files = []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}
	}
	var words []string
	for _, file := range files {
		// The topmost group has no such files.
		read, _ := readWords(filepath.Join(l.folder, file))
		words = append(words, read...)
	}
	var quota, period float64
	if n, _ := fmt.Sscan(strings.Join(words, " "), &quota, &period); n < 2 || quota <= 0 || period <= 0 {
		return 0
	}
	return quota / period
}

// MemoryLimit is the memory that the group of this process may use, in bytes. It respects the
// limits of groups above; 0: there is no limit.
func MemoryLimit(root string) (int64, error) { return lowest(root, "memory", level.memoryLimit) }

// CPULimit is the number of cores that the group of this process may use. It respects the limits of
// groups above; 0: there is no limit.
func CPULimit(root string) (float64, error) { return lowest(root, "cpu", level.cpuLimit) }

// MostProcesses is how many processes and threads the machine may have at a time, or the group of this
// process. It respects the limits of groups above.
func MostProcesses(root string) (int64, error) {
	least, err := lowest(root, "pids", level.pidsLimit)
	for _, name := range []string{"pid_max", "threads-max"} {
		n, readErr := readInt(filepath.Join(root, "proc/sys/kernel"), name)
		if err = errors.Join(err, readErr); err == nil && (least == 0 || n < least) {
			least = n
		}
	}
	if err != nil {
		return 0, fmt.Errorf("find the greatest number of processes: %w", err)
	}
	return least, nil
}

// LimitNode limits the processes and threads of all jobs of a node together.
func LimitNode(place proxyproto.Placement, pids int64) error {
	if place.None() {
		return nil
	}
	if err := writeFile(Open(place).pidsFolder(), "pids.max", strconv.FormatInt(pids, 10)); err != nil {
		return fmt.Errorf("limit cgroup of the node: %w", err)
	}
	return nil
}

// lowest is the least limit of all levels; 0: no level has a limit.
func lowest[T int64 | float64](root, controller string, limitOf func(level) T) (T, error) {
	levels, err := readLevels(root, controller)
	if err != nil {
		return 0, fmt.Errorf("read %s limit: %w", controller, err)
	}
	var lowest T
	for _, level := range levels {
		if limit := limitOf(level); limit > 0 && (lowest == 0 || limit < lowest) {
			lowest = limit
		}
	}
	return lowest, nil
}
