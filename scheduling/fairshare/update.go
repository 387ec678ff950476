package fairshare

import (
	"errors"
	"time"

	"weir/scheduling/resource"
)

// ErrEmptyCluster is returned when there is nothing to share.
var ErrEmptyCluster = errors.New("update fair share: the cluster has no resources")

// negligible is the part of a share that is rounding: far below
// resource.Epsilon, far above the error of a sum of doubles.
const negligible = 1e-12

// Report says what an update found.
type Report struct {
	// At is the time of the update.
	At time.Time
	// Pools and Operations count the elements, the root too.
	Pools, Operations int
	// Exhausted tells the resources that fair shares use up.
	Exhausted [resource.Count]bool
}

// Update computes the shares of every element below root, and of root, as parts
// of total. root must be a pool.
//
// It returns ErrEmptyCluster when total has no resource at all; all shares are 0
// then. Any other error names an element whose weight cannot be, and leaves
// shares that mean nothing.
func Update(root *Element, total resource.Amounts, now time.Time) (Report, error) {
	report := Report{At: now}
	if err := root.read(total, &report); err != nil {
		return report, err
	}
	if total.IsZero() {
		root.write()
		return report, ErrEmptyCluster
	}
	free := resource.Ones
	// Each round uses up a resource or satisfies all demand that is left.
	for range resource.Count + 1 {
		root.plan(&report.Exhausted, &root.scratch)
		if root.room <= negligible {
			break
		}
		root.grow(root.reach(&free, &report.Exhausted))
	}
	root.write()
	return report, nil
}

// Satisfaction says how near an element is to its fair share: below 1 it has
// less, above 1 more, and resource.MaxSatisfaction is for those that have none
// to expect (F.10).
//
// Of resources in which the fair share covers the demand the element cannot want
// more; they count only when that is so for all.
func Satisfaction(usage, fair, demand resource.Vector) float64 {
	if fair.MaxComponent() <= resource.Epsilon {
		return resource.MaxSatisfaction
	}
	var over, open float64
	above, allBlocked, least := false, true, resource.MaxSatisfaction
	for r := range fair {
		blocked := fair[r] >= demand[r]
		allBlocked = allBlocked && blocked
		if usage[r] > fair[r] {
			above = true
		}
		switch {
		case fair[r] > 0:
			part := usage[r] / fair[r]
			over = max(over, part)
			least = min(least, part)
			if !blocked {
				open = max(open, part)
			}
		case usage[r] > 0:
			over = resource.MaxSatisfaction
			least = min(least, 1)
		default:
			least = min(least, 1)
		}
	}
	switch {
	case above:
		return min(over, resource.MaxSatisfaction)
	case allBlocked:
		return least
	default:
		return open
	}
}
