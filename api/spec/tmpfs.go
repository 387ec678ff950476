package spec

import (
	"weir/messages/statepb"
	"weir/scheduling/resource"
)

// Options that say which file systems in memory a job gets.
const (
	fieldTmpfsPath    = "tmpfs_path"
	fieldTmpfsSize    = "tmpfs_size"
	fieldTmpfsVolumes = "tmpfs_volumes"

	fieldPath = "path"
	fieldSize = "size"
)

const (
	// MaxTmpfs bounds the file systems in memory of a job.
	MaxTmpfs = 20
	// MinTmpfsSize is a page.
	MinTmpfsSize = 4096
)

var tmpfsFields = []string{fieldTmpfsPath, fieldTmpfsSize, fieldTmpfsVolumes}

// tmpfs returns the file systems in memory of a job that may use so much.
func (o options) tmpfs(memoryLimit int64) []*statepb.Tmpfs {
	before := len(o.c.faults)
	alone, several := o.set[fieldTmpfsPath] != nil || o.set[fieldTmpfsSize] != nil, o.set[fieldTmpfsVolumes] != nil
	var volumes []*statepb.Tmpfs
	switch {
	case alone && several:
		o.fault(fieldTmpfsVolumes, "it is there beside %s or %s: write all of them here", fieldTmpfsPath, fieldTmpfsSize)
	case several:
		volumes = o.volumes()
	case o.set[fieldTmpfsPath] != nil:
		size := o.bytes(fieldTmpfsSize, memoryLimit, MinTmpfsSize, MaxMemoryLimit)
		volumes = []*statepb.Tmpfs{{Path: o.workspacePath(fieldTmpfsPath), Size: size}}
	case alone:
		o.fault(fieldTmpfsSize, "it is there without %s: where in the workspace is it to be?", fieldTmpfsPath)
	}
	if len(o.c.faults) > before {
		return nil
	}
	o.checkVolumes(volumes, memoryLimit)
	return volumes
}

func (o options) volumes() []*statepb.Tmpfs {
	items := o.items(fieldTmpfsVolumes, MaxTmpfs)
	volumes := make([]*statepb.Tmpfs, 0, len(items))
	for _, item := range items {
		own, ok := item.fields(fieldPath, fieldSize)
		if !ok {
			continue
		}
		if own.set[fieldSize] == nil {
			own.fault(fieldSize, "it is missing: how much may be in it?")
		}
		volumes = append(volumes, &statepb.Tmpfs{Path: own.workspacePath(fieldPath), Size: own.bytes(fieldSize, 0, MinTmpfsSize, MaxMemoryLimit)})
	}
	return volumes
}

// checkVolumes checks that volumes fit into the memory, and none lies in another.
func (o options) checkVolumes(volumes []*statepb.Tmpfs, memoryLimit int64) {
	name := fieldTmpfsPath
	if o.set[fieldTmpfsVolumes] != nil {
		name = fieldTmpfsVolumes
	} else if o.set[fieldTmpfsSize] != nil {
		name = fieldTmpfsSize
	}
	if sum := tmpfsSum(volumes); sum > memoryLimit {
		o.fault(name, "%s is more than memory_limit, %s, and what is in it counts as the job's memory: make it less, or memory_limit more",
			resource.FormatSize(sum), resource.FormatSize(memoryLimit))
	}
	for i, v := range volumes {
		for _, other := range volumes[:i] {
			if inner, outer := v.GetPath(), other.GetPath(); isWithin(inner, outer) || isWithin(outer, inner) {
				o.fault(name, "%q and %q lie one in the other: put them beside each other", outer, inner)
			}
		}
	}
}

// tmpfsSum returns the size of all of them.
func tmpfsSum(volumes []*statepb.Tmpfs) int64 {
	sum := int64(0)
	for _, v := range volumes {
		sum += v.GetSize()
	}
	return sum
}

func formatTmpfs(out map[string]any, volumes []*statepb.Tmpfs) {
	if len(volumes) == 0 {
		return
	}
	list := make([]any, len(volumes))
	for i, v := range volumes {
		list[i] = map[string]any{fieldPath: v.GetPath(), fieldSize: v.GetSize()}
	}
	out[fieldTmpfsVolumes] = list
}
