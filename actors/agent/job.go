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

// Job is the state of one job on its node, and decides what to do next.
type Job struct {
	start    *actorpb.StartJob
	received time.Time
	phase    Phase
	underway Duty
	course   course
	spec     *actorpb.JobSpec
	// gpus are the numbers of its GPUs.
	gpus []int
	// fetched: its files have been placed; fetching is how long that took.
	fetched  bool
	fetching time.Duration
	// order is the order that ends the job. eviction is a later order that ends it at once for lack
	// of memory, within the grace period of the first. asked: the job is asked to leave by itself.
	// orderNoted: the order is in the journal, or need not be. saved: the job has reported that its
	// state is saved. telling is the number of the latest instruction to its processes. told: that
	// instruction was delivered.
	order      *Order
	eviction   *Order
	asked      bool
	orderNoted bool
	saved      bool
	telling    int
	told       bool
	// ran: there is something to release. pending: the start of its processes was given up, but
	// may still succeed. late: the start did succeed, and the processes must be ended.
	ran, pending, late bool
	// noted are the duties whose record is in the journal, or is not needed.
	noted map[Duty]bool
	began time.Time
	pid   int
	// memory is what the job's processes and its proxy use together, in bytes. proxyMemory is the
	// proxy's part.
	memory, proxyMemory int64
	cpu                 int64
	finished            *statepb.FinishedJob
	tail                []byte
	tailRead            bool
	// said is the readiness that the job last reported to an earlier agent process.
	said string
}

// NewJob returns a job whose start order arrived at the time `now`.
func NewJob(now time.Time, start *actorpb.StartJob) *Job {
	return remembering(&Job{start: start, received: now, course: course{stage: StageSpec, since: now}, noted: map[Duty]bool{}})
}

// NewLostJob returns a job that must not run: the node already had it and forgot it, but the
// leader still counts it. The journal already has its end.
func NewLostJob(now time.Time, start *actorpb.StartJob) *Job {
	j := NewJob(now, start)
	j.noted[NoteEnd], j.noted[NoteRelease] = true, true
	j.end(unstarted(start, now, lifecycle.AbortDisappearedFromNode, goneReason))
	return j.unmeasured()
}

// NewDeclinedJob returns a job that is to run elsewhere, because the node has no room for it or
// its journal does not respond. Its rejection has already been passed to the journal.
func NewDeclinedJob(now time.Time, start *actorpb.StartJob, why string) *Job {
	j := NewJob(now, start)
	j.noted[NoteEnd] = true
	j.end(unstarted(start, now, lifecycle.AbortJobProxyFailed, why))
	return j.unmeasured()
}

// RecoverJob returns a job of an earlier agent process from its journal records. The parameter
// `has` is true if the job's processes, or their leftovers, were found.
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

// Equip gives the job GPUs of its node. err, if not nil, is why it cannot have them: the job ends,
// so that it runs elsewhere.
func (j *Job) Equip(now time.Time, gpus []int, err error) {
	j.gpus = gpus
	if err != nil {
		j.end(unstarted(j.start, now, lifecycle.AbortJobProxyFailed, err.Error()))
	}
}

// Next returns the next duty; Rest while one is underway.
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

// Retry makes a duty due again.
func (j *Job) Retry(duty Duty) {
	if j.underway == duty {
		j.underway = Rest
	}
}

// Noted records that the journal has the record of a duty.
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

// Answered handles the controller's answer to AskSpec.
func (j *Job) Answered(now time.Time, reply proto.Message) {
	if j.underway != AskSpec {
		return
	}
	spec, ok := reply.(*actorpb.JobSpec)
	switch {
	case !ok:
		j.NoSpec(now, fmt.Sprintf("controller responded: %s", describe(reply)))
	case spec.GetJobId() != j.start.GetJobId():
		j.NoSpec(now, fmt.Sprintf("controller sent the spec of another job, %q", spec.GetJobId()))
	case spec.GetDenied() != "":
		// It runs again elsewhere once it is allowed; until then nothing of its operation is granted.
		j.NoSpec(now, spec.GetDenied())
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

// NoSpec ends the job because its spec is unavailable.
func (j *Job) NoSpec(now time.Time, why string) {
	if j.phase == Waiting {
		j.end(unstarted(j.start, now, lifecycle.AbortGetSpecFailed, why))
	}
}

// Fetched records the outcome of fetching the job's files, and how long it took.
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

// Started records the outcome of StartRun.
func (j *Job) Started(now time.Time, err error) {
	j.underway = Rest
	if err != nil {
		j.cannotStart(now, err)
		return
	}
	j.phase, j.ran = Running, true
}

// cannotStart ends the job. An error of the system is the node's fault, so that the job may run
// elsewhere. Any other error is the job's fault.
func (j *Job) cannotStart(now time.Time, err error) {
	var system unix.Errno
	switch {
	case errors.Is(err, filecache.ErrSource):
		// This is the job's fault even if err wraps a system error: every node would fail.
		j.end(unstartable(j.start, now, err.Error()))
	case errors.Is(err, runner.ErrClosed), errors.Is(err, ErrNoLease), errors.Is(err, context.Canceled):
		j.end(unstarted(j.start, now, lifecycle.AbortNodeOffline, err.Error()))
	case errors.Is(err, runner.ErrJobExists), errors.As(err, &system):
		j.end(unstarted(j.start, now, lifecycle.AbortJobProxyFailed, err.Error()))
	default:
		j.end(unstartable(j.start, now, err.Error()))
	}
}

// Saw handles an event from the job's proxy.
func (j *Job) Saw(event runner.Event) {
	switch e := event.(type) {
	case runner.Started:
		j.course.reach(StageGroups, e.Time)
		j.pid, j.began = e.Pid, e.Time
	case runner.Sample:
		j.memory, j.proxyMemory, j.cpu = e.Memory+e.ProxyMemory, e.ProxyMemory, e.Statistics.CPUUserMicros+e.Statistics.CPUSystemMicros
	case runner.Exited:
		if j.finished != nil {
			// An earlier agent process saw the end too, or the start was given up.
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

// end sets the job's result.
func (j *Job) end(finished *statepb.FinishedJob) {
	j.finished = finished
	j.phase, j.underway = Ended, Rest
}

// Tail sets the end of stderr.
func (j *Job) Tail(tail []byte) {
	j.tail, j.tailRead = tail, true
	j.Retry(ReadTail)
}

// Acknowledge records that the result was acknowledged, or that nobody wants the job.
func (j *Job) Acknowledge() {
	j.phase, j.underway = Acknowledged, Rest
}

// Released records that nothing of the job is left on the node's disk, except its output.
func (j *Job) Released() {
	j.ran = false
	j.Retry(Release)
}

// Result returns how the job ended; nil before that.
func (j *Job) Result() *statepb.FinishedJob { return j.finished }

// NodeFault reports whether the job ended because its node could not run it.
func (j *Job) NodeFault() bool {
	return j.finished.GetAbortReason() == lifecycle.AbortJobProxyFailed.String()
}

// Phase returns the job's phase.
func (j *Job) Phase() Phase { return j.phase }

// Use returns the memory that the job uses and has reserved.
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
