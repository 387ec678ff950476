package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// unreadPause is the pause between two checks whether a message of the agent is still unread.
const unreadPause = time.Millisecond

// lease is how long the job may go on without an agent. The time that the machine is suspended
// counts: meanwhile the leader gives the job to another node.
type lease struct {
	// end is when the lease expires, on the clock of clock.Boot.
	end   time.Duration
	timer *clock.Timer
	over  chan struct{}
	// shared is memory that has the end too, as nanoseconds; nil: the agent shares none. See proxyproto.Renew.
	shared []byte
}

func newLease(spec *proxyproto.Spec) lease {
	l := lease{over: make(chan struct{}, 1)}
	l.timer = clock.NewTimer(func() {
		select {
		case l.over <- struct{}{}:
		default:
		}
	})
	now, left := clock.Boot(), spec.Lease()
	if spec.LeaseEndMillis > 0 {
		left = min(left, time.Duration(spec.LeaseEndMillis)*time.Millisecond-now)
	}
	l.set(now, left)
	return l
}

// renew extends the lease to the end that the message gives, which may have passed by the time the
// message is read. A message without an end does not renew an expired lease: the message may have
// been written long ago, by an agent that no longer exists.
func (l *lease) renew(m proxyproto.Renew) {
	now := clock.Boot()
	left := time.Duration(m.LeaseMillis) * time.Millisecond
	if m.EndMillis > 0 {
		left = min(left, time.Duration(m.EndMillis)*time.Millisecond-now)
	} else if now >= l.end {
		return
	}
	l.set(now, left)
}

// share makes the lease follow the end that the agent keeps in a file, which it closes.
func (l *lease) share(file *os.File) error {
	defer file.Close()
	info, err := file.Stat()
	if err == nil && info.Size() < proxyproto.SharedSize {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		l.unshare()
		l.shared, err = unix.Mmap(int(file.Fd()), 0, proxyproto.SharedSize, unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return fmt.Errorf("share the lease: %w", err)
	}
	return nil
}

// follow gives the lease the end that the agent shares, which may be earlier than before. An agent that shares none yet has
// not renewed it.
func (l *lease) follow() {
	if l.shared == nil {
		return
	}
	end := time.Duration((*atomic.Int64)(unsafe.Pointer(&l.shared[0])).Load())
	if end != 0 && end != l.end {
		now := clock.Boot()
		l.set(now, end-now)
	}
}

// unshare follows what the agent shares for the last time.
func (l *lease) unshare() {
	l.follow()
	if l.shared != nil {
		complain(unix.Munmap(l.shared))
		l.shared = nil
	}
}

func (l *lease) set(now, left time.Duration) {
	l.end = now + left
	l.timer.Reset(left)
}

// deadline is when the job is killed, if it has not ended by then.
type deadline struct {
	end   time.Time
	timer *time.Timer
	// interruption is the order by which the job was asked to end by itself.
	interruption *proxyproto.Interrupt
}

func (d *deadline) set() bool { return !d.end.IsZero() }

// within sets the deadline to graceMillis from now, unless it is already earlier.
func (d *deadline) within(graceMillis int64) {
	end := time.Now().Add(time.Duration(graceMillis) * time.Millisecond)
	if !d.set() || end.Before(d.end) {
		d.end = end
		d.timer.Reset(time.Until(end))
	}
}

// leaseOver lets the lease expire, unless a message of the agent is still unread: a proxy that
// was stopped for a while finds the timer and the renewal at the same time.
func (s *supervisor) leaseOver() {
	s.lease.follow()
	if left := s.lease.end - clock.Boot(); left > 0 {
		// The timer was set before the last renewal.
		s.lease.timer.Reset(left)
		return
	}
	if s.agent.unread() {
		s.lease.timer.Reset(unreadPause)
		return
	}
	s.expire()
}

// expire ends a job without an agent. If the result was sent already, the proxy exits and
// leaves it on disk.
func (s *supervisor) expire() {
	if s.conclusion.told {
		if s.leave = s.conclusion.written || s.conclusion.last; !s.leave {
			s.conclusion.last = true
			s.keepResult()
			// It ends without its result if that cannot be written for so long.
			s.lease.set(clock.Boot(), s.spec.Lease())
		}
		return
	}
	expired := verdict{outcome: proxyproto.OutcomeLeaseExpired, err: "no agent renewed the lease in time"}
	s.hearEnd()
	if !s.abandonFlush(expired) {
		s.end(expired)
	}
	// Keep the result for the length of another lease, in case an agent comes back.
	s.lease.set(clock.Boot(), s.spec.Lease())
}
