package resource

import (
	"math"
	"time"
)

// Volume is an amount of each resource times seconds (F.1.2). Cpu is rounded to whole hundredths,
// the others are not rounded. A caller that adds up many volumes has to make up for the rounding
// errors itself.
type Volume struct {
	UserSlots float64
	CPU       Hundredths
	GPU       float64
	Memory    float64
	Network   float64
}

// VolumeOf returns the volume of amounts held for d. One cpu for a millisecond is 0, because it
// rounds to less than a hundredth.
func VolumeOf(a Amounts, d time.Duration) Volume {
	held := Volume{UserSlots: float64(a.UserSlots), CPU: a.CPU, GPU: float64(a.GPU), Memory: float64(a.Memory), Network: float64(a.Network)}
	return held.Scale(d.Seconds())
}

// Of returns the volume of one kind. Cpu is in cores x seconds.
func (v Volume) Of(k Kind) float64 {
	switch k {
	case UserSlots:
		return v.UserSlots
	case CPU:
		return v.CPU.Cores()
	case GPU:
		return v.GPU
	case Memory:
		return v.Memory
	default:
		return v.Network
	}
}

// With returns a copy of v with the volume of one kind replaced. Cpu is given in cores x seconds, and
// rounded.
func (v Volume) With(k Kind, volume float64) Volume {
	switch k {
	case UserSlots:
		v.UserSlots = volume
	case CPU:
		v.CPU = Cores(volume)
	case GPU:
		v.GPU = volume
	case Memory:
		v.Memory = volume
	default:
		v.Network = volume
	}
	return v
}

// Add returns v + w.
func (v Volume) Add(w Volume) Volume {
	return v.with(w, func(a, b float64) float64 { return a + b })
}

// Sub returns v - w.
func (v Volume) Sub(w Volume) Volume {
	return v.with(w, func(a, b float64) float64 { return a - b })
}

// Min returns the lesser volume of each resource.
func (v Volume) Min(w Volume) Volume { return v.with(w, math.Min) }

// Max returns the greater volume of each resource.
func (v Volume) Max(w Volume) Volume { return v.with(w, math.Max) }

// Scale returns v * factor. Cpu is rounded to the nearest hundredth.
func (v Volume) Scale(factor float64) Volume {
	return v.with(v, func(a, _ float64) float64 { return a * factor })
}

// with combines each resource of v and w by the function `of`. Cpu is passed in hundredths, and its
// result is rounded.
func (v Volume) with(w Volume, of func(a, b float64) float64) Volume {
	return Volume{
		UserSlots: of(v.UserSlots, w.UserSlots),
		CPU:       Hundredths(nearest(of(float64(v.CPU), float64(w.CPU)))),
		GPU:       of(v.GPU, w.GPU),
		Memory:    of(v.Memory, w.Memory),
		Network:   of(v.Network, w.Network),
	}
}

// IsZero reports whether all volumes are 0.
func (v Volume) IsZero() bool { return v == Volume{} }

// MinRatio returns for how many seconds the volume would pay for all of `total`. This is the least
// ratio over the resources of which `total` has some. It is 0 if `total` is nothing.
func (v Volume) MinRatio(total Amounts) float64 {
	least, found := math.MaxFloat64, false
	for k := Kind(0); k < Count; k++ {
		if t := total.Of(k); t != 0 {
			volume := v.Of(k)
			if k == CPU {
				volume = float64(v.CPU)
			}
			least, found = min(least, volume/float64(t)), true
		}
	}
	if !found {
		return 0
	}
	return least
}

// Map returns the volumes of all resources by name. Cpu is in cores x seconds.
func (v Volume) Map() map[string]float64 {
	m := make(map[string]float64, Count)
	for k := Kind(0); k < Count; k++ {
		m[k.String()] = v.Of(k)
	}
	return m
}
