package fairshare

import "weir/scheduling/resource"

// NodeMemory counts the nodes with a given amount of memory.
type NodeMemory struct{ Bytes, Nodes int64 }

// BestAllocationShare returns the part of the cluster that an operation with uniform jobs can use:
// memory that is left over on a node because no whole job fits in it does not count (F.2).
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
