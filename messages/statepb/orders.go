package statepb

import "weir/scheduling/lifecycle"

// StopOrderFor returns why a job of the operation has to end, and nil while it
// may go on: the operation is finishing, the job was ordered to stop, or the
// operation was suspended with its jobs.
func (x *Operation) StopOrderFor(allocation *Allocation) *StopOrder {
	switch x.GetState() {
	case lifecycle.Completing.String():
		return &StopOrder{Reason: lifecycle.AbortOperationCompleted.String(), Message: "the operation is completing"}
	case lifecycle.Failing.String():
		return &StopOrder{Reason: lifecycle.AbortOperationFailed.String(), Message: "the operation is failing"}
	case lifecycle.Aborting.String():
		return &StopOrder{Reason: lifecycle.AbortOperationAborted.String(), Message: "the operation is being aborted"}
	}
	if order := allocation.GetStop(); order != nil {
		return order
	}
	if x.GetSuspended() && allocation.GetGrantIndex() <= x.GetAbortJobsUntilIndex() {
		return &StopOrder{Reason: lifecycle.AbortOperationSuspended.String(), Message: "the operation was suspended with its jobs"}
	}
	return nil
}
