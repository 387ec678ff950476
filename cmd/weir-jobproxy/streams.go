package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// streams connect the command's standard input and output, and keep its files. Calls are
// sequential, except for measure.
type streams interface {
	// open returns the command's standard input and output; the caller closes them once the
	// command has them. nil stands for the default: empty input, captured output. A
	// *streamError has the verdict of the job; any other error means that the start failed.
	open() (stdin, stdout *os.File, err error)
	// begin is called once the command runs. fail ends the job for a cause; it may be called
	// from any goroutine, and only the first call counts.
	begin(fail func(verdict))
	// interrupt ends the input after the current record.
	interrupt()
	// finish is called when all processes of the job have gone, or none has begun. It returns when
	// all output and files are stored. It stores nothing of a job that has not completed, and stops
	// storing once ctx is done.
	finish(ctx context.Context, completed bool) remains
	// measure adds the current values to the statistics. It may be called from any goroutine.
	measure(values map[string]int64)
}

// remains describes the data that the streams of an ended job have read and kept.
type remains struct {
	input  *proxyproto.InputCount
	output *proxyproto.OutputCount
	// failure, if decided, is the verdict on a job that would otherwise have completed.
	failure verdict
}

// streamError is an error of streams.open that decides how the job ends.
type streamError struct{ verdict verdict }

func (e *streamError) Error() string { return e.verdict.err }

// flush makes the streams keep what they can, in the background. Their remains go to s.flushed.
func (s *supervisor) flush() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancelFlush = cancel
	if s.abandoned.decided() {
		cancel()
	}
	completed := s.completed()
	s.ending.begin("record what it has read and written")
	go func() { s.flushed <- s.streams.finish(ctx, completed) }()
}

// completed reports whether the command exited with 0, and nothing else ended the job.
func (s *supervisor) completed() bool {
	return s.verdict.outcome == proxyproto.OutcomeExited && s.root != nil && s.root.status == unix.WaitStatus(0)
}

// abandonFlush stops keeping output and files of a job, for a cause. The cause becomes the job's
// outcome unless everything is already kept. It reports whether there was anything to abandon. That
// is so once the command has completed, even while processes that it left behind still run.
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

// takeRemains ends the job with its remains.
func (s *supervisor) takeRemains(r remains) {
	s.cancelFlush()
	if s.conclusion.result != nil {
		complain(errors.New("the disk responds again, but the result of the job is already decided: the rest is dropped"))
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
