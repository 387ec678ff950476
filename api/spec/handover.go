package spec

import "weir/messages/statepb"

// Options that say where instances of a service are, and how they are taken away while it goes on
// (F.14.1, J.3.3).
const (
	fieldMaxSurge     = "max_surge"
	fieldMinAvailable = "min_available"
	fieldSpread       = "spread"
)

// MaxMaxSurge bounds how many instances may run beside job_count.
const MaxMaxSurge = 1000

// handOver takes how many instances may run beside those that are to leave, and how many are
// to be left. One is replaced at a time where nothing is said and it can be found to be ready.
// What could have no effect is a fault.
func (o options) handOver(task *statepb.TaskSpec) {
	service := task.GetRestartCompletedJobs() && task.GetInterruptionSignal() != ""
	usual := int64(0)
	if service && task.GetReadiness() != nil {
		usual = 1
	}
	task.MaxSurge = int32(o.integer(fieldMaxSurge, usual, 0, MaxMaxSurge))
	task.MinAvailable = int32(o.integer(fieldMinAvailable, 0, 0, MaxJobs))
	switch {
	case task.GetMaxSurge() > 0 && !service:
		o.fault(fieldMaxSurge, "it is about jobs that are told to go and start again elsewhere: add %s: true and an %s", fieldRestartCompleted, fieldSignal)
	case task.GetMinAvailable() > 0 && task.GetInterruptionSignal() == "":
		o.fault(fieldMinAvailable, "it is about jobs that are told to go: add an %s", fieldSignal)
	}
	if jobs := o.set[fieldJobCount]; jobs != nil && jobs.isWhole && int64(task.GetMinAvailable()) > max(jobs.whole, 0) {
		o.fault(fieldMinAvailable, "%d is more than %s, %d: so many are never ready", task.GetMinAvailable(), fieldJobCount, jobs.whole)
	}
}

// spread says whether jobs go to different nodes, so that the loss of one takes few of them: those
// to which requests are sent do, unless they start together.
func (o options) spread(task *statepb.TaskSpec) bool {
	switch {
	case o.set[fieldSpread] == nil:
		return task.GetGang() == nil && (task.GetReadiness() != nil || task.GetPortCount() > 0)
	case o.truth(fieldSpread) && task.GetGang() != nil:
		o.fault(fieldSpread, "jobs with %s start together, where there is room: leave it out", fieldGang)
	}
	return o.truth(fieldSpread)
}
