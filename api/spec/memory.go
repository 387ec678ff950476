package spec

import (
	"weir/messages/statepb"
	"weir/scheduling/memory"
)

// Options that say how much memory is reserved for the jobs of a task (J.1).
const (
	fieldReserveFactor   = "memory_reserve_factor"
	fieldDigestDefault   = "user_job_memory_digest_default_value"
	fieldDigestLower     = "user_job_memory_digest_lower_bound"
	fieldProxyDigest     = "job_proxy_memory_digest"
	fieldUserMultiplier  = "user_job_resource_overdraft_memory_multiplier"
	fieldProxyMultiplier = "job_proxy_resource_overdraft_memory_multiplier"
	fieldMemoryProfile   = "memory_profile"
	fieldNoMemoryProfile = "no_memory_profile"

	fieldDefaultValue = "default_value"
	fieldLowerBound   = "lower_bound"
	fieldUpperBound   = "upper_bound"
)

const (
	// MaxProxyFactor bounds what a job proxy's estimate is multiplied by.
	MaxProxyFactor = 10
	// MaxOverdraftMultiplier bounds both multipliers.
	MaxOverdraftMultiplier = 10
)

var memoryFields = []string{
	fieldReserveFactor, fieldDigestDefault, fieldDigestLower, fieldProxyDigest, fieldUserMultiplier, fieldProxyMultiplier, fieldMemoryProfile,
}

// memory takes what is said of a task's reserves, beside what the operation says,
// completed in the order of J.1.2: tmpfs is known, memory_reserve_factor sets two
// numbers, and no reserve is below the tmpfs.
func (o options) memory(task *statepb.TaskSpec, outer memory.Options) {
	m := o.proxyDigest(outer)
	m.UserDefault = o.part(fieldDigestDefault, outer.UserDefault)
	m.UserLower = o.part(fieldDigestLower, outer.UserLower)
	m.UserMultiplier = o.fraction(fieldUserMultiplier, 0, 1, MaxOverdraftMultiplier)
	m.ProxyMultiplier = o.fraction(fieldProxyMultiplier, 0, 1, MaxOverdraftMultiplier)
	if factor := o.part(fieldReserveFactor, 0); factor > 0 {
		m = m.WithReserveFactor(factor)
	}
	m = m.WithTmpfs(tmpfsSum(task.GetTmpfs()), task.GetMemoryLimit())
	task.Memory = &statepb.MemorySpec{
		DigestDefaultValue: m.UserDefault, DigestLowerBound: m.UserLower,
		ProxyDefaultValue: m.ProxyDefault, ProxyLowerBound: m.ProxyLower, ProxyUpperBound: m.ProxyUpper,
		UserOverdraftMultiplier: m.UserMultiplier, ProxyOverdraftMultiplier: m.ProxyMultiplier,
		Profile: o.profile(fieldMemoryProfile),
	}
}

// proxyDigest returns the bounds of a job proxy's factor; what is not said of them is
// that of outer.
func (o options) proxyDigest(outer memory.Options) memory.Options {
	v := o.get(fieldProxyDigest, object)
	if v == nil {
		return outer
	}
	own := o.c.options(join(o.path, fieldProxyDigest), v, []string{fieldDefaultValue, fieldLowerBound, fieldUpperBound})
	before, m := len(o.c.faults), outer
	m.ProxyDefault = own.above0(fieldDefaultValue, outer.ProxyDefault, MaxProxyFactor)
	m.ProxyLower = own.above0(fieldLowerBound, outer.ProxyLower, MaxProxyFactor)
	m.ProxyUpper = own.above0(fieldUpperBound, outer.ProxyUpper, MaxProxyFactor)
	switch {
	case len(o.c.faults) > before:
	case m.ProxyLower > m.ProxyUpper:
		o.fault(fieldProxyDigest, "%s %v is above %s %v: make it less", fieldLowerBound, m.ProxyLower, fieldUpperBound, m.ProxyUpper)
	case m.ProxyDefault < m.ProxyLower || m.ProxyDefault > m.ProxyUpper:
		o.fault(fieldProxyDigest, "%s %v is not from %s %v to %s %v: set all that differ from %v, %v and %v", fieldDefaultValue, m.ProxyDefault,
			fieldLowerBound, m.ProxyLower, fieldUpperBound, m.ProxyUpper, outer.ProxyDefault, outer.ProxyLower, outer.ProxyUpper)
	default:
		return m
	}
	return outer
}

// part returns an option above 0 and at most 1, or missing.
func (o options) part(name string, missing float64) float64 { return o.above0(name, missing, 1) }

// above0 returns an option above 0 and at most high, or missing.
func (o options) above0(name string, missing, high float64) float64 {
	v := o.get(name, number)
	switch {
	case v == nil:
		return missing
	case !(v.number > 0) || v.number > high:
		o.fault(name, "%v is not possible: a number above 0 and at most %v is needed", v.number, high)
		return missing
	}
	return v.number
}

// fraction returns an option from low to high, or missing.
func (o options) fraction(name string, missing, low, high float64) float64 {
	v := o.get(name, number)
	switch {
	case v == nil:
		return missing
	case !(v.number >= low) || v.number > high:
		o.fault(name, "%v is not possible: a number from %v to %v is needed", v.number, low, high)
		return missing
	}
	return v.number
}

// profile returns the name of a memory profile.
func (o options) profile(name string) string {
	v := o.get(name, text)
	if v == nil {
		return ""
	}
	if v.text == "" {
		o.fault(name, "it is empty: leave it out for the profile of the task's name, command and isolation")
	} else if err := memory.ValidateProfileName(v.text); err != nil {
		o.fault(name, "%v", err)
	}
	return v.text
}

func formatMemory(out map[string]any, m *statepb.MemorySpec) {
	if m == nil {
		return
	}
	out[fieldDigestDefault], out[fieldDigestLower] = m.GetDigestDefaultValue(), m.GetDigestLowerBound()
	out[fieldProxyDigest] = map[string]any{
		fieldDefaultValue: m.GetProxyDefaultValue(), fieldLowerBound: m.GetProxyLowerBound(), fieldUpperBound: m.GetProxyUpperBound(),
	}
	for name, multiplier := range map[string]float64{fieldUserMultiplier: m.GetUserOverdraftMultiplier(), fieldProxyMultiplier: m.GetProxyOverdraftMultiplier()} {
		if multiplier != 0 {
			out[name] = multiplier
		}
	}
	if m.GetProfile() != "" {
		out[fieldMemoryProfile] = m.GetProfile()
	}
}
