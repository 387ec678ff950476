package simulate

import (
	"time"
)

// Failure is something that breaks at a time.
type Failure struct {
	At time.Duration
	// Nodes is how many nodes are lost, and BackAfter when they come back, 0 for never.
	Nodes     int64
	BackAfter time.Duration
	// Leader says that the leader is lost, and another one is there after Gap.
	Leader bool
	Gap    time.Duration
}

func (f *File) readFailures(top *fields) {
	all := int64(0)
	for _, group := range f.Nodes {
		all += group.Count
	}
	for i, item := range top.items("failures") {
		at := place{"failures"}.item(i)
		r, ok := top.object(at, item)
		if !ok {
			continue
		}
		failure := Failure{
			At: r.duration("at", 0), Nodes: r.count("nodes", 0), BackAfter: r.duration("back_after", 0),
			Leader: r.truth("leader"), Gap: r.duration("gap", time.Second),
		}
		r.end()
		if (failure.Nodes > 0) == failure.Leader {
			top.fault(at, "either a number of nodes is needed, or leader: true")
		}
		if failure.Nodes > all {
			top.fault(at.to("nodes"), "%d nodes are to fail, and there are %d", failure.Nodes, all)
		}
		f.Failures = append(f.Failures, failure)
	}
}
