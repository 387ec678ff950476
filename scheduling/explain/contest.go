package explain

import (
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// Contest describes the operations that compete for the resources that ending jobs release.
type Contest struct {
	Total      resource.Amounts
	Pools      []Arena
	Contenders []*Contender
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

// knows reports whether it is known how long jobs of a contender run: from its own jobs, those of its kind, or those
// of a pool above.
func (c *Contest) knows(n *Contender) bool {
	return n.Lengths.enough() || len(n.Alike) > 0 || c.nearest(n.Pool) != nil
}

// lengthsIn returns how long jobs run in the nearest pool, from this one up, in which enough have ended; if there is
// none, how long those of any kind that competes do. Something must be known.
func (c *Contest) lengthsIn(pool int) *Lengths {
	if l := c.nearest(pool); l != nil {
		return l
	}
	at := slices.IndexFunc(c.Contenders, func(n *Contender) bool { return len(n.Alike) > 0 })
	if at < 0 {
		return &c.Pools[0].Lengths
	}
	return &c.Contenders[at].Alike[0]
}

// nearest is as lengthsIn, but returns nil if there is no such pool.
func (c *Contest) nearest(pool int) *Lengths {
	for at := pool; at >= 0; at = c.Pools[at].Above {
		if l := &c.Pools[at].Lengths; l.enough() {
			return l
		}
	}
	return nil
}

// runsLike returns how long jobs ran of the operations of a kind, or else of those in the nearest pool of which enough
// are known.
func (c *Contest) runsLike(pool int, alike []Lengths) []Lengths {
	for at := pool; at >= 0 && len(alike) == 0; at = c.Pools[at].Above {
		if past := &c.Pools[at].Past; len(past.Runs) >= leastRuns {
			alike = past.Runs
		}
	}
	return alike
}
