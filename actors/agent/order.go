package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/discoveryjson"
	"weir/messages/journalpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// Order is an order to end a job.
type Order struct {
	Reason  lifecycle.AbortReason
	Message string
	// Attributes say more about it, as those of the job's error.
	Attributes map[string]string
	// Deadline is when the job's processes are killed.
	Deadline time.Time
	// Stop is the leader's order; nil: the agent's own.
	Stop *statepb.StopOrder
}

const (
	// maxGrace is the longest that a job may be left, as for the replicated state.
	maxGrace = 365 * 24 * time.Hour
	// slack is by how much a deadline has to be earlier than another to be one that the
	// job is told of, and how long after it a job may be taken to be ending. What is left
	// of an order is another by some milliseconds each time that it is repeated.
	slack = 100 * time.Millisecond
)

// NewOrder reads an order that came at now. A reason that is not known counts as
// "other".
func NewOrder(now time.Time, m *actorpb.AbortJob) Order {
	grace := time.Duration(max(0, min(m.GetGraceMillis(), maxGrace.Milliseconds()))) * time.Millisecond
	stop := &statepb.StopOrder{
		Reason: m.GetReason(), Message: m.GetMessage(), GraceMillis: grace.Milliseconds(), Time: timestamppb.New(now),
		Interruption: m.GetInterruption(), Preemption: m.GetPreemption(), PreemptedFor: m.GetPreemptedFor(),
	}
	return orderOf(stop, now.Add(grace))
}

// keptOrder is an order of which the journal knows; nil: there is none.
func keptOrder(kept *journalpb.Stopping) *Order {
	if kept == nil {
		return nil
	}
	order := orderOf(kept.GetOrder(), kept.GetDeadline().AsTime())
	return &order
}

func orderOf(stop *statepb.StopOrder, deadline time.Time) Order {
	reason, err := lifecycle.ParseAbortReason(stop.GetReason())
	if err != nil || reason == lifecycle.NotAborted {
		reason = lifecycle.AbortOther
	}
	return Order{Reason: reason, Message: stop.GetMessage(), Deadline: deadline, Stop: stop}
}

// evicts reports whether the job leaves for a lack of memory.
func (o *Order) evicts() bool { return len(o.Attributes) > 0 }

// interrupts: the job is to be asked, and has time.
func (o *Order) interrupts() bool { return o.Stop.GetGraceMillis() > 0 }

// preempts reports whether the job leaves because others are owed what it holds.
func (o *Order) preempts() bool { return o.Stop.GetInterruption() == statepb.InterruptedByPreemption }

// late is the abort reason of a job that was asked to leave and has not.
func (o *Order) late() lifecycle.AbortReason {
	if o.preempts() {
		return o.Reason
	}
	return lifecycle.AbortInterruptionTimeout
}

// notice tells the job of the order.
func (o *Order) notice() discoveryjson.Notice {
	deadline, asked := o.Deadline.UTC(), o.Stop.GetTime().AsTime()
	return discoveryjson.Notice{
		Leaving: true, Deadline: &deadline, Reason: o.late().String(), Interruption: o.Stop.GetInterruption(),
		Preemption: o.Stop.GetPreemption(), PreemptedFor: o.Stop.GetPreemptedFor().GetOperationId(), Message: o.Message, Time: &asked,
	}
}

// ErrNotAsked is returned for the acknowledgement of a job that has not been asked to
// leave.
var ErrNotAsked = errors.New("job has not been asked to stop")

// acknowledged is the reason with which a job is stopped that has said that it may be.
const acknowledged = "acknowledged"

// Stop takes an order to end the job. The first one's words count, and the earliest
// deadline. A job that does not run yet, or cannot be asked, is ended at once.
func (j *Job) Stop(now time.Time, order Order) {
	switch {
	case j.phase >= Ended:
	case j.order == nil:
		j.takeFirst(now, order)
	case order.Deadline.Add(slack).Before(j.order.Deadline):
		j.order.Deadline = order.Deadline
		if order.evicts() {
			// That it goes now is for this, whatever it was asked for.
			j.eviction = &order
		}
		j.orderNoted = order.Stop == nil
		j.tellAgain()
	case j.order.Deadline.Add(slack).Before(now):
		// It is there still: what it was told got lost, or waits for the disk.
		j.orderNoted = true
		j.tellAgain()
	}
}

// takeFirst takes the first order to end the job.
func (j *Job) takeFirst(now time.Time, order Order) {
	// A command that has only just begun could not catch the signal yet.
	runs := j.phase == Running && !j.began.IsZero()
	j.asked = order.interrupts() && runs && j.interruptible()
	if order.interrupts() && !j.asked {
		order.Deadline = now
		if runs && !order.preempts() {
			order.Reason = lifecycle.AbortInterruptionUnsupported
		}
	}
	j.order = &order
	// The journal is for what the next process of the agent has to go on with. It must
	// not be waited for by the agent's own orders: the disk may hang.
	j.orderNoted = order.Stop == nil
	j.tellAgain()
	if j.phase < Running && j.underway != StartRun {
		finished := unstarted(j.start, now, order.Reason, order.Message)
		finished.Stop = order.Stop
		j.end(finished)
	}
}

