package simulate

import (
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// hasRoom reports whether, if all preemptible jobs left, some node would have room for one more job
// of the pool's largest size. The pool's own jobs stay, and so do those that other pools hold
// within their guarantees.
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

// mayLose reports whether the pool `from` may lose a job with the resources `holds` to the pool
// `gains`, given the earlier losses in `gone`. `from`, and each pool above it that is not above
// `gains`, must keep what its guarantees give it, in whole jobs. If it may, mayLose adds the job
// to `gone`.
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

// below reports whether `a` is the pool `above`, or a descendant of it.
func (a *account) below(above *account) bool {
	for ; a != nil; a = a.parent {
		if a == above {
			return true
		}
	}
	return false
}
