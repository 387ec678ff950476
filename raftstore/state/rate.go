package state

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
)

// maxRateTimes bounds the times that are kept for a pool. The oldest are dropped.
const maxRateTimes = 10000

// ratedPool is a pool of a tree. Its value stays the same when the pool is renamed.
type ratedPool struct {
	tree scheduling.TreeName
	id   scheduling.PoolID
}

// rates holds, by pool, the times at which jobs were preempted within the last minute, in
// nanoseconds since 1970, ascending. The slices are never changed in place.
type rates map[ratedPool][]int64

// take adds the time of a preemption.
func (r rates) take(of ratedPool, at time.Time) {
	times := r[of]
	i, _ := slices.BinarySearch(times, at.UnixNano()+1)
	times = slices.Insert(slices.Clip(times), i, at.UnixNano())
	r[of] = times[max(len(times)-maxRateTimes, 0):]
}

// forget drops times older than a minute.
func (r rates) forget(now time.Time) {
	for of, times := range r {
		i, _ := slices.BinarySearch(times, now.Add(-preemption.RatePeriod).UnixNano()+1)
		if r[of] = times[i:]; i == len(times) {
			delete(r, of)
		}
	}
}

// records returns all times, sorted by tree and pool.
func (r rates) records() []*statepb.PreemptionRate {
	all := make([]*statepb.PreemptionRate, 0, len(r))
	for _, of := range slices.SortedFunc(maps.Keys(r), func(a, b ratedPool) int {
		return cmp.Or(cmp.Compare(a.tree, b.tree), cmp.Compare(a.id, b.id))
	}) {
		all = append(all, &statepb.PreemptionRate{Tree: string(of.tree), PoolId: uint64(of.id), Times: r[of]})
	}
	return all
}

// remember records two facts about a preemption for the next leader: its time, in rates, and when
// jobs of the node were last chosen. Preemptions by older versions have no planned time and are not
// recorded.
func (c *change) remember(node string, p *commandpb.Preemption) {
	if p.GetOrder().GetPlannedTime() == nil {
		return
	}
	n, at := c.nodes[scheduling.NodeID(node)], p.GetOrder().GetPlannedTime().AsTime()
	t := c.trees[scheduling.TreeName(n.record.GetTree())]
	for _, id := range p.GetRatedPools() {
		if t.hasPool(id) {
			c.rates.take(ratedPool{scheduling.TreeName(n.record.GetTree()), scheduling.PoolID(id)}, at)
		}
	}
	kind, err := lifecycle.ParsePreemptionKind(p.GetOrder().GetPreemption())
	if err == nil && kind.Paced() && (n.record.GetPreemptedTime() == nil || n.record.GetPreemptedTime().AsTime().Before(at)) {
		n.record = shallow(n.record)
		n.record.PreemptedTime = p.GetOrder().GetPlannedTime()
	}
}

// hasPool reports whether the tree exists and has a pool with this id.
func (t *tree) hasPool(id uint64) bool {
	return t != nil && id != 0 && slices.ContainsFunc(t.record.GetPools(), func(p *statepb.Pool) bool { return p.GetId() == id })
}

// settleRates drops the rates of pools that the command has removed.
func (c *change) settleRates() {
	if len(c.rates) == 0 || !slices.ContainsFunc(c.events, func(e Event) bool { _, changed := e.(TreeChanged); return changed }) {
		return
	}
	maps.DeleteFunc(c.rates, func(of ratedPool, _ []int64) bool { return !c.trees[of.tree].hasPool(uint64(of.id)) })
}

// PreemptionRates returns the times at which jobs of a tree's pools were preempted within the last
// minute. It includes only pools whose rate is limited.
func (s *State) PreemptionRates(tree scheduling.TreeName) []*statepb.PreemptionRate {
	return slices.DeleteFunc(s.rates.records(), func(r *statepb.PreemptionRate) bool { return r.GetTree() != string(tree) })
}

// verifyRates checks that rates belong to existing pools.
func (s verifier) verifyRates() error {
	var b breach
	for of, times := range s.rates {
		b.when(!s.trees[of.tree].hasPool(uint64(of.id)), "rate of preemptions of pool %d of tree %q: there is no such pool", of.id, of.tree)
		b.when(len(times) == 0 || len(times) > maxRateTimes || !slices.IsSorted(times),
			"rate of preemptions of pool %d of tree %q: %d times, out of order or too many", of.id, of.tree, len(times))
	}
	return b.err
}

func (r *Restorer) addClaim(claim *statepb.Claim) error {
	if claim.GetBeneficiary() == nil {
		return errors.New("claim without a beneficiary")
	}
	r.state.claims.add(claim)
	return nil
}

func (r *Restorer) addRate(rate *statepb.PreemptionRate) error {
	of := ratedPool{scheduling.TreeName(rate.GetTree()), scheduling.PoolID(rate.GetPoolId())}
	if r.state.rates[of] != nil {
		return fmt.Errorf("rate of preemptions of pool %d of tree %q comes twice", of.id, of.tree)
	}
	r.state.rates[of] = rate.GetTimes()
	return nil
}
