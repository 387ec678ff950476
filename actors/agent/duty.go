package agent

// Phase is where a job stands on its node.
type Phase uint8

// The phases, in their order.
const (
	// Waiting: the job's spec is not known yet.
	Waiting Phase = iota
	// Starting: the spec is known, its processes are being started.
	Starting
	// Running: it has processes.
	Running
	// Ended: it has none any more, or never had; its result is to be told.
	Ended
	// Acknowledged: nobody waits for its result.
	Acknowledged
)

// Duty is what the actor of a job has to do next.
type Duty uint8

// The duties. Each is reported back before the next is due.
const (
	// Rest: nothing, but wait.
	Rest Duty = iota
	// AskSpec: ask the controller what the job runs.
	AskSpec
	// FetchFiles: have the files there that the job finds in its workspace.
	FetchFiles
	// NoteStart: put into the journal that its processes are about to be started.
	NoteStart
	// StartRun: start its processes.
	StartRun
	// NoteStop: put into the journal that it is about to be asked to leave.
	NoteStop
	// StopRun: tell its processes to end.
	StopRun
	// ReadTail: read the end of what it wrote to stderr.
	ReadTail
	// NoteEnd: put the result into the journal.
	NoteEnd
	// Report: tell the controller the result.
	Report
	// Release: remove what the job left.
	Release
	// NoteRelease: put into the journal that nobody waits for the result.
	NoteRelease
	// Leave: the job is over.
	Leave
)
