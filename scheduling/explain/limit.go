package explain

import (
	"fmt"
	"strings"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// Limits are the limits of an operation or a pool, and what it holds.
type Limits struct {
	// Pool is empty for an operation.
	Pool scheduling.PoolName
	Held resource.Amounts
	// Set are the limits that were set. Ceiling is what max_share_ratio allows.
	Set, Ceiling resource.Amounts
}

// JobLimit returns the nearest limit, from the operation upwards, that leaves too little for a
// job. It returns nil if none does. The text says if the limit is less than a single job needs and,
// with noJobFits, that such jobs do not count as demand.
func JobLimit(limits []Limits, perJob resource.Amounts, noJobFits bool) *Fact {
	f := limitOf(limits, perJob)
	if f == nil {
		return nil
	}
	if k, err := resource.ParseKind(f.Resource); err == nil && inUnits(k, perJob.Of(k)) > f.Bound {
		f.Text += ", but a single job needs " + quantity(k, perJob.Of(k))
	}
	if noJobFits {
		f.Text += noDemand
	}
	return f
}

// limitOf returns the nearest limit, from the operation upwards, that leaves too little. It returns
// nil if none does.
func limitOf(limits []Limits, needs resource.Amounts) *Fact {
	for _, l := range limits {
		if k, lacks := needs.Lacking(l.left(l.Set)); lacks {
			return l.fact(k, l.Set)
		}
		if k, lacks := needs.Lacking(l.left(l.Ceiling)); lacks {
			f := l.fact(k, l.Ceiling)
			f.Setting = "max_share_ratio"
			f.Text = strings.Replace(f.Text, "resource_limits are reached", "max_share_ratio is reached", 1)
			return f
		}
	}
	return nil
}

// LimitsReached returns the facts about limits that were set and of which nothing is left.
func LimitsReached(limits []Limits) (all []Fact) {
	for _, l := range limits {
		for k := range resource.Kind(resource.Count) {
			if l.Set.Of(k) < resource.Infinite.Of(k) && l.left(l.Set).Of(k) <= 0 {
				all = append(all, *l.fact(k, l.Set))
				break
			}
		}
	}
	return all
}

// left returns how much more may be used within the limits.
func (l Limits) left(limits resource.Amounts) resource.Amounts {
	if limits == resource.Infinite {
		return limits
	}
	return limits.Sub(l.Held)
}

func (l Limits) fact(k resource.Kind, limits resource.Amounts) *Fact {
	used := l.Held.Of(k)
	who := "the operation's"
	if l.Pool != "" {
		who = fmt.Sprintf("pool %q's", l.Pool)
	}
	return &Fact{Code: FactLimit, Pool: l.Pool, Resource: k.String(), Setting: "resource_limits", Value: inUnits(k, used), Bound: inUnits(k, limits.Of(k)),
		Text: fmt.Sprintf("%s resource_limits are reached: it uses %s of at most %s", who, quantity(k, used), quantity(k, limits.Of(k)))}
}
