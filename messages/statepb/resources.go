package statepb

import (
	"weir/scheduling"
	"weir/scheduling/resource"
)

// Amounts returns the resources in the scheduler's units; nil means none.
func (x *Resources) Amounts() resource.Amounts {
	return resource.Amounts{
		UserSlots: x.GetUserSlots(),
		CPU:       resource.Hundredths(x.GetCpuHundredths()),
		GPU:       x.GetGpu(),
		Memory:    x.GetMemory(),
		Network:   x.GetNetwork(),
	}
}

// NewResources returns the amounts as a message.
func NewResources(a resource.Amounts) *Resources {
	return &Resources{
		UserSlots:     a.UserSlots,
		CpuHundredths: int64(a.CPU),
		Gpu:           a.GPU,
		Memory:        a.Memory,
		Network:       a.Network,
	}
}

// Volume returns the volume in the scheduler's units.
func (x *PoolVolume) Volume() resource.Volume {
	return resource.Volume{
		UserSlots: x.GetUserSlots(),
		CPU:       resource.Hundredths(x.GetCpuHundredths()),
		GPU:       x.GetGpu(),
		Memory:    x.GetMemory(),
		Network:   x.GetNetwork(),
	}
}

// NewPoolVolume returns the record of a pool's volume. The parameter rest is the rounding error of
// the volume's cpu.
func NewPoolVolume(pool scheduling.PoolName, id scheduling.PoolID, v resource.Volume, rest, lastShareRatio float64) *PoolVolume {
	return &PoolVolume{
		Pool: string(pool), PoolId: uint64(id), UserSlots: v.UserSlots, CpuHundredths: int64(v.CPU), Gpu: v.GPU, Memory: v.Memory, Network: v.Network,
		CpuRest: rest, LastShareRatio: lastShareRatio,
	}
}
