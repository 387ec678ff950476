package agent

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

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

// Job is the life of one job on its node: what has happened, and what is due.
type Job struct {
	start    *actorpb.StartJob
	received time.Time
	phase    Phase
	underway Duty
	spec     *actorpb.JobSpec
	// order is to end the job. asked: it is to leave by itself, which the journal knows
	// when orderNoted is set; saved: it has said that it may be ended. told: its
	// processes have been told of the telling with that number.
	order      *Order
	asked      bool
	orderNoted bool
	saved      bool
	telling    int
	told       bool
	// ran: there is something to release.
	ran bool
	// noted are the duties that have put something into the journal.
	noted    map[Duty]bool
	began    time.Time
	pid      int
	memory   int64
	cpu      int64
	finished *statepb.FinishedJob
	tail     []byte
	tailRead bool
}

// NewJob returns a job whose order to start came at now.
func NewJob(now time.Time, start *actorpb.StartJob) *Job {
	return remembering(&Job{start: start, received: now, noted: map[Duty]bool{}})
}

// NewLostJob returns a job that must not run: the node had it and has forgotten
// it, and the leader still counts it. The journal has its end already.
func NewLostJob(now time.Time, start *actorpb.StartJob) *Job {
	j := NewJob(now, start)
	j.noted[NoteEnd], j.noted[NoteRelease] = true, true
	j.end(unstarted(start, now, lifecycle.AbortDisappearedFromNode, goneReason))
	return j
}

// NewDeclinedJob returns a job that the node has no room for, so that it is to run
// elsewhere. The journal says so already.
func NewDeclinedJob(now time.Time, start *actorpb.StartJob, why string) *Job {
	j := NewJob(now, start)
	j.noted[NoteEnd] = true
	j.end(unstarted(start, now, lifecycle.AbortJobProxyFailed, why))
	return j
}

// RecoverJob returns a job of an earlier process of the agent, as far as the journal
// knows it. has: its processes were found again, or what they left.
func RecoverJob(now time.Time, kept *journal.Job, has bool) *Job {
	j := NewJob(now, kept.Grant)
	j.spec, j.ran = kept.Starting.GetSpec(), has
	j.pid = int(kept.Started.GetPid())
	if kept.Started != nil {
		j.began = kept.Started.GetStartTime().AsTime()
	}
	j.noted[NoteStart] = kept.Starting != nil
	switch {
	case kept.Exited != nil:
		j.noted[NoteEnd] = true
		j.tail, j.tailRead = kept.Exited.GetStderrTail(), true
		j.end(kept.Exited.GetJob())
	case has:
		j.phase = Running
		if j.order = keptOrder(kept.Stopping); j.order != nil {
			j.asked, j.orderNoted = true, true
		}
	default:
		j.end(unstarted(kept.Grant, now, lifecycle.AbortDisappearedFromNode, "nothing was left of the job when the agent was started again"))
	}
	return j
}

// Next returns what is to be done now. Rest while something is underway.
func (j *Job) Next() Duty {
	if j.underway == Rest {
		j.underway = j.due()
		return j.underway
	}
	return Rest
}

func (j *Job) due() Duty {
	switch j.phase {
	case Waiting:
		return AskSpec
	case Starting:
		if !j.noted[NoteStart] {
			return NoteStart
		}
		return StartRun
	case Running:
		switch {
		case j.order == nil || j.told:
			return Rest
		case j.asked && !j.orderNoted:
			return NoteStop
		}
		return StopRun
	case Ended:
		if !j.tailRead && j.ran && j.finished.GetState() == lifecycle.JobFailed.String() {
			return ReadTail
		}
		if !j.noted[NoteEnd] {
			return NoteEnd
		}
		return Report
	case Acknowledged:
		switch {
		case j.ran:
			return Release
		case !j.noted[NoteRelease]:
			return NoteRelease
		}
		return Leave
	default:
		return Rest
	}
}

// Retry says that a duty has to be done again.
func (j *Job) Retry(duty Duty) {
	if j.underway == duty {
		j.underway = Rest
	}
}

// Noted says that the journal has what a duty was to put there.
func (j *Job) Noted(duty Duty) {
	if duty == NoteStop {
		j.orderNoted = j.orderNoted || j.underway == NoteStop
	} else {
		j.noted[duty] = true
	}
	j.Retry(duty)
}

// Underway reports whether a duty is being done.
func (j *Job) Underway(duty Duty) bool { return j.underway == duty }

// Answered takes the controller's answer to AskSpec.
func (j *Job) Answered(now time.Time, reply proto.Message) {
	if j.underway != AskSpec {
		return
	}
	spec, ok := reply.(*actorpb.JobSpec)
	switch {
	case !ok:
		j.NoSpec(now, fmt.Sprintf("the controller says: %s", describe(reply)))
	case spec.GetJobId() != j.start.GetJobId():
		j.NoSpec(now, fmt.Sprintf("the controller answered with job %q", spec.GetJobId()))
	default:
		remember(spec)
		j.spec = spec
		j.phase, j.underway = Starting, Rest
	}
}

