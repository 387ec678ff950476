package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PressureFile is where the kernel tells how long the agent and its jobs wait for memory: in
// the v2 group that holds both, also where the limits are in v1 hierarchies. An error says
// why there is none.
func PressureFile(root string) (string, error) {
	found, err := readLayout(root)
	if err != nil {
		return "", fmt.Errorf("find memory pressure: %w", err)
	}
	if found.unified == nil {
		return "", errors.New("find memory pressure: no v2 hierarchy is mounted")
	}
	file := filepath.Join(around(found.unified.own), "memory.pressure")
	// A kernel without pressure has the file, and does not let it be read.
	if _, err := os.ReadFile(file); err != nil {
		return "", fmt.Errorf("find memory pressure: %w", err)
	}
	return file, nil
}

// around is the group that holds an agent and its jobs, where the agent may have been put into
// a leaf of its own.
func around(own string) string {
	if name := filepath.Base(own); name == Leaf || strings.HasPrefix(name, nodePrefix) && strings.HasSuffix(name, leafSuffix) {
		return filepath.Dir(own)
	}
	return own
}

// Room is how much memory a group may use, and how much of that is left, with what the kernel
// can take back at once, in bytes.
type Room struct{ Limit, Left int64 }

// MemoryRoom is that of the group of this process, or of one above it: the one that has the
// least part left. The zero Room: none has a limit.
func MemoryRoom(root string) (Room, error) {
	found, err := readLayout(root)
	if err != nil {
		return Room{}, fmt.Errorf("read room of memory: %w", err)
	}
	var least Room
	see := func(folder, limitFile, currentFile, file, shared string) {
		// The topmost group has no such files.
		limit, err := readInt(folder, limitFile)
		if err != nil || limit <= 0 || limit >= 1<<62 {
			return
		}
		current, err := readInt(folder, currentFile)
		if err != nil {
			return
		}
		detail, err := readKeyed(folder, "memory.stat")
		if err != nil {
			return
		}
		left := min(limit, max(0, limit-current+max(0, detail[file]-detail[shared])))
		if least.Limit == 0 || float64(left)/float64(limit) < float64(least.Left)/float64(least.Limit) {
			least = Room{Limit: limit, Left: left}
		}
	}
	if m, exists := found.v1["memory"]; exists {
		for _, folder := range m.upwards() {
			see(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem")
		}
	}
	if found.unified != nil {
		for _, folder := range found.unified.upwards() {
			see(folder, "memory.max", "memory.current", "file", "shmem")
		}
	}
	return least, nil
}
