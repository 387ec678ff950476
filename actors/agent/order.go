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
	// Attributes are those of the job's error. Only the agent's own evictions have any.
	Attributes map[string]string
	// Deadline is when the job's processes are killed.
	Deadline time.Time
	// Stop is the leader's order; nil: the agent's own.
	Stop *statepb.StopOrder
}

const (
	// maxGrace is the longest grace period, as in the replicated state.
	maxGrace = 365 * 24 * time.Hour
	// slack is the least by which a new deadline must be earlier than the old one to be sent to the
	// job. It is also how long a job may still be ending after its deadline. A repeated order
	// carries the rest of the grace period, so that its deadline varies by some milliseconds.
	slack = 100 * time.Millisecond
)

// NewOrder reads an order that arrived at the time `now`. An unknown reason counts as "other".
func NewOrder(now time.Time, m *actorpb.AbortJob) Order {
	grace := time.Duration(max(0, min(m.GetGraceMillis(), maxGrace.Milliseconds()))) * time.Millisecond
	stop := &statepb.StopOrder{
		Reason: m.GetReason(), Message: m.GetMessage(), GraceMillis: grace.Milliseconds(), Time: timestamppb.New(now),
		Interruption: m.GetInterruption(), Preemption: m.GetPreemption(), PreemptedFor: m.GetPreemptedFor(),
	}
	return orderOf(stop, now.Add(grace))
}

// keptOrder returns an order from the journal; nil: there is none.
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

// evicts reports whether the order is an eviction for lack of memory.
func (o *Order) evicts() bool { return len(o.Attributes) > 0 }

// interrupts reports whether the job is to be asked to leave, with a grace period.
func (o *Order) interrupts() bool { return o.Stop.GetGraceMillis() > 0 }

// preempts reports whether the job is preempted for others.
func (o *Order) preempts() bool { return o.Stop.GetInterruption() == statepb.InterruptedByPreemption }

// late returns the abort reason for a job that was asked to leave and did not leave in time.
func (o *Order) late() lifecycle.AbortReason {
	if o.preempts() {
		return o.Reason
	}
	return lifecycle.AbortInterruptionTimeout
}

// notice returns the notice of the order for the job.
func (o *Order) notice() discoveryjson.Notice {
	deadline, asked := o.Deadline.UTC(), o.Stop.GetTime().AsTime()
	return discoveryjson.Notice{
		Leaving: true, Deadline: &deadline, Reason: o.late().String(), Interruption: o.Stop.GetInterruption(),
		Preemption: o.Stop.GetPreemption(), PreemptedFor: o.Stop.GetPreemptedFor().GetOperationId(), Message: o.Message, Time: &asked,
	}
}

// ErrNotAsked is returned to a job that reports its state as saved without having been asked to
// leave.
var ErrNotAsked = errors.New("job has not been asked to stop")

// acknowledged is the stop reason for a job that reported its state as saved.
const acknowledged = "acknowledged"

// Stop handles an order to end the job. The earliest deadline counts, and the reason of the first
// order, unless an eviction ends the job earlier. A job that does not run yet, or cannot be asked,
// is ended at once.
func (j *Job) Stop(now time.Time, order Order) {
	switch {
	case j.phase >= Ended:
	case j.order == nil:
		j.takeFirst(now, order)
	case order.Deadline.Add(slack).Before(j.order.Deadline):
		j.order.Deadline = order.Deadline
		if order.evicts() {
			// The eviction is why it ends now, whatever the first order was for.
			j.eviction = &order
		}
		j.orderNoted = order.Stop == nil
		j.tellAgain()
	case j.order.Deadline.Add(slack).Before(now):
		// The job is still there: the instruction was lost, or its record waits for the disk. Send
		// the instruction again, without the journal.
		j.orderNoted = true
		j.tellAgain()
	}
}

// takeFirst handles the first order to end the job. A graceful preemption becomes a kill here if
// the job cannot be asked to leave. Otherwise the job proxy kills the job at its deadline.
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
	// Only a leader's order goes to the journal, for the next agent process to go on with. The
	// agent's own orders must not wait for it: the disk may hang.
	j.orderNoted = order.Stop == nil
	j.tellAgain()
	if j.phase < Running && j.underway != StartRun {
		finished := unstarted(j.start, now, order.Reason, order.Message)
		finished.Stop = order.Stop
		j.end(finished)
	}
}

// interruptible reports whether the job can be asked to leave, by the end of its input or by a
// signal.
func (j *Job) interruptible() bool {
	return j.spec.GetFeed() != nil || unix.SignalNum(j.spec.GetInterruptionSignal()) != 0
}

// Saved handles the job's report that its state is saved: it may be stopped before its
// deadline.
func (j *Job) Saved() error {
	switch {
	case j.phase != Running:
		return fmt.Errorf("%w: it is not running", ErrNotAsked)
	case !j.asked || !j.orderNoted:
		return ErrNotAsked
	}
	j.saved = true
	j.tellAgain()
	return nil
}

// tellAgain makes StopRun due, to send the job's processes a new instruction.
func (j *Job) tellAgain() {
	j.telling++
	j.told = false
	if j.underway == StopRun || j.underway == NoteStop {
		j.underway = Rest
	}
}

// Telling is an instruction to a job's processes about their end.
type Telling struct {
	// Number distinguishes the instructions to one job.
	Number int
	// Interruption is set when the processes are asked to leave. Otherwise they are stopped after
	// Grace, for the given Reason.
	Interruption *runner.Interruption
	Reason       string
	Grace        time.Duration
}

// Telling returns the current instruction to the job's processes.
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

// to sends the instruction to a job's processes.
func (t Telling) to(run Run) error {
	if t.Interruption != nil {
		return run.Interrupt(*t.Interruption)
	}
	return run.Stop(t.Reason, t.Grace)
}

// Tells reports whether the instruction with this number is current and being sent.
func (j *Job) Tells(number int) bool { return j.underway == StopRun && number == j.telling }

// Told records that the instruction with this number was delivered.
func (j *Job) Told(number int) {
	if j.Tells(number) {
		j.underway, j.told = Rest, true
	}
}

// Notice returns the job's notice that it has to leave; empty if it has not been asked to.
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

// judge completes the record of a job's end according to its order.
func (j *Job) judge(job *statepb.FinishedJob, result *runner.Result) {
	if j.order == nil {
		return
	}
	stopped := result.Outcome == proxyproto.OutcomeStopped
	// The job may have read its notice and exited before the signal came. A proxy of the first
	// version reports every interrupted job as stopped; it stores no output files. A job with
	// output to store that is reported as stopped was stopped while storing, so that some of
	// its output is missing.
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

// isRestart reports whether an exit code asks for another run of the job.
func (j *Job) isRestart(code int) bool {
	return j.spec != nil && j.spec.RestartExitCode != nil && int(j.spec.GetRestartExitCode()) == code
}

// document returns a notice in the format of its file.
func document(notice discoveryjson.Notice) []byte {
	data, err := json.Marshal(notice)
	if err != nil {
		// A notice holds only times and texts, whose encoding cannot fail.
		panic(err)
	}
	return append(data, '\n')
}
