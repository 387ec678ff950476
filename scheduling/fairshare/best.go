package fairshare

import "weir/scheduling/resource"

// NodeMemory says how many nodes have this much memory.
type NodeMemory struct{ Bytes, Nodes int64 }

// BestAllocationShare returns the part of the cluster that an operation can use
// whose jobs are all alike: memory of which no job can use a whole piece on its
// node does not count (F.2).
func BestAllocationShare(demand, total resource.Amounts, nodes []NodeMemory) resource.Vector {
	best := resource.Ones
	if demand.UserSlots <= 0 || demand.Memory < demand.UserSlots || total.Memory <= 0 {
		return best
	}
	perJob := demand.Memory / demand.UserSlots
	var usable resource.Amounts
	for _, n := range nodes {
		usable.Memory += n.Bytes / perJob * perJob * n.Nodes
	}
	best[resource.Memory] = resource.Share(usable, total)[resource.Memory]
	return best
}
