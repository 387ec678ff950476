package memory

import (
	"fmt"

	"weir/scheduling/resource"
	"weir/scheduling/statistics"
)

// adviceJobs is how many jobs must complete before advice is given.
const adviceJobs = 10

// Advice compares what the jobs of a task asked for, got and needed, in bytes.
type Advice struct {
	Limit, Reserve int64
	// Jobs is the number of completed jobs. The fields below are about these jobs.
	Jobs          int64
	P50, P95, Max int64
	// Reserved, Used and Wasted are in bytes x seconds. Reserved is the reserve of the jobs'
	// processes times the run time. Used is their peak usage times the run time. Wasted is the
	// difference.
	Reserved, Used, Wasted int64
	// SetLimit is a proposed memory_limit, a quarter above what was needed. It is 0 if the current
	// limit is fine, or if too little is known.
	SetLimit int64
	// Text says what to change. It is empty if nothing is to be changed.
	Text string
}

// Advise returns advice for a task. The parameter reserve is what its next job would get for its
// processes. The parameter state is the state, in stats, of jobs that completed.
func Advise(t Task, reserve Reserve, stats statistics.Set, state string) Advice {
	used := stats.Of(statistics.UserMaxMemory, state)
	held, needed := stats.Of(statistics.UserCumulativeReserve, state), stats.Of(statistics.UserCumulativeMaxMemory, state)
	a := Advice{
		Limit: t.Limit, Reserve: reserve.User, Jobs: used.Count,
		P50: used.Quantile(.5), P95: used.Quantile(Quantile), Max: used.Max,
		Reserved: held.Sum, Used: needed.Sum, Wasted: max(held.Sum-needed.Sum, 0),
	}
	if a.Jobs < adviceJobs || a.Max <= 0 {
		return a
	}
	most := resource.FormatRoughly(a.Max)
	if t.Tmpfs > 0 {
		most += " beside tmpfs of " + resource.FormatRoughly(t.Tmpfs) + ","
	}
	enough := resource.RoundUp(a.Max + a.Max/4 + t.Tmpfs)
	switch {
	case enough < t.Limit-t.Limit/4:
		a.SetLimit = enough
		a.Text = fmt.Sprintf("no job used more than %s of its memory_limit of %s: set memory_limit to %s, a quarter more than was used",
			most, resource.FormatRoughly(t.Limit), resource.FormatRoughly(enough))
	case a.Max+t.Tmpfs > t.Limit-t.Limit/20:
		a.SetLimit = enough
		a.Text = fmt.Sprintf("a job used %s of its memory_limit of %s and nearly failed: set memory_limit to %s",
			most, resource.FormatRoughly(t.Limit), resource.FormatRoughly(enough))
	}
	// The size of tmpfs is reserved whatever the setting.
	if lower := t.Options.UserLower; a.Text == "" && float64(a.P95+t.Tmpfs)/float64(t.Limit) < lower/2 {
		a.Text = fmt.Sprintf("95 of 100 jobs used at most %s, but at least %s are reserved: lower user_job_memory_digest_lower_bound (or memory_reserve_factor) of %v",
			resource.FormatRoughly(a.P95), resource.FormatRoughly(int64(lower*float64(t.Limit))), lower)
	}
	return a
}
