package spec

import "weir/messages/statepb"

// Options that say how instances of a service are taken away while it goes on (J.3.3).
const (
	fieldMaxSurge     = "max_surge"
	fieldMinAvailable = "min_available"
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
