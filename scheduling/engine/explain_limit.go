package engine

import (
	"fmt"
	"strings"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// jobLimit is the nearest limit, upwards, that leaves too little for a job of an operation; one that
// is less than the job whatever else is used is told as such.
func jobLimit(op *operation, perJob resource.Amounts) (Fact, bool) {
	f, limited := limitOf(op, perJob)
	if k, err := resource.ParseKind(f.Resource); limited && err == nil && inUnits(k, perJob.Of(k)) > f.Bound {
		f.Text += ", and a single job needs " + quantity(k, perJob.Of(k))
	}
	if op.beyondLimits(perJob) {
		f.Text += noDemand
	}
	return f, limited
}

// limitOf finds the nearest limit, upwards, that leaves too little for a job.
func limitOf(op *operation, needs resource.Amounts) (Fact, bool) {
	if f, lacks := binding(needs, op.order, op.effective.Limits, op.ceiling, ""); lacks {
		return f, true
	}
	for p := op.pool; p != nil; p = p.parent {
		if f, lacks := binding(needs, p.order, p.effective.Limits, p.ceiling, p.name); lacks {
			return f, true
		}
	}
	return Fact{}, false
}

// binding finds the limit of an element that leaves too little: what was set, or what
// max_share_ratio allows.
func binding(needs resource.Amounts, of *allocation.Element, set, ceiling resource.Amounts, pool scheduling.PoolName) (Fact, bool) {
	if k, lacks := needs.Lacking(leftOf(of, set)); lacks {
		return limitFact(k, of, set, pool), true
	}
	k, lacks := needs.Lacking(leftOf(of, ceiling))
	if !lacks {
		return Fact{}, false
	}
	f := limitFact(k, of, ceiling, pool)
	f.Setting = "max_share_ratio"
	f.Text = strings.Replace(f.Text, "resource_limits are reached", "max_share_ratio is reached", 1)
	return f, true
}

// leftOf is what limits leave for more jobs.
func leftOf(of *allocation.Element, limits resource.Amounts) resource.Amounts {
	if limits == resource.Infinite {
		return limits
	}
	return limits.Sub(of.Usage()).Sub(of.Leaving())
}

// reached finds a resource of which nothing is left.
func reached(of *allocation.Element, limits resource.Amounts) (resource.Kind, bool) {
	for i := range resource.Count {
		k := resource.Kind(i)
		if limits.Of(k) < resource.Infinite.Of(k) && leftOf(of, limits).Of(k) <= 0 {
			return k, true
		}
	}
	return 0, false
}

func limitFact(k resource.Kind, of *allocation.Element, limits resource.Amounts, pool scheduling.PoolName) Fact {
	used := of.Usage().Add(of.Leaving()).Of(k)
	who := "the operation's"
	if pool != "" {
		who = fmt.Sprintf("pool %q's", pool)
	}
	return Fact{Code: FactLimit, Pool: pool, Resource: k.String(), Setting: "resource_limits", Value: inUnits(k, used), Bound: inUnits(k, limits.Of(k)),
		Text: fmt.Sprintf("%s resource_limits are reached: it uses %s of at most %s", who, quantity(k, used), quantity(k, limits.Of(k)))}
}
