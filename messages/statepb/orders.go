package statepb

import "weir/scheduling/lifecycle"

// StopOrderFor returns the order to end a job of the operation; nil while the job may go on. A job
// ends if the operation is finishing, if the job was ordered to stop and is not held back, or if
// the operation was suspended with its jobs. Causes that kill the job at once come before an order
// that leaves it time.
func (x *Operation) StopOrderFor(allocation *Allocation) *StopOrder {
	switch x.GetState() {
	case lifecycle.Completing.String():
		return &StopOrder{Reason: lifecycle.AbortOperationCompleted.String(), Message: "the operation is completing"}
	case lifecycle.Failing.String():
		return &StopOrder{Reason: lifecycle.AbortOperationFailed.String(), Message: "the operation is failing"}
	case lifecycle.Aborting.String():
		if order := allocation.GetStop(); order != nil && x.GetStop() != nil {
			return order
		}
		return &StopOrder{Reason: lifecycle.AbortOperationAborted.String(), Message: "the operation is being aborted"}
	}
	order := allocation.GetStop()
	if order.GetHeldUntil() != nil {
		order = nil
	}
	suspended := x.GetSuspended() && allocation.GetGrantIndex() <= x.GetAbortJobsUntilIndex()
	if suspended && (order == nil || order.GetGraceMillis() > 0) {
		return &StopOrder{Reason: lifecycle.AbortOperationSuspended.String(), Message: "the operation was suspended with its jobs"}
	}
	return order
}
