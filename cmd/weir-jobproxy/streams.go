package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// streams are what the command's standard input and output are connected to, and what
// becomes of the files that it leaves. Calls come one after the other.
type streams interface {
	// open returns what the command gets as standard input and output, to be closed once
	// it has them. nil: what every job gets, which is nothing to read, and a capture. An
	// error that is a *streamError says how the job ends; any other is a start that failed.
	open() (stdin, stdout *os.File, err error)
	// begin says that the command runs. fail ends the job for a cause; it may be called
	// from any goroutine, and the first cause counts.
	begin(fail func(verdict))
	// interrupt ends the input at the next border of records.
	interrupt()
	// finish is called when no process of the job is left, also if none has begun, and
	// returns when all is kept. What is not of a completed job is not kept, and neither is
	// anything once ctx is done.
	finish(ctx context.Context, completed bool) remains
	// measure adds what is known by now to statistics, from any goroutine.
	measure(values map[string]int64)
}

// remains is what is left of a job when its processes have gone.
type remains struct {
	input  *proxyproto.InputCount
	output *proxyproto.OutputCount
	// failure, where it is decided, takes the place of a completion.
	failure verdict
}

// streamError is an error of streams.open that is not the command's.
type streamError struct{ verdict verdict }

func (e *streamError) Error() string { return e.verdict.err }

// flush has the streams keep what they can, in the background: s.flushed gets the
// remains.
func (s *supervisor) flush() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancelFlush = cancel
	if s.abandoned.decided() {
		cancel()
	}
	completed := s.completed()
	s.ending.begin("take stock of what it has read and written")
	go func() { s.flushed <- s.streams.finish(ctx, completed) }()
}

// completed says whether the command has ended well.
func (s *supervisor) completed() bool {
	return s.verdict.outcome == proxyproto.OutcomeExited && s.root != nil && s.root.status == unix.WaitStatus(0)
}

// abandonFlush has no more kept of a job, for a cause, which is its end unless all has been
// kept already. It says whether there was anything to abandon: that is so from when the
// command has ended well, though processes that it has left may have to end first.
func (s *supervisor) abandonFlush(cause verdict) bool {
	if s.conclusion.result != nil || s.cancelFlush == nil && !s.completed() {
		return false
	}
	s.abandoned.decide(cause)
	if s.cancelFlush != nil {
		s.cancelFlush()
	}
	return true
}

// takeRemains ends the job with what was kept of it.
func (s *supervisor) takeRemains(r remains) {
	s.cancelFlush()
	if s.conclusion.result != nil {
		complain(errors.New("what hung goes on; nothing is kept of it any more"))
		return
	}
	s.remains = r
	if r.failure.decided() && s.verdict.outcome == proxyproto.OutcomeExited {
		s.verdict = r.failure
		if s.abandoned.decided() {
			s.verdict = s.abandoned
		}
	}
	s.conclude(s.rootStatus())
}

// rootStatus is how the command ended; 0 also if it never began.
func (s *supervisor) rootStatus() unix.WaitStatus {
	if s.root == nil {
		return 0
	}
	return s.root.status
}
