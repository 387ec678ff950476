package fairshare

import (
	"fmt"
	"strings"
	"time"

	"weir/scheduling/resource"
)

// Options are the settings of a tree (F.17.1). Default returns them.
type Options struct {
	// MainResource is the one that guarantees of others are inferred from (F.5.1).
	MainResource resource.Kind
	// SmoothPeriod is the least time over which a pool spends its volume (F.6.3).
	SmoothPeriod time.Duration
	// CapacityPeriod is the time that a pool's flow needs to fill it (F.6.1).
	CapacityPeriod time.Duration
	// RelaxedMultiplier is how many times its flow a relaxed pool gets at most that
	// says nothing else (F.6.5).
	RelaxedMultiplier float64
	// DistributesFreeVolume holds for pools that leave it open (F.6.2).
	DistributesFreeVolume bool
	// InferWeight is what the guarantee of an element without weight, as a part of
	// its parent's, is multiplied with to be its weight; 0 gives it weight 1 (F.2).
	InferWeight float64
	// GangStep makes gangs all or nothing (F.7.2).
	GangStep bool
	// FIFOReordering allows it to pools (F.8.3).
	FIFOReordering bool
	// VectorFitFactor makes children that jump at one suggestion jump one after
	// another, and hands down shares instead of suggestions (F.7.6).
	VectorFitFactor bool
	// DistributionGap lets vector mode exceed a share by resource.Epsilon rather
	// than leave more than that of it.
	DistributionGap bool
}

// Default returns the settings of a tree that sets nothing.
func Default() Options {
	return Options{
		MainResource:      resource.CPU,
		SmoothPeriod:      time.Minute,
		CapacityPeriod:    24 * time.Hour,
		RelaxedMultiplier: 3,
	}
}

// AlertCode says what is wrong with the settings of a tree.
type AlertCode int

const (
	// AlertOvercommit says that guarantees do not fit the cluster (F.5.3).
	AlertOvercommit AlertCode = 29000
	// AlertNestedPromise names a pool that asks for promised fair shares below
	// another one that does; it is ignored (F.5.6).
	AlertNestedPromise AlertCode = 29001
	// AlertNoDonor names a pool whose priority has no donor above; it is ignored
	// (F.5.4).
	AlertNoDonor AlertCode = 29002
)

// Alert is something that an update found wrong and went on without.
type Alert struct {
	Code AlertCode
	// Pool is the one that is to be changed; the root's when guarantees of several
	// do not fit together.
	Pool string
}

// Named says the same as String, of guarantees that do not fit with the names of the pools
// whose they are.
func (a Alert) Named(pools []string) string {
	if a.Code != AlertOvercommit {
		return a.String()
	}
	of := ""
	if len(pools) > 0 {
		of = " of " + strings.Join(pools, ", ")
	}
	return fmt.Sprintf("guarantees%s exceed the resources of the cluster and are cut: lower strong guarantees, flows or bursts, or add nodes", of)
}

// String says what is wrong and what to do.
func (a Alert) String() string {
	switch a.Code {
	case AlertOvercommit:
		return a.Named(nil)
	case AlertNestedPromise:
		return fmt.Sprintf("pool %q: compute_promised_guarantee_fair_share is ignored, for a pool above has it: remove one of them", a.Pool)
	default:
		return fmt.Sprintf("pool %q: enable_priority_strong_guarantee_adjustment is ignored: no pool above is a donor, set %s there",
			a.Pool, "enable_priority_strong_guarantee_adjustment_donorship")
	}
}
