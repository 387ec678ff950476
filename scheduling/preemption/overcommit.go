package preemption

import (
	"cmp"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// Allocation is what a running job holds of its node.
type Allocation struct {
	// Level is how easily it is preempted; NonPreemptible where that is not known.
	Level     Level
	Job       scheduling.JobID
	Started   time.Time
	Resources resource.Amounts
}

// Overcommit returns the jobs that have to leave a node so that the rest fits
// into limits. The least preemptible, and of these the longest running, are kept
// greedily: one that does not fit goes and others that still fit stay. Jobs that
// started at the same time are taken in the order of their ids. Victims come in the
// reverse of this order.
//
// allocations is sorted in place.
func Overcommit(limits resource.Amounts, allocations []Allocation) []scheduling.JobID {
	slices.SortFunc(allocations, func(a, b Allocation) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), a.Started.Compare(b.Started), cmp.Compare(a.Job, b.Job))
	})
	var victims []scheduling.JobID
	free := limits
	for _, a := range allocations {
		if a.Resources.Fits(free) {
			free = free.Sub(a.Resources)
			continue
		}
		victims = append(victims, a.Job)
	}
	slices.Reverse(victims)
	return victims
}
