package statepb

import (
	"cmp"
	"time"
)

// Deadline returns when the processes of the job are killed; zero means at once.
func (x *StopOrder) Deadline() time.Time {
	if x.GetTime() == nil {
		return time.Time{}
	}
	return x.GetTime().AsTime().Add(time.Duration(x.GetGraceMillis()) * time.Millisecond)
}

// Left returns the time from now until the processes of the job are killed. The time is at most the
// grace period, even if now is earlier than the order because clocks differ.
func (x *StopOrder) Left(now time.Time) time.Duration {
	grace := time.Duration(x.GetGraceMillis()) * time.Millisecond
	return min(grace, max(x.Deadline().Sub(now), 0))
}

// Why returns in a word why the job has to leave: the cause of its interruption, or the abort
// reason if it is not interrupted.
func (x *StopOrder) Why() string { return cmp.Or(x.GetInterruption(), x.GetReason()) }
