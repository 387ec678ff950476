package scheduler

import (
	"fmt"
	"time"

	"weir/scheduling"
)

// restorePreemptions restores the claims that earlier leaders' preemptions made, and then applies
// all stop orders. The state has no claims for orders of older versions, so applying these orders
// makes the claims.
func (t *Tree) restorePreemptions(seed Seed) error {
	for _, claim := range seed.Claims {
		err := t.engine.AddClaim(scheduling.NodeID(claim.GetNode()), beneficiaryOf(claim.GetBeneficiary()),
			claim.GetPlannedTime().AsTime(), claim.GetExpires().AsTime())
		if err != nil {
			return fmt.Errorf("rebuild claims: %w", err)
		}
	}
	return t.leave(seed.Allocations, true)
}

// restorePace restores the times of recent preemptions, so that rate limits hold across leaders.
func (t *Tree) restorePace(seed Seed) {
	for _, rate := range seed.Rates {
		times := make([]time.Time, len(rate.GetTimes()))
		for i, at := range rate.GetTimes() {
			times[i] = time.Unix(0, at)
		}
		t.engine.SetRate(scheduling.PoolID(rate.GetPoolId()), times)
	}
	for _, node := range seed.Nodes {
		if at := node.GetPreemptedTime(); at != nil {
			t.engine.SetAttempted(scheduling.NodeID(node.GetId()), at.AsTime())
		}
	}
}
