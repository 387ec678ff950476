package statepb

// Total returns what an allocation with the reserve holds, in bytes.
func (x *JobReserve) Total() int64 { return x.GetUser() + x.GetProxy() }

// Holding returns the reserve of a job to which so many bytes were granted in all: what
// is more or less than Total is that of its processes.
func (x *JobReserve) Holding(memory int64) *JobReserve {
	if x == nil {
		return nil
	}
	return &JobReserve{
		User: max(memory-x.GetProxy(), 0), Proxy: x.GetProxy(),
		UserFactor: x.GetUserFactor(), ProxyFactor: x.GetProxyFactor(), ProxyEstimate: x.GetProxyEstimate(), Predecessor: x.GetPredecessor(),
	}
}

// ResourcesOf returns what a job of the task needs that gets a reserve of group bytes in
// all; 0: that gets what was learned.
func (x *Task) ResourcesOf(group int64) *Resources {
	r := x.GetJobResources()
	if group == 0 {
		return r
	}
	return &Resources{
		UserSlots: r.GetUserSlots(), CpuHundredths: r.GetCpuHundredths(), Gpu: r.GetGpu(), Memory: group, Network: r.GetNetwork(),
	}
}
