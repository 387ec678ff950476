package simulate

import (
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// patienceOf is how long a pool may wait for what is its own: until it starves, a node may be
// chosen again and is looked at, and the job that takes its time the longest has left. Room for
// a job that is larger than half of each node is made among those of others once the pool starves
// aggressively.
func (f *File) patienceOf(name scheduling.PoolName, job resource.Amounts) time.Duration {
	s := f.effective(name).Starvation
	timeout := s.FairShareTimeout
	if s.EnableAggressive && f.fillsNodes(job) {
		timeout = max(timeout, s.AggressiveTimeout)
	}
	return timeout + f.Pools.Settings().Backoff + f.longestNotice() + f.Pace.Update + idleRounds*f.Heartbeat
}

// fillsNodes reports whether no two jobs that need so much fit a node.
func (f *File) fillsNodes(job resource.Amounts) bool {
	return !slices.ContainsFunc(f.Nodes, func(g whatif.Node) bool { return job.Times(2).Fits(g.Resources) })
}

// longestNotice is how long a job may hold what others preempt it for: as long as it must have
// run before, and until it has left.
func (f *File) longestNotice() time.Duration {
	longest := time.Duration(0)
	of := func(s *Shape) {
		op := s.settings().Effective(f.effective(*s.Pool))
		notice := op.Starvation.MinRunTime
		switch {
		case s.Interruption != nil && op.Graceful:
			notice += op.Starvation.GracefulTimeout
		case s.Interruption != nil:
			notice += op.Starvation.PreemptionTimeout
		}
		longest = max(longest, notice)
	}
	for _, w := range f.Workloads {
		of(&w.Shape)
	}
	for _, s := range f.Trace {
		of(&s.Shape)
	}
	return longest
}

// effective are the settings of a pool that the file has: reading it has checked that.
func (f *File) effective(name scheduling.PoolName) pooltree.Effective {
	e, _ := f.Pools.Effective(name)
	return e
}
