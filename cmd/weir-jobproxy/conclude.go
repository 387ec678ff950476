package main

import (
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// saveAgain is the pause before a result that the disk did not take is written again.
const saveAgain = 500 * time.Millisecond

// finish writes the result of a job of which nothing is left.
func (s *supervisor) finish() {
	s.gone = nil
	if s.root == nil {
		select {
		case e := <-s.rootEnded:
			s.root = &e
		default:
			s.root = &ending{time: time.Now()}
		}
	}
	s.finishMeasuring()
	if err := s.inside.remove(); err != nil {
		complain(err)
	}
	s.conclude(s.root.status)
}

// conclude makes the result, writes it, and tells it.
func (s *supervisor) conclude(status unix.WaitStatus) {
	for _, timer := range []*time.Timer{s.timeLimit, s.grace, s.sample, s.memoryCheck} {
		timer.Stop()
	}
	s.stopWatch()
	end := time.Now()
	if s.root != nil {
		end = s.root.time
	}
	result := &proxyproto.Result{
		JobID:          s.spec.JobID,
		Pid:            s.child.pid,
		StartTime:      s.startTime.UTC(),
		EndTime:        end.UTC(),
		DurationMicros: end.Sub(s.startTime).Microseconds(),
		Statistics:     s.statistics(),
	}
	s.verdict.apply(result, status)
	result.Interrupted = s.interruption != nil
	result.OutputLost = lost(s.stdout, s.stderr)
	if s.child.pid == 0 {
		result.ExitCode = -1
	}
	s.result = result
	// An agent that listens has the result in its journal before anybody else hears of
	// it; for one that comes later, it has to be on disk here.
	if s.agent.listens() {
		s.save(writeWhole)
	} else {
		s.save(writeDurably)
	}
	s.agent.send(proxyproto.Message{Exited: result})
}

// save writes the result. A disk that does not take it is tried again: the job may have
// filled it.
func (s *supervisor) save(write func(folder, name string, value any) error) {
	if err := write(s.folder, proxyproto.ResultFile, s.result); err != nil {
		complain(err)
		s.unsaved.Reset(saveAgain)
	}
}