// interruptible: the job can be asked to leave, by the end of its input or by a signal.
func (j *Job) interruptible() bool {
	return j.spec.GetFeed() != nil || unix.SignalNum(j.spec.GetInterruptionSignal()) != 0
}

// Saved takes the job's word that its state is saved: it is ended early, and has lost
// nothing.
func (j *Job) Saved() error {
	switch {
	case j.phase != Running:
		return fmt.Errorf("%w: it does not run", ErrNotAsked)
	case !j.asked || !j.orderNoted:
		return ErrNotAsked
	}
	j.saved = true
	j.tellAgain()
	return nil
}

// tellAgain has the job's processes told what is now to become of them.
func (j *Job) tellAgain() {
	j.telling++
	j.told = false
	if j.underway == StopRun || j.underway == NoteStop {
		j.underway = Rest
	}
}

// Telling is what a job's processes are told about their end.
type Telling struct {
	// Number tells one telling of a job from the next.
	Number int
	// Interruption is set when they are asked to leave. Otherwise they are stopped, for
	// Reason after Grace.
	Interruption *runner.Interruption
	Reason       string
	Grace        time.Duration
}

// Telling returns what the job's processes are to be told now.
func (j *Job) Telling(now time.Time) Telling {
	t := Telling{Number: j.telling, Reason: j.order.Reason.String(), Grace: max(0, j.order.Deadline.Sub(now))}
	switch {
	case j.saved:
		t.Reason, t.Grace = acknowledged, 0
	case j.asked && t.Grace > 0:
		t.Interruption = &runner.Interruption{
			Signal: j.spec.GetInterruptionSignal(), RootOnly: j.spec.GetSignalRootProcessOnly(),
			Reason: j.order.late().String(), Grace: t.Grace, Notice: document(j.Notice()),
		}
	}
	return t
}

// to tells a job's processes.
func (t Telling) to(run Run) error {
	if t.Interruption != nil {
		return run.Interrupt(*t.Interruption)
	}
	return run.Stop(t.Reason, t.Grace)
}

// Tells reports whether its processes are being told that.
func (j *Job) Tells(number int) bool { return j.underway == StopRun && number == j.telling }

// Told says that the job's processes have been told.
func (j *Job) Told(number int) {
	if j.Tells(number) {
		j.underway, j.told = Rest, true
	}
}

// Notice is what the job is told of its own end.
func (j *Job) Notice() discoveryjson.Notice {
	if !j.asked {
		return discoveryjson.Notice{}
	}
	return j.order.notice()
}

// stopping is the record of the order for the journal.
func (j *Job) stopping() *journalpb.Record {
	return journal.Stopping(j.start.GetJobId(), j.order.Stop, timestamppb.New(j.order.Deadline))
}

// judge completes the record of a job's end by the order that it had.
func (j *Job) judge(job *statepb.FinishedJob, result *runner.Result) {
	if j.order == nil {
		return
	}
	stopped := result.Outcome == proxyproto.OutcomeStopped
	// It may have read its notice, and gone, before the signal came. A proxy of the first
	// version calls every job stopped that was asked; it keeps nothing of a job. Of one that
	// was stopped while the proxy kept what it had written, not all has been kept.
	keeps := j.spec.GetFeed() != nil || len(j.spec.GetOutputs()) > 0
	left := j.asked && (result.Outcome == proxyproto.OutcomeExited || stopped && !result.Interrupted && !keeps) &&
		(result.ExitCode == 0 || j.isRestart(result.ExitCode))
	if result.Interrupted || stopped || left {
		job.Stop = proto.CloneOf(j.order.Stop)
	}
	switch {
	case stopped && !left && j.eviction != nil:
		aborted(job, j.eviction.Reason, j.eviction.Message)
		job.Error.Attributes = j.eviction.Attributes
	case left:
		job.State, job.AbortReason, job.Error = lifecycle.JobCompleted.String(), "", nil
		job.Rerun = j.isRestart(result.ExitCode)
	case stopped && result.Reason == acknowledged:
		job.Acknowledged = true
		aborted(job, j.order.late(), cmp.Or(j.order.Message, "stopped early: the job reported its state as saved"))
	case stopped && j.asked:
		had := j.order.Deadline.Sub(j.order.Stop.GetTime().AsTime()).Round(time.Millisecond)
		message := fmt.Sprintf("still running %v after %s", had, cmp.Or(j.spec.GetInterruptionSignal(), "end of input"))
		if j.order.Message != "" {
			message += ": " + j.order.Message
		}
		aborted(job, j.order.late(), message)
	case job.GetState() == lifecycle.JobAborted.String() && job.GetError() == nil && j.order.Message != "":
		job.Error = &statepb.Error{Message: j.order.Message, Attributes: j.order.Attributes}
	}
}

// isRestart reports whether a job that was asked to leave wants to run again.
func (j *Job) isRestart(code int) bool {
	return j.spec != nil && j.spec.RestartExitCode != nil && int(j.spec.GetRestartExitCode()) == code
}

// document is a notice as its file has it.
func document(notice discoveryjson.Notice) []byte {
	data, err := json.Marshal(notice)
	if err != nil {
		// It has times and texts only, which cannot fail.
		panic(err)
	}
	return append(data, '\n')
}
