package actorpb

// Phases of a HeldJob.
const (
	// PhaseWaiting: the job has no process yet.
	PhaseWaiting = "waiting"
	// PhaseRunning: the job's process runs.
	PhaseRunning = "running"
	// PhaseAborting: the job was ordered to end.
	PhaseAborting = "aborting"
	// PhaseEnded: the job has ended, but its result has not been acknowledged.
	PhaseEnded = "ended"
)

// Phases returns every phase of a HeldJob, in the order of a job's life.
func Phases() []string { return []string{PhaseWaiting, PhaseRunning, PhaseAborting, PhaseEnded} }
