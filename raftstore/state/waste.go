package state

import (
	"cmp"
	"slices"
	"time"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// account adds the cost of a job's end to the ledgers of the operation and of the pool.
// An aborted job has lost its resources for the time that it ran. A job that was
// interrupted and then completed, or was ended after it had acknowledged that its state
// is saved, has lost nothing and counts as saved. edit has been called.
func (c *change) account(o *operation, a *statepb.Allocation, finished *statepb.FinishedJob) {
	order := a.GetStop()
	more := &statepb.Waste{Cause: cmp.Or(order.GetPreemption(), order.GetReason())}
	switch {
	case finished.GetState() == lifecycle.JobCompleted.String() && order.Interrupted(),
		finished.GetAcknowledged():
		more.SavedJobs = 1
	case finished.GetState() == lifecycle.JobAborted.String():
		if order.GetPreemption() == "" || finished.GetAbortReason() != order.GetReason() {
			more.Cause = finished.GetAbortReason()
		}
		lose(more, a.GetResources().Amounts(), c.ran(a, finished))
	default:
		return
	}
	c.edit(o)
	o.record.Waste = charge(o.record.GetWaste(), more)
	in := o.record.GetTrees()[o.treeIndex(scheduling.TreeName(c.nodes[scheduling.NodeID(a.GetNode())].record.GetTree()))]
	t := c.trees[scheduling.TreeName(in.GetTree())]
	more.Pool = string(t.poolOfGrant(a))
	if more.GetPool() == "" {
		more.Pool = in.GetPool()
	}
	c.chargeTree(t, more)
}

// poolOfGrant returns the current name of the pool in which an allocation was granted; ""
// if the pool is gone, or the allocation does not record its pool.
func (t *tree) poolOfGrant(a *statepb.Allocation) scheduling.PoolName {
	name, id := scheduling.PoolName(a.GetPool()), scheduling.PoolID(a.GetPoolId())
	if p, found := t.pools.Pool(name); found && (id == 0 || p.ID == id) {
		return name
	}
	return poolNames(t.pools)[id]
}

// ran returns how long a job ran by its node's clock. Because that clock may be wrong, the result
// is at most the time since the job's grant.
func (c *change) ran(a *statepb.Allocation, finished *statepb.FinishedJob) time.Duration {
	ran := finished.GetFinishTime().AsTime().Sub(finished.GetStartTime().AsTime())
	return max(0, min(ran, c.now.Sub(a.GetStartTime().AsTime())))
}

// lose sets w to the loss of one job.
func lose(w *statepb.Waste, held resource.Amounts, ran time.Duration) {
	seconds := ran.Seconds()
	w.Jobs = 1
	w.UserSlotSeconds = float64(held.UserSlots) * seconds
	w.CpuCoreSeconds = float64(held.CPU) / 100 * seconds
	w.GpuSeconds = float64(held.GPU) * seconds
	w.MemoryByteSeconds = float64(held.Memory) * seconds
	w.NetworkSeconds = float64(held.Network) * seconds
}

// charge adds lost work to the record of a ledger that has the same pool and cause. The ledger is
// sorted by pool and cause. charge changes the list in place, but none of its records.
func charge(ledger []*statepb.Waste, more *statepb.Waste) []*statepb.Waste {
	i, found := slices.BinarySearchFunc(ledger, more, compareWaste)
	if !found {
		return slices.Insert(ledger, i, addWaste(&statepb.Waste{Pool: more.GetPool(), Cause: more.GetCause()}, more))
	}
	ledger[i] = addWaste(ledger[i], more)
	return ledger
}

func compareWaste(a, b *statepb.Waste) int {
	return cmp.Or(cmp.Compare(a.GetPool(), b.GetPool()), cmp.Compare(a.GetCause(), b.GetCause()))
}

// addWaste returns the sum of two records, with the pool and the cause of the first.
func addWaste(w, more *statepb.Waste) *statepb.Waste {
	return &statepb.Waste{
		Pool: w.GetPool(), Cause: w.GetCause(),
		Jobs:              sum(w.GetJobs(), more.GetJobs()),
		SavedJobs:         sum(w.GetSavedJobs(), more.GetSavedJobs()),
		UserSlotSeconds:   w.GetUserSlotSeconds() + more.GetUserSlotSeconds(),
		CpuCoreSeconds:    w.GetCpuCoreSeconds() + more.GetCpuCoreSeconds(),
		GpuSeconds:        w.GetGpuSeconds() + more.GetGpuSeconds(),
		MemoryByteSeconds: w.GetMemoryByteSeconds() + more.GetMemoryByteSeconds(),
		NetworkSeconds:    w.GetNetworkSeconds() + more.GetNetworkSeconds(),
	}
}

// chargeTree charges the ledger of a tree. It copies the tree's record once per command, and keeps
// the revision, which counts only changes made by users.
func (c *change) chargeTree(t *tree, more *statepb.Waste) {
	if !c.charged[t] {
		made(&c.charged)[t] = true
		t.record = shallow(t.record)
		t.record.Waste = slices.Clone(t.record.GetWaste())
	}
	t.record.Waste = charge(t.record.GetWaste(), more)
}

// foldedWaste returns the ledger of a tree after an edit. A renamed pool keeps its records. The
// records of a removed pool are added to those of its former parent, so that the size of the ledger
// depends only on existing pools. The parameter was is the tree before the edit.
func foldedWaste(ledger []*statepb.Waste, was, pools pooltree.Tree) []*statepb.Waste {
	if len(ledger) == 0 {
		return nil
	}
	names := poolNames(pools)
	var out []*statepb.Waste
	for _, w := range ledger {
		pool := scheduling.PoolName(w.GetPool())
		for pool != scheduling.RootPool {
			before, _ := was.Pool(pool)
			now, stays := names[before.ID]
			if before.ID == 0 {
				// The pool has no id and is found by name, but a pool with an id may have
				// taken that name.
				same, found := pools.Pool(pool)
				now, stays = pool, found && same.ID == 0
			}
			if stays {
				pool = now
				break
			}
			pool = cmp.Or(before.Parent, scheduling.RootPool)
		}
		out = charge(out, addWaste(&statepb.Waste{Pool: string(pool), Cause: w.GetCause()}, w))
	}
	return out
}

// poolNames returns the current names of pools that have ids.
func poolNames(pools pooltree.Tree) map[scheduling.PoolID]scheduling.PoolName {
	names := make(map[scheduling.PoolID]scheduling.PoolName)
	for _, p := range pools.Pools() {
		if p.ID != 0 {
			names[p.ID] = p.Name
		}
	}
	return names
}

// verifyWaste checks a ledger: it is sorted, and no record is empty or negative.
func verifyWaste(ledger []*statepb.Waste) error {
	var b breach
	for i, w := range ledger {
		pool, cause := w.GetPool(), w.GetCause()
		b.when(i > 0 && compareWaste(ledger[i-1], w) >= 0, "waste of pool %q by %q: listed twice or out of order", pool, cause)
		for _, lost := range []float64{w.GetUserSlotSeconds(), w.GetCpuCoreSeconds(), w.GetGpuSeconds(), w.GetMemoryByteSeconds(), w.GetNetworkSeconds()} {
			b.when(!amount(lost), "waste of pool %q by %q: amount %v must be finite and not negative", pool, cause, lost)
		}
		b.when(w.GetJobs() < 0 || w.GetSavedJobs() < 0 || w.GetJobs()+w.GetSavedJobs() <= 0 || cause == "",
			"waste of pool %q by %q: invalid cause or job counts, %d lost and %d saved", pool, cause, w.GetJobs(), w.GetSavedJobs())
	}
	return b.err
}
