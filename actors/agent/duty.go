package agent

// Phase is where a job stands on its node.
type Phase uint8

// The phases, in their order.
const (
	// Waiting: the job's spec is not known yet.
	Waiting Phase = iota
	// Starting: the spec is known, and the job's processes are being started.
	Starting
	// Running: the job has processes.
	Running
	// Ended: the job has no processes left, or never had any. Its result is to be reported.
	Ended
	// Acknowledged: the result was acknowledged, or nobody wants it.
	Acknowledged
)

// Duty is what the actor of a job has to do next.
type Duty uint8

// The duties. The outcome of each is recorded before the next is due.
const (
	// Rest: wait.
	Rest Duty = iota
	// AskSpec: ask the controller for the job's spec.
	AskSpec
	// FetchFiles: fetch the files for the job's workspace.
	FetchFiles
	// NoteStart: put into the journal that the job's processes are about to be started.
	NoteStart
	// StartRun: start the job's processes.
	StartRun
	// NoteStop: put into the journal that the job is about to be asked to leave.
	NoteStop
	// StopRun: ask or force the job's processes to end.
	StopRun
	// ReadTail: read the end of the job's stderr.
	ReadTail
	// NoteEnd: put the result into the journal.
	NoteEnd
	// Report: send the result to the controller.
	Report
	// Release: remove the job's leftovers.
	Release
	// NoteRelease: put into the journal that nobody waits for the result.
	NoteRelease
	// Leave: the job is over.
	Leave
)
