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
	// Gang says that the operation is a gang, which has its turn outside the order.
	Gang bool
}

// enough reports whether enough jobs have ended to say how long jobs run.
func (l *Lengths) enough() bool { return l.ended >= 3 }

// lengthsOf returns how long jobs of a contender run. It takes the contender's own jobs if enough of
// them have ended, and otherwise those of the nearest pool above in which enough have ended.
func (c *Contest) lengthsOf(n *Contender) (l *Lengths, own, known bool) {
	if n.Lengths.enough() {
		return &n.Lengths, true, true
	}
	for at := n.Pool; at >= 0; at = c.Pools[at].Above {
		if l := &c.Pools[at].Lengths; l.enough() {
			return l, false, true
		}
	}
	return nil, false, false
}
