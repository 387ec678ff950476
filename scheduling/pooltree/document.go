package pooltree

import (
	"weir/scheduling/resource"
)

// Document returns the settings by option name, as the API shows them. A rate limit that is not
// set is nil.
func (p EffectivePoolPreemption) Document() map[string]any {
	out := map[string]any{
		"allow_normal_preemption":              p.AllowNormal,
		"allow_aggressive_preemption":          p.AllowAggressive,
		"preemption_rate_limit":                nil,
		"resource_limits_overcommit_tolerance": above0(p.LimitTolerance),
	}
	if p.RateLimit != NoRateLimit {
		out["preemption_rate_limit"] = float64(p.RateLimit)
	}
	return out
}

// PreemptionMode returns the name of the mode.
func (e EffectiveOperation) PreemptionMode() string {
	if e.Graceful {
		return PreemptGracefully
	}
	return PreemptNormally
}

// above0 returns the amounts that are above 0, by name.
func above0(a resource.Amounts) map[string]any {
	return those(a, func(_ resource.Kind, n int64) bool { return n > 0 })
}

// limited returns the amounts that are not infinite, by name.
func limited(a resource.Amounts) map[string]any {
	return those(a, func(k resource.Kind, n int64) bool { return n < resource.Infinite.Of(k) })
}

// those returns the amounts, by name, for which the function `wanted` returns true.
func those(a resource.Amounts, wanted func(resource.Kind, int64) bool) map[string]any {
	named := Resources{Amounts: a}
	for i := range named.Named {
		k := resource.Kind(i)
		named.Named[i] = wanted(k, a.Of(k))
	}
	return named.WriteOption().(map[string]any)
}
