package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PressureFile is the path of the file in which the kernel reports how long the agent and its
// jobs wait for memory. It is in the v2 group that holds both, even where limits are in v1
// hierarchies. An error says why there is none.
func PressureFile(root string) (string, error) {
	found, err := readLayout(root)
	if err != nil {
		return "", fmt.Errorf("find memory pressure: %w", err)
	}
	v2, mounted := found[unified]
	if !mounted {
		return "", errors.New("find memory pressure: no v2 hierarchy is mounted")
	}
	file := filepath.Join(around(v2.own), "memory.pressure")
	// Where pressure accounting is off, the file exists but cannot be read.
	if _, err := os.ReadFile(file); err != nil {
		return "", fmt.Errorf("find memory pressure: %w", err)
	}
	return file, nil
}

// around returns the group that holds an agent and its jobs. `own` is the agent's own group, which
// may be a leaf below that group.
func around(own string) string {
	if name := filepath.Base(own); name == Leaf || strings.HasPrefix(name, nodePrefix) && strings.HasSuffix(name, leafSuffix) {
		return filepath.Dir(own)
	}
	return own
}

// Room is how much memory a group may use, and how much of that is left, in bytes. Memory that
// the kernel can reclaim at once counts as left.
type Room struct{ Limit, Left int64 }

// MemoryRoom returns the Room of the group of this process, or of a group above it: the one with
// the smallest fraction left. The zero Room means that none has a limit.
func MemoryRoom(root string) (Room, error) {
	levels, err := readLevels(root, "memory")
	if err != nil {
		return Room{}, fmt.Errorf("read free memory of cgroup: %w", err)
	}
	var least Room
	for _, level := range levels {
		// The topmost group has no such files.
		limit := level.memoryLimit()
		charged, cache, err := level.memoryFiles().read(level.folder)
		if limit == 0 || err != nil {
			continue
		}
		left := min(limit, max(0, limit-charged+cache))
		if least.Limit == 0 || float64(left)/float64(limit) < float64(least.Left)/float64(least.Limit) {
			least = Room{Limit: limit, Left: left}
		}
	}
	return least, nil
}
