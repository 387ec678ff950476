package simulate

import (
	"math"
	"time"

	"weir/messages/apipb"
)

// RunTimes are what is known of the run times of the jobs of a task that completed. Quantiles are 0 if they are
// forgotten.
type RunTimes struct {
	Jobs                     int64
	Mean, P50, P95, Greatest time.Duration
}

// distribution returns the run times as a file has them: those that fit the median and the 95th percentile, else the
// mean. None is longer than the longest one.
func (r RunTimes) distribution() any {
	most := max(r.Greatest, shortest).String()
	switch {
	case r.P50 > 0 && r.P95 <= r.P50:
		return r.P50.String()
	case r.P50 > 0:
		// The 95th percentile of a normal distribution is 1.645 deviations above its median.
		sigma := min(math.Log(float64(r.P95)/float64(r.P50))/1.645, mostSigma)
		return map[string]any{"lognormal": map[string]any{"median": r.P50.String(), "sigma": math.Round(sigma*1000) / 1000}, "most": most}
	}
	return map[string]any{"exponential": max(r.Mean, shortest).String(), "most": most}
}

// mostSigma bounds the width of distributions.
const mostSigma = 5

// runTime returns the distribution of the run times of a task's jobs, and whether jobs of it have shown it by
// completing. If not, it is exponential. Its mean is that of the jobs that failed or were aborted, if the operation has
// ended; else that of other operations, but at least the time for which the operation has had jobs that run.
func (l *Live) runTime(op *apipb.Operation, task *apipb.TaskProgress, others means) (distribution any, known bool) {
	if r := l.RunTimes[op.GetId()][task.GetName()]; r.Jobs > 0 {
		return r.distribution(), true
	}
	mean := others.of(op)
	switch tried := task.GetFailed() + task.GetAborted(); {
	case op.GetFinishTime() != nil && tried > 0:
		mean = toDuration(task.GetRunSeconds() / float64(tried))
	case task.GetRunning() > 0:
		mean = max(mean, l.Now.Sub(op.GetStartTime().AsTime()))
	}
	return map[string]any{"exponential": max(mean, time.Second).Round(time.Millisecond).String()}, false
}

// means are the mean run times of the jobs of all operations: by user and title, by user, and of all.
type means map[[2]string]*mean

type mean struct{ seconds, jobs float64 }

func (l *Live) means() means {
	m := means{}
	for _, op := range l.Operations {
		for _, task := range op.GetTasks() {
			r := l.RunTimes[op.GetId()][task.GetName()]
			for _, kind := range kinds(op) {
				if m[kind] == nil {
					m[kind] = new(mean)
				}
				m[kind].seconds += r.Mean.Seconds() * float64(r.Jobs)
				m[kind].jobs += float64(r.Jobs)
			}
		}
	}
	return m
}

// kinds are what an operation has in common with others, the most alike first.
func kinds(op *apipb.Operation) [3][2]string {
	return [3][2]string{{op.GetUser(), "title " + op.GetTitle()}, {op.GetUser(), ""}, {}}
}

// of returns the mean of the operations most alike of which jobs have completed; 0 if there are none.
func (m means) of(op *apipb.Operation) time.Duration {
	for _, kind := range kinds(op) {
		if known := m[kind]; known != nil && known.jobs > 0 {
			return toDuration(known.seconds / known.jobs)
		}
	}
	return 0
}
