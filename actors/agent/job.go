package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// Job is the life of one job on its node: what has happened, and what is due.
type Job struct {
	start    *actorpb.StartJob
	received time.Time
	phase    Phase
	underway Duty
	course   course
	spec     *actorpb.JobSpec
	// gpus are the node's that the job has.
	gpus []int
	// fetched: its files are there; fetching is how long that took.
	fetched  bool
	fetching time.Duration
	// order is to end the job; eviction another one, which came while it had time, to end
	// it at once for a lack of memory. asked: it is to leave by itself, which the journal knows
	// when orderNoted is set; saved: it has said that it may be ended. told: its
	// processes have been told of the telling with that number.
	order      *Order
	eviction   *Order
	asked      bool
	orderNoted bool
	saved      bool
	telling    int
	told       bool
	// ran: there is something to release. pending: its processes are still being started,
	// which was given up; late: that has happened, and they have to go.
	ran, pending, late bool
	// noted are the duties that have put something into the journal.
	noted map[Duty]bool
	began time.Time
	pid   int
	// memory is what its processes and its proxy hold, proxyMemory what the proxy does.
	memory, proxyMemory int64
	cpu                 int64
	finished            *statepb.FinishedJob
	tail                []byte
	tailRead            bool
	// said is what it told an earlier process of the agent of itself.
	said string
}

// NewJob returns a job whose order to start came at now.
func NewJob(now time.Time, start *actorpb.StartJob) *Job {
	return remembering(&Job{start: start, received: now, course: course{stage: StageSpec, since: now}, noted: map[Duty]bool{}})
}

// NewLostJob returns a job that must not run: the node had it and has forgotten
// it, and the leader still counts it. The journal has its end already.
func NewLostJob(now time.Time, start *actorpb.StartJob) *Job {
	j := NewJob(now, start)
	j.noted[NoteEnd], j.noted[NoteRelease] = true, true
	j.end(unstarted(start, now, lifecycle.AbortDisappearedFromNode, goneReason))
	return j.unmeasured()
}

// NewDeclinedJob returns a job that the node has no room for, or no journal that answers, so
// that it is to run elsewhere. What the journal is to say of that it has been given already.
func NewDeclinedJob(now time.Time, start *actorpb.StartJob, why string) *Job {
	j := NewJob(now, start)
	j.noted[NoteEnd] = true
	j.end(unstarted(start, now, lifecycle.AbortJobProxyFailed, why))
	return j.unmeasured()
}

// RecoverJob returns a job of an earlier process of the agent, as far as the journal
// knows it. has: its processes were found again, or what they left.
func RecoverJob(now time.Time, kept *journal.Job, has bool) *Job {
	j := NewJob(now, kept.Grant)
	j.spec, j.ran = kept.Starting.GetSpec(), has
	j.pid, j.said = int(kept.Started.GetPid()), kept.Said.GetWord()
	if kept.Started != nil {
		j.began = kept.Started.GetStartTime().AsTime()
	}
	for _, number := range kept.Starting.GetGpus() {
		j.gpus = append(j.gpus, int(number))
	}
	j.fetched, j.fetching = kept.Starting != nil, time.Duration(kept.Starting.GetFetchMillis())*time.Millisecond
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
		j.end(unstarted(kept.Grant, now, lifecycle.AbortDisappearedFromNode, "no trace of the job found after the agent restarted"))
	}
	return j.unmeasured()
}

// Equip gives the job GPUs of its node, or says why it cannot have them: then it is to run
// elsewhere.
func (j *Job) Equip(now time.Time, gpus []int, err error) {
	j.gpus = gpus
	if err != nil {
		j.end(unstarted(j.start, now, lifecycle.AbortJobProxyFailed, err.Error()))
	}
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
		switch {
		case len(j.spec.GetFiles()) > 0 && !j.fetched:
			return FetchFiles
		case !j.noted[NoteStart]:
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
		case j.pending || j.late:
			return Rest
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
		j.NoSpec(now, fmt.Sprintf("controller responded: %s", describe(reply)))
	case spec.GetJobId() != j.start.GetJobId():
		j.NoSpec(now, fmt.Sprintf("controller responded for job %q", spec.GetJobId()))
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

// Fetched says how the fetching of the job's files went, and how long it took.
func (j *Job) Fetched(now time.Time, took time.Duration, err error) {
	if j.phase != Starting || j.underway != FetchFiles {
		return
	}
	if err != nil {
		j.cannotStart(now, err)
		return
	}
	j.fetched, j.fetching, j.underway = true, took, Rest
}

// Started says how StartRun went.
func (j *Job) Started(now time.Time, err error) {
	j.underway = Rest
	if err != nil {
		j.cannotStart(now, err)
		return
	}
	j.phase, j.ran = Running, true
}

// cannotStart ends the job. An error of the system is the node's fault, so that the job
// may run elsewhere; any other is the job's.
func (j *Job) cannotStart(now time.Time, err error) {
	var system unix.Errno
	switch {
	case errors.Is(err, filecache.ErrSource):
		// Whatever the system said of the file.
		j.end(unstartable(j.start, now, err.Error()))
	case errors.Is(err, runner.ErrClosed), errors.Is(err, ErrNoLease), errors.Is(err, context.Canceled):
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
		j.course.reach(StageGroups, e.Time)
		j.pid, j.began = e.Pid, e.Time
	case runner.Sample:
		j.memory, j.proxyMemory, j.cpu = e.Memory+e.ProxyMemory, e.ProxyMemory, e.Statistics.CPUUserMicros+e.Statistics.CPUSystemMicros
	case runner.Exited:
		if j.finished != nil {
			// An earlier process of the agent saw it too, or it was not waited for.
			j.late = false
			return
		}
		j.course.reach(StageEnd, e.Result.EndTime)
		prepare := preparation{files: j.fetching}
		if !j.began.IsZero() {
			prepare.total = max(0, j.began.Sub(j.received))
		}
		finished := ended(j.start, j.spec, e.Result, prepare)
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

// Use returns what the job uses of its node's memory.
func (j *Job) Use() MemoryUse {
	use := MemoryUse{Job: j.start.GetJobId(), Used: j.memory, Reserve: j.start.GetResources().GetMemory(), Start: j.began}
	if use.Start.IsZero() {
		use.Start = j.received
	}
	if j.phase >= Ended {
		use.Used, use.Reserve = 0, 0
	}
	if j.order != nil {
		use.Deadline = j.order.Deadline
	}
	return use
}

// Held returns what heartbeats say about the job.
func (j *Job) Held() *actorpb.HeldJob {
	held := &actorpb.HeldJob{
		JobId: j.start.GetJobId(), OperationId: j.start.GetOperationId(), Phase: j.word(),
		Memory: j.memory, ProxyMemory: j.proxyMemory, CpuMicros: j.cpu, Pid: int64(j.pid),
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
