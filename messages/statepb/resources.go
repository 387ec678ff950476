package statepb

import "weir/scheduling/resource"

// Amounts returns the resources as the scheduler counts them. None are nothing.
func (x *Resources) Amounts() resource.Amounts {
	return resource.Amounts{
		UserSlots: x.GetUserSlots(),
		CPU:       resource.Hundredths(x.GetCpuHundredths()),
		GPU:       x.GetGpu(),
		Memory:    x.GetMemory(),
		Network:   x.GetNetwork(),
	}
}

// NewResources returns the message that carries a.
func NewResources(a resource.Amounts) *Resources {
	return &Resources{
		UserSlots:     a.UserSlots,
		CpuHundredths: int64(a.CPU),
		Gpu:           a.GPU,
		Memory:        a.Memory,
		Network:       a.Network,
	}
}
