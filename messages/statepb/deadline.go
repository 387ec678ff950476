package statepb

import (
	"cmp"
	"time"
)

// Deadline returns when the processes of the job are killed. Zero: at once.
func (x *StopOrder) Deadline() time.Time {
	if x.GetTime() == nil {
		return time.Time{}
	}
	return x.GetTime().AsTime().Add(time.Duration(x.GetGraceMillis()) * time.Millisecond)
}

// Left returns what is left at now until the processes of the job are killed. A clock
// that is behind the one by which the order was given leaves no more than was given.
func (x *StopOrder) Left(now time.Time) time.Duration {
	grace := time.Duration(x.GetGraceMillis()) * time.Millisecond
	return min(grace, max(x.Deadline().Sub(now), 0))
}

// Why returns in a word why the job has to leave: what it is interrupted for, or the
// abort reason of one that is not.
func (x *StopOrder) Why() string { return cmp.Or(x.GetInterruption(), x.GetReason()) }
