package statepb

// Total returns the memory of an allocation with this reserve, in bytes.
func (x *JobReserve) Total() int64 { return x.GetUser() + x.GetProxy() }

// Holding returns the reserve of a job that was granted this much memory in all. The job's processes
// get what the proxy does not need.
func (x *JobReserve) Holding(memory int64) *JobReserve {
	if x == nil {
		return nil
	}
	return &JobReserve{
		User: max(memory-x.GetProxy(), 0), Proxy: x.GetProxy(),
		UserFactor: x.GetUserFactor(), ProxyFactor: x.GetProxyFactor(), ProxyEstimate: x.GetProxyEstimate(), Predecessor: x.GetPredecessor(),
	}
}

// ResourcesOf returns the resources of a job of the task. The parameter group is the job's own memory
// reserve in bytes; 0 means the learned reserve.
func (x *Task) ResourcesOf(group int64) *Resources {
	r := x.GetJobResources()
	if group == 0 {
		return r
	}
	return &Resources{
		UserSlots: r.GetUserSlots(), CpuHundredths: r.GetCpuHundredths(), Gpu: r.GetGpu(), Memory: group, Network: r.GetNetwork(),
	}
}
