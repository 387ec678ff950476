package simulate

import (
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// hasRoom reports whether one more of the largest jobs of a pool has room on some node beside
// what it has there, if all leave that others do not hold by guarantees of their own: those
// are never touched.
func (w *world) hasRoom(a *account) bool {
	for _, id := range w.online {
		node, known := w.state.Node(scheduling.NodeID(id))
		if !known || w.dead[id] || node.GetState() != statepb.NodeOnline {
			continue
		}
		left, gone := node.GetResources().Amounts(), map[*account]float64{}
		for _, job := range w.state.AllocationsOfNode(scheduling.NodeID(id)) {
			if holds := job.GetResources().Amounts(); !w.meter.mayLose(w.operations[job.GetOperationId()].pool, a, holds, gone) {
				left = left.Sub(holds)
			}
		}
		if a.outcome.job.Fits(left) {
			return true
		}
	}
	return false
}

// mayLose reports whether a pool other than the one that gains may lose a job that holds so
// much, after those that are gone, and keeps what guarantees give it, and those above it, in
// whole jobs; and counts it as gone then.
func (m *meter) mayLose(from, gains *account, holds resource.Amounts, gone map[*account]float64) bool {
	if from.below(gains) {
		return false
	}
	job := resource.MaxRatio(holds, m.present)
	for p := from; !gains.below(p); p = p.parent {
		if left := resource.MaxRatio(p.usage, m.present) - gone[p] - job; left < wholeJobs(p.promised, job)-resource.LargeEpsilon {
			return false
		}
	}
	for p := from; !gains.below(p); p = p.parent {
		gone[p] += job
	}
	return true
}

// below reports whether a is above, or is somewhere below it.
func (a *account) below(above *account) bool {
	for ; a != nil; a = a.parent {
		if a == above {
			return true
		}
	}
	return false
}
