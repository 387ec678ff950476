package fairshare

import (
	"fmt"
	"strings"
	"time"

	"weir/scheduling/resource"
)

// Options are the settings of a tree (F.17.1). Default returns the default settings.
type Options struct {
	// MainResource is the resource from which guarantees of the others are inferred (F.5.1).
	MainResource resource.Kind
	// SmoothPeriod is the shortest time in which a pool may spend its volume (F.6.3).
	SmoothPeriod time.Duration
	// CapacityPeriod is the time in which a pool's flow fills its volume (F.6.1).
	CapacityPeriod time.Duration
	// RelaxedMultiplier is the upper bound of what a relaxed pool without a multiplier of its own
	// gets by volume, as a multiple of its flow (F.6.5).
	RelaxedMultiplier float64
	// DistributesFreeVolume is the default for pools that do not set it (F.6.2).
	DistributesFreeVolume bool
	// InferWeight, times a pool's part of its parent's guarantees, is the weight of a pool that has
	// no configured weight. 0 means weight 1 (F.2).
	InferWeight float64
	// GangStep makes gangs all or nothing (F.7.2).
	GangStep bool
	// FIFOReordering allows pools to reorder (F.8.3).
	FIFOReordering bool
	// VectorFitFactor lets children that jump at the same suggestion jump one after another, and
	// passes down shares instead of suggestions (F.7.6).
	VectorFitFactor bool
	// DistributionGap lets vector mode exceed a share by resource.Epsilon when more than that
	// would otherwise be left unassigned.
	DistributionGap bool
}

// Default returns the settings of a tree that configures no settings.
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
	// AlertNestedPromise names a pool that asks for promised fair shares below another pool that also
	// does. Its setting is ignored (F.5.6).
	AlertNestedPromise AlertCode = 29001
	// AlertNoDonor names a pool with priority but without a donor above it. Its priority is ignored
	// (F.5.4).
	AlertNoDonor AlertCode = 29002
)

// Alert is a problem that an update found and worked around.
type Alert struct {
	Code AlertCode
	// Pool is the pool to change. It is the root if guarantees of several pools do not fit together.
	Pool string
}

// Named is like String, but for AlertOvercommit it lists the pools that the guarantees belong to.
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
		return fmt.Sprintf("pool %q: compute_promised_guarantee_fair_share is ignored, because a pool above sets it too: remove one of them", a.Pool)
	default:
		return fmt.Sprintf("pool %q: enable_priority_strong_guarantee_adjustment is ignored, because no pool above is a donor: set %s on one of them",
			a.Pool, "enable_priority_strong_guarantee_adjustment_donorship")
	}
}
