package statepb

// The causes of an interruption in a StopOrder.
const (
	// InterruptedByPreemption: the job is preempted for others.
	InterruptedByPreemption = "preemption"
	// InterruptedByUser: a user asked this job to leave.
	InterruptedByUser = "user_request"
	// InterruptedByDrain: its node is being drained.
	InterruptedByDrain = "node_drain"
	// InterruptedByAbort: its operation is being aborted gracefully.
	InterruptedByAbort = "operation_abort"
)

// Interruptible reports whether a job of a task can be asked to leave. A job with input always can:
// its input ends. Any other job needs the task's signal (J.3).
func (x *OperationSpec) Interruptible(task *TaskSpec) bool {
	return x.GetMap() != nil || task.GetInterruptionSignal() != ""
}

// Interrupted reports whether the order asks the job to leave by itself.
func (x *StopOrder) Interrupted() bool { return x.GetInterruption() != "" }
