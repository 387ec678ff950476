package main

import (
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// unreadPause is the time between two looks at whether what an agent has written has been read.
const unreadPause = time.Millisecond

// lease is how long the job may go on without an agent.
type lease struct {
	// end is when it is over, on the clock of proctree.Uptime.
	end   time.Duration
	timer *time.Timer
}

func newLease(spec *proxyproto.Spec) lease {
	return lease{end: proctree.Uptime() + spec.Lease(), timer: time.NewTimer(spec.Lease())}
}

// renew lets the job live until the end that the agent says, which may be over when that is
// read. A lease that is over is not renewed by who says no end: that may have been written, and
// the agent have gone, long before.
func (l *lease) renew(m proxyproto.Renew) {
	now := proctree.Uptime()
	left := time.Duration(m.LeaseMillis) * time.Millisecond
	if m.EndMillis > 0 {
		left = min(left, time.Duration(m.EndMillis)*time.Millisecond-now)
	} else if now >= l.end {
		return
	}
	l.set(now, left)
}

func (l *lease) set(now, left time.Duration) {
	l.end = now + left
	l.timer.Reset(max(left, 0))
}

// deadline is when the job is ended, if it has not gone by then.
type deadline struct {
	end   time.Time
	timer *time.Timer
	// interruption is what asked the job to end by itself.
	interruption *proxyproto.Interrupt
}

func (d *deadline) set() bool { return !d.end.IsZero() }

// within ends the job after so long, unless it is to end earlier.
func (d *deadline) within(graceMillis int64) {
	end := time.Now().Add(time.Duration(graceMillis) * time.Millisecond)
	if !d.set() || end.Before(d.end) {
		d.end = end
		d.timer.Reset(time.Until(end))
	}
}

// leaseOver ends what the lease was for, when it is known that the agent has not written before
// that it goes on: a proxy that did not run for a while finds both at once.
func (s *supervisor) leaseOver() {
	if s.agent.unread() {
		s.lease.timer.Reset(unreadPause)
		return
	}
	s.expire()
}

// expire ends a job, or leaves behind the result of one, that no agent wants.
func (s *supervisor) expire() {
	if s.conclusion.told {
		s.leave = true
		return
	}
	expired := verdict{outcome: proxyproto.OutcomeLeaseExpired, err: "the agent was not heard from in time"}
	s.hearEnd()
	if !s.abandonFlush(expired) {
		s.end(expired)
	}
	// The result waits this long for an agent to come back.
	s.lease.set(proctree.Uptime(), s.spec.Lease())
}
