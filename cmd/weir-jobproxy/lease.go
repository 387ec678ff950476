package main

import (
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// unreadPause is the time between two looks at whether what an agent has written has been read.
const unreadPause = time.Millisecond

// renew lets the job live until the end that the agent says, which may be over when that is
// read. A lease that is over is not renewed by who says no end: that may have been written, and
// the agent have gone, long before.
func (s *supervisor) renew(m proxyproto.Renew) {
	now := proctree.Uptime()
	left := time.Duration(m.LeaseMillis) * time.Millisecond
	if m.EndMillis > 0 {
		left = min(left, time.Duration(m.EndMillis)*time.Millisecond-now)
	} else if now >= s.leaseEnd {
		return
	}
	s.setLease(now, left)
}

func (s *supervisor) setLease(now, left time.Duration) {
	s.leaseEnd = now + left
	s.lease.Reset(max(left, 0))
}

// leaseOver ends what the lease was for, when it is known that the agent has not written before
// that it goes on: a proxy that did not run for a while finds both at once.
func (s *supervisor) leaseOver() {
	if s.agent.unread() {
		s.lease.Reset(unreadPause)
		return
	}
	s.expire()
}

// expire ends a job, or leaves behind the result of one, that no agent wants.
func (s *supervisor) expire() {
	if s.told {
		s.leave = true
		return
	}
	expired := verdict{outcome: proxyproto.OutcomeLeaseExpired, err: "the agent was not heard from in time"}
	s.hearEnd()
	if !s.abandonFlush(expired) {
		s.end(expired)
	}
	// The result waits this long for an agent to come back.
	s.setLease(proctree.Uptime(), s.spec.Lease())
}
