package memory

import (
	"fmt"
	"math"
)

// UserUpperBound is the greatest part of memory_limit that is reserved.
const UserUpperBound = 1.0

// overdraftFactor sets what a job that was aborted for overdraft counts as needing: at least its
// reserve times overdraftFactor (J.1.3).
const overdraftFactor = 1.1

// Options say how the memory of a task's jobs is reserved.
type Options struct {
	// UserDefault is the part of memory_limit that is reserved before anything is known. UserLower
	// is the part that is always reserved at least. Both are in (0, 1].
	UserDefault, UserLower float64
	// ProxyDefault, ProxyLower and ProxyUpper are the default, least and greatest factor by which
	// the job proxy's estimate is multiplied. They are above 0.
	ProxyDefault, ProxyLower, ProxyUpper float64
	// UserMultiplier and ProxyMultiplier multiply the factor of a job after its first abort for
	// overdraft. They are at least 1, or 0, which gives the job the upper bound at once.
	UserMultiplier, ProxyMultiplier float64
}

// Default returns the options that apply where none are set (J.1.2).
func Default() Options {
	return Options{UserDefault: 0.5, UserLower: 0.05, ProxyDefault: 1, ProxyLower: 0.5, ProxyUpper: 2}
}

// WithReserveFactor returns options that reserve this part of memory_limit before anything is
// known, and never less.
func (o Options) WithReserveFactor(factor float64) Options {
	o.UserDefault, o.UserLower = factor, factor
	return o
}

// WithTmpfs returns options that reserve at least the size of tmpfs, which is memory of the job too.
// The parameter limit is memory_limit.
func (o Options) WithTmpfs(tmpfs, limit int64) Options {
	floor := 0.0
	if limit > 0 {
		floor = float64(tmpfs) / float64(limit)
	}
	o.UserLower = min(1, max(o.UserLower, floor))
	o.UserDefault = max(o.UserLower, min(1, max(o.UserDefault, floor)))
	return o
}

// A Fault is an invalid option. Name is the name of a task's setting.
type Fault struct{ Name, Cause string }

// Error implements error.
func (f *Fault) Error() string { return f.Name + ": " + f.Cause }

// Validate returns the first invalid option, as a *Fault.
func (o Options) Validate() error {
	for _, share := range []struct {
		name  string
		value float64
	}{
		{"user_job_memory_digest_default_value", o.UserDefault},
		{"user_job_memory_digest_lower_bound", o.UserLower},
	} {
		if !(share.value > 0 && share.value <= 1) {
			return &Fault{share.name, fmt.Sprintf("%v is not a part of memory_limit: use a number above 0 and up to 1", share.value)}
		}
	}
	if o.UserDefault < o.UserLower {
		return &Fault{"user_job_memory_digest_default_value", fmt.Sprintf("%v is below user_job_memory_digest_lower_bound, %v: raise the one or lower the other", o.UserDefault, o.UserLower)}
	}
	if !(o.ProxyLower > 0) || math.IsInf(o.ProxyUpper, 0) || !(o.ProxyLower <= o.ProxyDefault && o.ProxyDefault <= o.ProxyUpper) {
		return &Fault{"job_proxy_memory_digest", fmt.Sprintf("lower_bound %v, default_value %v and upper_bound %v must be above 0 and in ascending order", o.ProxyLower, o.ProxyDefault, o.ProxyUpper)}
	}
	for _, multiplier := range []struct {
		name  string
		value float64
	}{
		{"user_job_resource_overdraft_memory_multiplier", o.UserMultiplier},
		{"job_proxy_resource_overdraft_memory_multiplier", o.ProxyMultiplier},
	} {
		if multiplier.value != 0 && !(multiplier.value >= 1 && multiplier.value <= 10) {
			return &Fault{multiplier.name, fmt.Sprintf("%v: use a number from 1 to 10, or leave it out to reserve the upper bound at once", multiplier.value)}
		}
	}
	return nil
}
