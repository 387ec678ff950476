package explain

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// Contest describes the operations that compete for the resources that ending jobs release.
type Contest struct {
	Total      resource.Amounts
	Pools      []Arena
	Contenders []Contender
}

// Arena is a pool in which operations compete.
type Arena struct {
	// Above is the index of the pool above. It is -1 if there is none.
	Above   int
	FIFO    bool
	Fair    resource.Vector
	Usage   resource.Amounts
	Limits  resource.Amounts
	Lengths Lengths
	// Weight is relative to siblings. Guarantee is the share that the pool gets before others get any by
	// weight.
	Weight    float64
	Guarantee resource.Vector
	Debt      Debt
	Past      Past
}

// Contender is an operation that runs jobs, or has some to start.
type Contender struct {
	ID   scheduling.OperationID
	Pool int
	// Place is its place in the order of scheduling. Rank is its place in a FIFO pool.
	Place int
	Rank  int64
	// Jobs is the number of jobs to start, and Needs is what each needs. Running is the number of
	// running jobs, and Holds is what each holds. Needs and Holds are means.
	Jobs, Running int64
	Needs, Holds  resource.Amounts
	// First are the start times of the oldest running jobs. Newest is the start time of the newest.
	First         []time.Time
	Newest        time.Time
	Fair          resource.Vector
	Usage, Limits resource.Amounts
	Lengths       Lengths
	// Alike are how long jobs ran of the last operations of the same kind.
	Alike  []Lengths
	Weight float64
	Debt   Debt
	// Gang says that the operation is a gang, which has its turn outside the order.
	Gang bool
}

// Debt is what an element has lacked of its fair share, over time: it decides whose fair share is
// rounded up to whole jobs next.
type Debt struct {
	// Counts says that the element has its turn by its debt.
	Counts bool
	// Lack is for how long it has lacked a job, in seconds: less than 0 if it had too much. Job is what
	// its job needs, as a share.
	Lack, Job float64
	// Period is the change of the lack, in seconds, that takes the part of a job that counts as used from
	// 1 to 0. Horizon bounds the lack.
	Period, Horizon float64
}

// enough reports whether enough jobs have ended to say how long jobs run.
func (l *Lengths) enough() bool { return l.ended >= 3 }

// lengthsOf returns how long jobs of a contender run. It takes the contender's own jobs if enough of
// them have ended, and otherwise those of the nearest pool above in which enough have ended.
func (c *Contest) lengthsOf(n *Contender) (l *Lengths, own, known bool) {
	if n.Lengths.enough() {
		return &n.Lengths, true, true
	}
	if len(n.Alike) > 0 {
		return &n.Alike[len(n.Alike)-1], false, true
	}
	for at := n.Pool; at >= 0; at = c.Pools[at].Above {
		if l := &c.Pools[at].Lengths; l.enough() {
			return l, false, true
		}
	}
	return nil, false, false
}
