package simulate

import (
	"cmp"
	"slices"
	"time"

	"weir/cmd/chart"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// Result is the result of a simulation.
type Result struct {
	Title string
	// Name is the name of the control run; empty for the main run.
	Name     string
	Seed     uint64
	Duration time.Duration
	Nodes    int64
	Total    resource.Amounts
	// Utilization is the part of each resource that was used, for the resources that the
	// cluster has.
	Utilization map[string]float64
	Operations  Operations
	Jobs        Jobs
	// JobWaits are the waits of the jobs that started: from when a job could have started until
	// it did. OperationWaits are the times from the submission of an operation until its first
	// job, or until the end of the run if no job started.
	JobWaits, OperationWaits Waits
	// Preempted counts jobs that were ordered to stop, by kind of preemption or reason.
	Preempted map[string]int64
	// Memory is the memory of jobs whose reserve is learned; nil if there were none.
	Memory *Memory
	// FairnessError is the part of the cluster that was used contrary to fair shares, averaged
	// over time.
	FairnessError float64
	Pools         []Pool
	Days          []Day
	// Events counts the events: operations and jobs that start and end, failures.
	Events int64
	// Control is the result of the control run; nil if there was none.
	Control *Result
	// Estimates says how good estimates of starts were; nil if none were asked for.
	Estimates *Estimates
	// Took is how long the run took in real time. It is the only value that differs between equal
	// runs.
	Took time.Duration

	series series
	marks  []chart.Mark
}

// Operations counts operations.
type Operations struct {
	Submitted, Refused, Ended, InProgress int64
	// RefusedBecause is why the first refused operation was refused.
	RefusedBecause string
}

// Jobs counts attempts. Ended counts them by state or abort reason.
type Jobs struct {
	Started, Running, Pending int64
	Ended                     map[string]int64
}

// Waits are times in seconds.
type Waits struct{ P50, P95, Max float64 }

// Pool is the demand and usage of a pool, including all pools below it.
type Pool struct {
	Name   scheduling.PoolName
	Parent scheduling.PoolName
	// DemandCPUSeconds counts demand up to what the cluster has.
	DemandCPUSeconds, UsageCPUSeconds float64
	// UsageShare is the mean share of the cluster that it used.
	UsageShare float64
	// Fulfilment is the part that was used of what guarantees promised and the pool wanted; nil
	// if nothing was promised.
	Fulfilment *float64
	// Jobs counts the starts of the pool's own jobs. The times below, too, are only those of the
	// pool's own operations.
	Jobs int64
	// OperationTimes are the times from submission to end, of the operations that have ended.
	JobWaits, OperationTimes Waits
	Integral                 *Integral
	Outcome                  Outcome
}

// Integral is what an integral guarantee gave. GrantedSeconds and VolumeSeconds are in seconds
// of the whole cluster, Most is the greatest share, and LastedSeconds is how long at least half
// of Most was given.
type Integral struct {
	GrantedSeconds, VolumeSeconds float64
	Most                          float64
	LastedSeconds                 float64
}

// Day is one day, counted from 1; the last one may be short.
type Day struct {
	Day   int
	Pools []PoolDay
}

// PoolDay is one day of a pool.
type PoolDay struct {
	Pool                              scheduling.PoolName
	DemandCPUSeconds, UsageCPUSeconds float64
}

func (r *run) result(took time.Duration) *Result {
	m, d := r.meter, r.file.Duration
	for _, op := range r.operations {
		if !op.begun {
			m.firstWaits = append(m.firstWaits, float32((r.now - op.accepted).Seconds()))
		}
	}
	out := &Result{
		Title: r.file.Title, Seed: r.file.Seed, Duration: d, Nodes: int64(len(r.online)), Total: m.total, Utilization: map[string]float64{},
		Operations: m.operations, Jobs: m.jobs, JobWaits: waitsOf(m.jobWaits), OperationWaits: waitsOf(m.firstWaits), Preempted: m.preempted,
		Memory:        m.memory.result(d),
		FairnessError: m.unfair / max(m.measured, 1e-9), Events: int64(r.events), Took: took,
		Days: m.days, series: r.series, marks: marksOf(r.file),
	}
	if r.file.Estimates {
		out.Estimates = Judge(r.estimates.all, r.file.Pace.Update)
	}
	out.Operations.InProgress = int64(len(r.operations))
	for k := range resource.Kind(resource.Count) {
		if m.total.Of(k) > 0 {
			out.Utilization[k.String()] = m.utilization(k, d)
		}
	}
	for _, a := range m.ordered[1:] {
		out.Pools = append(out.Pools, a.result(m.total, d))
	}
	slices.SortFunc(out.Pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// waitsOf returns quantiles of the times, which it sorts.
func waitsOf(seconds []float32) Waits {
	if len(seconds) == 0 {
		return Waits{}
	}
	slices.Sort(seconds)
	at := func(q float64) float64 { return float64(seconds[min(int(q*float64(len(seconds))), len(seconds)-1)]) }
	return Waits{at(0.5), at(0.95), at(1)}
}

// result returns the result of a pool.
func (a *account) result(total resource.Amounts, d time.Duration) Pool {
	p := Pool{Name: a.name, DemandCPUSeconds: a.wanted.of(resource.CPU), UsageCPUSeconds: a.used.of(resource.CPU), Jobs: int64(len(a.waits)), JobWaits: waitsOf(a.waits), OperationTimes: waitsOf(a.times)}
	p.Outcome = a.outcome.close(d, a.used, total)
	if a.parent != nil {
		p.Parent = a.parent.name
	}
	for k := range resource.Kind(resource.Count) {
		if t := float64(total.Of(k)); t > 0 {
			p.UsageShare = max(p.UsageShare, a.used[k]/t/d.Seconds())
		}
	}
	if a.owed > 0 {
		part := a.fulfilled / a.owed
		p.Fulfilment = &part
	}
	if a.integral {
		p.Integral = &Integral{GrantedSeconds: a.granted, VolumeSeconds: a.volume, Most: a.most, LastedSeconds: a.lasted().Seconds()}
	}
	return p
}

// Speed is how many times faster than real time the run was, and how many events a
// second it saw.
func (r *Result) Speed() (faster, events float64) {
	took := max(r.Took.Seconds(), 1e-9)
	return r.Duration.Seconds() / took, float64(r.Events) / took
}
