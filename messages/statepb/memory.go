package statepb

import (
	"cmp"

	"weir/scheduling/lifecycle"
	"weir/scheduling/memory"
)

// MemoryTask returns what is known of the memory of a task of the operation without any
// sample. A spec of before there were reserves has the defaults.
func (x *OperationSpec) MemoryTask(task *TaskSpec) memory.Task {
	m, unsaid := task.GetMemory(), memory.Default()
	t := memory.Task{
		Limit: task.GetMemoryLimit(), ProxyEstimate: memory.Estimate(x.GetType() == lifecycle.Map, x.outputs(task)),
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

// outputs returns how many files a job proxy writes at a time: a mapper's output, or one of
// those that are kept.
func (x *OperationSpec) outputs(task *TaskSpec) int {
	if x.GetType() == lifecycle.Map || len(task.GetOutputs()) > 0 {
		return 1
	}
	return 0
}

// MemoryProfileKey returns by what the memory profile of a task is found; empty: the
// operation has none.
func (x *OperationSpec) MemoryProfileKey(task *TaskSpec) string {
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
		User: r.User, Proxy: r.Proxy, Footprint: r.Footprint, UserFactor: r.UserFactor, ProxyFactor: r.ProxyFactor, ProxyEstimate: r.ProxyEstimate,
	}
}

// Reserve returns the reserve of which this is the record.
func (x *JobReserve) Reserve() memory.Reserve {
	return memory.Reserve{
		User: x.GetUser(), Proxy: x.GetProxy(), Footprint: x.GetFootprint(),
		UserFactor: x.GetUserFactor(), ProxyFactor: x.GetProxyFactor(), ProxyEstimate: x.GetProxyEstimate(),
	}
}
