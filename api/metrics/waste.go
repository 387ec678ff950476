package metrics

import (
	"maps"

	"weir/messages/statepb"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling/resource"
)

// wasteKey is the key by which ledger entries are summed.
type wasteKey struct{ tree, pool, cause string }

// waste adds the metrics of the ledgers of all trees.
func (s sink) waste(of Store) {
	for key, w := range wasteOf(of) {
		of := labels{"tree": key.tree, "pool": key.pool, "cause": key.cause}
		for kind, seconds := range map[resource.Kind]float64{
			resource.UserSlots: w.UserSlotSeconds, resource.CPU: w.CpuCoreSeconds, resource.GPU: w.GpuSeconds,
			resource.Memory: w.MemoryByteSeconds, resource.Network: w.NetworkSeconds,
		} {
			if seconds > 0 {
				ofKind := maps.Clone(of)
				ofKind["resource"] = kind.String()
				counter(s, "wasted_resource_seconds_total", wastedHelp, seconds, ofKind)
			}
		}
		counter(s, "wasted_jobs_total", "Aborted jobs that lost their work, by pool and cause.", w.Jobs, of)
		counter(s, "saved_jobs_total", "Jobs that stopped by themselves when asked and lost nothing, by pool and cause.", w.SavedJobs, of)
	}
}

const wastedHelp = "Work lost to aborted jobs: the resources they held times how long they ran, by pool, cause and resource; cores and bytes. " +
	"Ephemeral pools are counted as one."

// wasteOf sums the entries of all ledgers. Ephemeral pools of a tree count as one.
func wasteOf(of Store) map[wasteKey]*statepb.Waste {
	sums := map[wasteKey]*statepb.Waste{}
	of.View(func(st *state.State) {
		for _, tree := range st.Trees() {
			ephemeral := map[string]bool{}
			for _, p := range tree.GetPools() {
				ephemeral[p.GetName()] = p.GetEphemeralUser() != ""
			}
			for _, w := range tree.GetWaste() {
				key := wasteKey{tree.GetName(), w.GetPool(), w.GetCause()}
				if ephemeral[key.pool] {
					key.pool = raftstore.EphemeralPools
				}
				sum := sums[key]
				if sum == nil {
					sum = &statepb.Waste{}
					sums[key] = sum
				}
				sum.Jobs += w.GetJobs()
				sum.SavedJobs += w.GetSavedJobs()
				sum.UserSlotSeconds += w.GetUserSlotSeconds()
				sum.CpuCoreSeconds += w.GetCpuCoreSeconds()
				sum.GpuSeconds += w.GetGpuSeconds()
				sum.MemoryByteSeconds += w.GetMemoryByteSeconds()
				sum.NetworkSeconds += w.GetNetworkSeconds()
			}
		}
	})
	return sums
}
