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

// Interruptible reports whether a job of a task can be asked to leave: one with input by
// the end of it, always, another by the task's signal (J.3).
func (x *OperationSpec) Interruptible(task *TaskSpec) bool {
	return x.GetMap() != nil || task.GetInterruptionSignal() != ""
}

// Interrupted reports whether the job was asked to go by itself.
func (x *StopOrder) Interrupted() bool { return x.GetInterruption() != "" }
