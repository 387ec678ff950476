package scheduler

import (
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/statepb"
	"weir/scheduling/engine"
	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// pendingJobs returns how many jobs may start.
func pendingJobs(op engine.OperationView) (pending int64) {
	for _, task := range op.Tasks {
		pending += task.Effective
	}
	return pending
}

// attributesOf returns attributes as a message.
func attributesOf(of map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(of)
	if err != nil {
		// Invariant: Attributes returns only values that a Struct can hold.
		panic(fmt.Sprintf("attributes: %v", err))
	}
	return s
}

// volumeView returns the volume of a pool that has, or had, integral guarantees; nil for other
// pools.
func volumeView(p engine.PoolView) *statepb.PoolVolume {
	if p.Integral.Type == fairshare.NoIntegral && p.Integral.Volume.IsZero() {
		return nil
	}
	v := p.Integral.Volume
	return &statepb.PoolVolume{
		Pool: string(p.Name), UserSlots: v.Of(resource.UserSlots), CpuHundredths: int64(v.CPU), Gpu: v.Of(resource.GPU), Memory: v.Of(resource.Memory),
		Network: v.Of(resource.Network),
	}
}
