package statepb

import (
	"cmp"
	"slices"
	"strings"

	"weir/scheduling/lifecycle"
	"weir/scheduling/memory"
)

// MemoryTask returns the memory settings of a task of the operation. A spec from before reserves
// existed has the defaults.
func (x *OperationSpec) MemoryTask(task *TaskSpec) memory.Task {
	m, unsaid := task.GetMemory(), memory.Default()
	t := memory.Task{
		Limit: task.GetMemoryLimit(), ProxyEstimate: x.streams(task).Estimate(),
		Options: memory.Options{
			UserDefault:    cmp.Or(m.GetDigestDefaultValue(), unsaid.UserDefault),
			UserLower:      cmp.Or(m.GetDigestLowerBound(), unsaid.UserLower),
			ProxyDefault:   cmp.Or(m.GetProxyDefaultValue(), unsaid.ProxyDefault),
			ProxyLower:     cmp.Or(m.GetProxyLowerBound(), unsaid.ProxyLower),
			ProxyUpper:     cmp.Or(m.GetProxyUpperBound(), unsaid.ProxyUpper),
			UserMultiplier: m.GetUserOverdraftMultiplier(), ProxyMultiplier: m.GetProxyOverdraftMultiplier(),
		},
	}
	for _, tmpfs := range task.GetTmpfs() {
		t.Tmpfs += tmpfs.GetSize()
	}
	return t
}

// streams returns the inputs and outputs of a job of a task.
func (x *OperationSpec) streams(task *TaskSpec) memory.Streams {
	store := func(place string) bool { return strings.HasPrefix(place, "s3://") }
	s := memory.Streams{Kept: len(task.GetOutputs()), ToStore: slices.ContainsFunc(task.GetOutputs(), func(k *KeptFile) bool { return store(k.GetDestination()) })}
	if x.GetType() == lifecycle.Map {
		s.Inputs, s.FromStore = len(x.GetMap().GetInputPaths()), slices.ContainsFunc(x.GetMap().GetInputPaths(), store)
		s.Writes, s.ToStore = true, store(x.GetMap().GetOutputPath())
	}
	return s
}

// MemoryProfileKey returns the key of the memory profile of a task of a user's operation; empty if
// the operation has none. Users have profiles of their own, so that what jobs of one need does not
// decide what those of another get.
func (x *OperationSpec) MemoryProfileKey(user string, task *TaskSpec) string {
	if x.GetNoMemoryProfile() {
		return ""
	}
	// A profile's own key has no colon.
	return user + ":" + x.FormerProfileKey(task)
}

// FormerProfileKey returns the key of a task's profile in records of before users had profiles of
// their own; empty if the operation has none.
func (x *OperationSpec) FormerProfileKey(task *TaskSpec) string {
	if x.GetNoMemoryProfile() {
		return ""
	}
	return memory.Profile{
		Given: task.GetMemory().GetProfile(), Type: x.GetType(), Task: task.GetName(), Argv: task.GetArgv(), Shell: task.GetShell(),
		Isolation: task.GetIsolation(), Format: x.GetMap().GetFormat(),
	}.Key()
}

// NewJobReserve returns the record of a reserve.
func NewJobReserve(r memory.Reserve) *JobReserve {
	return &JobReserve{
		User: r.User, Proxy: r.Proxy, UserFactor: r.UserFactor, ProxyFactor: r.ProxyFactor, ProxyEstimate: r.ProxyEstimate,
	}
}

// Reserve returns the reserve in this record.
func (x *JobReserve) Reserve() memory.Reserve {
	return memory.Reserve{
		User: x.GetUser(), Proxy: x.GetProxy(),
		UserFactor: x.GetUserFactor(), ProxyFactor: x.GetProxyFactor(), ProxyEstimate: x.GetProxyEstimate(),
	}
}
