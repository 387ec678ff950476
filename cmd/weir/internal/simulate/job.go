package simulate

import (
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// started handles a granted job: it ends after its length, unless its node is dead.
func (w *world) started(a *statepb.Allocation) {
	op := w.operations[a.GetOperationId()]
	w.meter.started(w.now, op, a)
	w.estimates.started(w.now, op.ID)
	w.occupy(op, a, 1)
	if op.pool.fifo != nil {
		w.fifoStarts = append(w.fifoStarts, fifoStart{op, a.GetJobId(), a.GetResources().Amounts()})
	}
	if w.dead[a.GetNode()] || op.Job.Length == nil {
		return
	}
	job := a.GetJobId()
	w.queue.add(w.now+w.length(op, a), func() error { return w.leave(job, nil, false) })
}

// length is how long a job runs. A cookie has the same length in every attempt and in every
// variant of a simulation, so that runs can be compared. Jobs that are restarted when they
// complete draw a new length each time.
func (w *world) length(op *operation, a *statepb.Allocation) time.Duration {
	if op.Lengths != nil {
		return max(op.Lengths[a.GetCookie()].Duration, shortest)
	}
	work := uint64(a.GetCookie())
	if *op.Job.Restart {
		work |= uint64(a.GetAttempt()+1) << 32
	}
	return max(toDuration(op.Job.Length.Draw(w.draws(w.file.Seed^op.key, work))), shortest)
}

// shortest is the least length of a job: it keeps time moving.
const shortest = time.Millisecond

// leave ends a job. Without an order the job completes. With an order, `left` says whether the
// job exited by itself before its deadline; if not, it was killed.
func (w *world) leave(job string, order *statepb.StopOrder, left bool) error {
	a, ok := w.state.Allocation(scheduling.JobID(job))
	if !ok || w.dead[a.GetNode()] {
		return nil
	}
	finished := &statepb.FinishedJob{JobId: job, Node: a.GetNode(), State: lifecycle.JobCompleted.String()}
	switch {
	case order == nil:
	case left:
		finished.Rerun, finished.ExitCode, finished.Stop = true, restartCode, a.GetStop()
	default:
		finished.State, finished.AbortReason, finished.Stop = lifecycle.JobAborted.String(), reason(order), a.GetStop()
	}
	return w.finish(a, finished)
}

// finish reports the end of a job, and advances its operation.
func (w *world) finish(a *statepb.Allocation, finished *statepb.FinishedJob) error {
	known := w.operations[a.GetOperationId()]
	w.teach(known, a, finished)
	op, _ := w.state.Operation(scheduling.OperationID(a.GetOperationId()))
	msg := &commandpb.FinishJobs{OperationId: op.GetId(), Epoch: op.GetAssignment().GetEpoch(), Jobs: []*statepb.FinishedJob{finished}}
	if err := w.do(msg); err != nil {
		return err
	}
	if known.lessons != nil {
		if err := w.learn(known, finished.GetSample()); err != nil {
			return err
		}
	}
	if op, _ := w.state.Operation(scheduling.OperationID(a.GetOperationId())); op.GetState() != lifecycle.Running.String() {
		return w.advance(op.GetId())
	}
	return nil
}

// reason is the abort reason of a job that did not leave before its deadline.
func reason(order *statepb.StopOrder) string {
	if order.GetGraceMillis() > 0 && order.GetReason() != lifecycle.AbortPreemption.String() {
		return lifecycle.AbortInterruptionTimeout.String()
	}
	return order.GetReason()
}

// ordered handles an order to stop. Jobs that cannot be interrupted are killed at once; others
// leave by themselves, or are killed at their deadline.
func (w *world) ordered(a *statepb.Allocation) {
	job, order, op := a.GetJobId(), a.GetStop(), w.operations[a.GetOperationId()]
	w.meter.stopped(op, order)
	deadline := max(order.GetTime().AsTime().Sub(epoch)+time.Duration(order.GetGraceMillis())*time.Millisecond, w.now)
	if order.GetGraceMillis() > 0 && op.Interruption != nil {
		chance := w.draws(w.file.Seed^hash(a.GetJobId()), 1)
		if leaves := w.now + toDuration(op.Interruption.LeavesAfter.Draw(chance)); leaves <= deadline {
			w.queue.add(leaves, func() error { return w.leave(job, order, true) })
			return
		}
	}
	w.queue.add(deadline, func() error { return w.leave(job, order, false) })
}
