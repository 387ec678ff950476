package statepb

// Why a job is interrupted, as a StopOrder says.
const (
	// InterruptedByPreemption: others are owed what the job holds.
	InterruptedByPreemption = "preemption"
	// InterruptedByUser: a user asked this job to go.
	InterruptedByUser = "user_request"
	// InterruptedByDrain: its node is to be emptied.
	InterruptedByDrain = "node_drain"
	// InterruptedByAbort: its operation is aborted gracefully.
	InterruptedByAbort = "operation_abort"
)

// Interrupted reports whether the job was asked to go by itself.
func (x *StopOrder) Interrupted() bool { return x.GetInterruption() != "" }
