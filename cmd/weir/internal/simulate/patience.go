package simulate

import (
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// patienceOf is how long a pool may have to wait for its guarantees: until it counts as
// starving, a node may be chosen again, a heartbeat comes, and the slowest preempted job has
// left. A job larger than half of every node gets room from others only when the pool is
// aggressively starving.
func (f *File) patienceOf(name scheduling.PoolName, job resource.Amounts) time.Duration {
	s := f.effective(name).Starvation
	timeout := s.FairShareTimeout
	if s.EnableAggressive && f.fillsNodes(job) {
		timeout = max(timeout, s.AggressiveTimeout)
	}
	return timeout + f.Pools.Settings().Backoff + f.longestNotice() + f.Pace.Update + idleRounds*f.Heartbeat
}

// fillsNodes reports whether no node has room for two such jobs.
func (f *File) fillsNodes(job resource.Amounts) bool {
	return !slices.ContainsFunc(f.Nodes, func(g whatif.Node) bool { return job.Times(2).Fits(g.Resources) })
}

// longestNotice is how long a job may keep resources that others preempt: its minimum run time,
// and the time it is given to leave.
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

// effective are the effective settings of a pool of the file. The pool exists: reading has
// checked that.
func (f *File) effective(name scheduling.PoolName) pooltree.Effective {
	e, _ := f.Pools.Effective(name)
	return e
}
