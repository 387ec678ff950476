package actorpb

// Phases of a HeldJob.
const (
	// PhaseWaiting: the job has no process yet.
	PhaseWaiting = "waiting"
	// PhaseRunning: its process runs.
	PhaseRunning = "running"
	// PhaseAborting: it was told to end.
	PhaseAborting = "aborting"
	// PhaseEnded: it has ended, and its result is not acknowledged.
	PhaseEnded = "ended"
)

// Phases returns every phase of a HeldJob, in the order of a job's life.
func Phases() []string { return []string{PhaseWaiting, PhaseRunning, PhaseAborting, PhaseEnded} }
