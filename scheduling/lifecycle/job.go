package lifecycle

// JobState is the state of a job. Values are on disk: append new ones at the end, never reorder or
// reuse one.
type JobState uint8

// The states of a job (J.4.1).
const (
	// JobNone is the state of a job that does not exist.
	JobNone JobState = iota
	// JobWaiting: its allocation is committed, but its node has not started it yet.
	JobWaiting
	// JobRunning: its process runs.
	JobRunning
	// JobAborting: its node was told to stop it.
	JobAborting
	// JobCompleted is final: the process succeeded.
	JobCompleted
	// JobFailed is final: the process exited by itself, unsuccessfully.
	JobFailed
	// JobAborted is final: the system or a user ended it. Its cookie runs again.
	JobAborted
)

var jobStateNames = []string{"none", "waiting", "running", "aborting", "completed", "failed", "aborted"}

// Terminal reports whether the job has ended.
func (s JobState) Terminal() bool { return s == JobCompleted || s == JobFailed || s == JobAborted }

// String returns the name of the state in the API, such as "running".
func (s JobState) String() string { return nameOf(jobStateNames, s) }

// ParseJobState returns the job state with this name.
func ParseJobState(name string) (JobState, error) {
	return numberOf[JobState](jobStateNames, name, "job state", jobStateNames[JobWaiting:]...)
}