func describe(reply proto.Message) string {
	if refused, ok := reply.(*actorpb.Refused); ok {
		return refused.GetCode() + ": " + refused.GetReason()
	}
	return fmt.Sprintf("%T", reply)
}

// NoSpec says that the job's spec cannot be had.
func (j *Job) NoSpec(now time.Time, why string) {
	if j.phase == Waiting {
		j.end(unstarted(j.start, now, lifecycle.AbortGetSpecFailed, why))
	}
}

// Spec returns what to start, under a lease that has so long to run, on a machine that
// others reach as host.
func (j *Job) Spec(lease time.Duration, maxPids int, host string) runner.JobSpec {
	return runner.JobSpec{
		ID:          j.start.GetJobId(),
		Argv:        j.spec.GetArgv(),
		Shell:       j.spec.GetShell(),
		Environment: withPorts(j.spec.GetEnvironment(), host, j.start.GetPorts()),
		CPULimit:    float64(j.spec.GetCpuLimitHundredths()) / 100,
		MemoryLimit: j.spec.GetMemoryLimit(),
		PidsLimit:   maxPids,
		TimeLimit:   j.timeLimit(),
		Lease:       lease,
	}
}

func (j *Job) timeLimit() time.Duration {
	return time.Duration(j.spec.GetJobTimeLimitMillis()) * time.Millisecond
}

// Started says how StartRun went. An error of the system is the node's fault, so
// that the job may run elsewhere; any other is the job's.
func (j *Job) Started(now time.Time, err error) {
	var system unix.Errno
	j.underway = Rest
	switch {
	case err == nil:
		j.phase, j.ran = Running, true
	case errors.Is(err, runner.ErrClosed), errors.Is(err, ErrNoLease):
		j.end(unstarted(j.start, now, lifecycle.AbortNodeOffline, err.Error()))
	case errors.Is(err, runner.ErrJobExists), errors.As(err, &system):
		j.end(unstarted(j.start, now, lifecycle.AbortJobProxyFailed, err.Error()))
	default:
		j.end(unstartable(j.start, now, err.Error()))
	}
}

// Saw takes what the job's proxy tells.
func (j *Job) Saw(event runner.Event) {
	switch e := event.(type) {
	case runner.Started:
		j.pid, j.began = e.Pid, e.Time
	case runner.Sample:
		j.memory, j.cpu = e.Memory, e.Statistics.CPUUserMicros+e.Statistics.CPUSystemMicros
	case runner.Exited:
		if j.finished != nil {
			// An earlier process of the agent saw it too.
			return
		}
		prepare := time.Duration(0)
		if !j.began.IsZero() {
			prepare = max(0, j.began.Sub(j.received))
		}
		finished := ended(j.start, e.Result, j.timeLimit(), prepare)
		j.judge(finished, e.Result)
		j.end(finished)
	}
}

// end keeps a result.
func (j *Job) end(finished *statepb.FinishedJob) {
	j.finished = finished
	j.phase, j.underway = Ended, Rest
}

// Tail takes the end of stderr.
func (j *Job) Tail(tail []byte) {
	j.tail, j.tailRead = tail, true
	j.Retry(ReadTail)
}

// Acknowledge says that nobody waits for the result any more, or wants the job
// at all.
func (j *Job) Acknowledge() {
	j.phase, j.underway = Acknowledged, Rest
}

// Released says that nothing of the job is left on the node's disk.
func (j *Job) Released() {
	j.ran = false
	j.Retry(Release)
}

// Result is the job's end; nil before it.
func (j *Job) Result() *statepb.FinishedJob { return j.finished }

// NodeFault reports whether the job ended because its node could not run it.
func (j *Job) NodeFault() bool {
	return j.finished.GetAbortReason() == lifecycle.AbortJobProxyFailed.String()
}

// Phase returns where the job stands.
func (j *Job) Phase() Phase { return j.phase }

// Held returns what heartbeats say about the job.
func (j *Job) Held() *actorpb.HeldJob {
	held := &actorpb.HeldJob{
		JobId: j.start.GetJobId(), OperationId: j.start.GetOperationId(), Phase: j.word(),
		Memory: j.memory, CpuMicros: j.cpu, Pid: int64(j.pid),
	}
	if !j.began.IsZero() {
		held.StartTime = timestamppb.New(j.began)
	}
	switch {
	case j.phase >= Ended:
		held.Memory = 0
	case j.order != nil:
		held.Deadline = timestamppb.New(j.order.Deadline)
	}
	return held
}

func (j *Job) word() string {
	switch {
	case j.phase >= Ended:
		return actorpb.PhaseEnded
	case j.order != nil:
		return actorpb.PhaseAborting
	case j.phase == Running:
		return actorpb.PhaseRunning
	default:
		return actorpb.PhaseWaiting
	}
}
