package main

import (
	"testing"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

// TestEndThatHasComeCounts though nobody has looked at it when something else is to end the job:
// which of the two is looked at first is chance.
func TestEndThatHasComeCounts(t *testing.T) {
	limit := verdict{outcome: proxyproto.OutcomeTimeLimitExceeded}
	tests := map[string]struct {
		come func(*supervisor)
		// wantKept: what it has written is kept still.
		wantKept bool
	}{
		"a limit":         {func(s *supervisor) { s.end(limit) }, true},
		"an order":        {func(s *supervisor) { s.stop(proxyproto.Stop{GraceMillis: 1}) }, false},
		"the lease":       {func(s *supervisor) { s.expire() }, false},
		"its deadline":    {func(s *supervisor) { s.deadline.interruption = &proxyproto.Interrupt{}; s.graceOver() }, true},
		"an interruption": {func(s *supervisor) { s.interrupt(proxyproto.Interrupt{Signal: "SIGINT", GraceMillis: 1}) }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job", LeaseMillis: 3_600_000}, outside{}, nil, nil)
			// Nothing has to be ended.
			s.endingAll = true
			s.rootEnded <- ending{time: time.Now()}
			test.come(s)
			if s.verdict.outcome != proxyproto.OutcomeExited || s.root == nil {
				t.Errorf("verdict %+v, want its own end", s.verdict)
			}
			if s.abandoned.decided() == test.wantKept {
				t.Errorf("what it has written is kept: %t, want %t", !s.abandoned.decided(), test.wantKept)
			}
			if s.deadline.timer.Stop() {
				t.Error("it has a deadline")
			}
		})
	}
}

// busyEnclosure cannot be removed before free is closed.
type busyEnclosure struct {
	enclosure
	free chan struct{}
}

func (b busyEnclosure) Remove(time.Duration) error {
	<-b.free
	return nil
}

// TestResultDoesNotWaitForGroups that are still busy, but the end of the proxy does.
func TestResultDoesNotWaitForGroups(t *testing.T) {
	s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job", LeaseMillis: 3_600_000}, outside{}, nil, nil)
	busy := busyEnclosure{enclosure: s.inside, free: make(chan struct{})}
	s.inside, s.memory.stop = busy, func() {}
	// Nothing has to be ended.
	s.endingAll = true
	s.exit(ending{time: time.Now()})
	s.finish()
	s.takeRemains(<-s.flushed)
	if s.conclusion.result == nil || s.conclusion.result.Outcome != proxyproto.OutcomeExited {
		t.Errorf("result %+v, want that it exited", s.conclusion.result)
	}
	<-s.conclusion.saved
	left := make(chan struct{})
	go func() {
		s.removing.Wait()
		close(left)
	}()
	select {
	case <-left:
		t.Error("it does not wait for its groups")
	default:
	}
	close(busy.free)
	<-left
}
