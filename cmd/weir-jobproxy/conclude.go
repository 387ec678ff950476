package main

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// saveAgain is the pause before a result that the disk did not take is written again.
const saveAgain = 500 * time.Millisecond

// finish measures a job of which no process is left, and has kept what is to be.
func (s *supervisor) finish() {
	s.gone = nil
	s.measureEnd(killPatience)
	s.takeDisk(s.disk.last)
	s.flush()
}

// measureEnd measures a job whose processes have ended, as far as they do. Its groups may be
// busy for a moment still.
func (s *supervisor) measureEnd(patience time.Duration) {
	if s.root == nil {
		select {
		case e := <-s.rootEnded:
			s.root = &e
		default:
			s.root = &ending{time: time.Now()}
		}
	}
	s.disk.end()
	s.finishMeasuring()
	complain(s.inside.Remove(patience))
}

// conclude makes the result, writes it, and tells it.
func (s *supervisor) conclude(status unix.WaitStatus) {
	for _, timer := range []*time.Timer{s.timeLimit, s.deadline.timer, s.sample, s.memory.check} {
		timer.Stop()
	}
	s.memory.stop()
	complain(s.volumes.unmount())
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
	result.Interrupted = s.deadline.interruption != nil
	result.OutputLost = clip(lost(s.stdout, s.stderr), mostText)
	result.Hang = s.ending.hang
	result.Input, result.Output = s.remains.input, s.remains.output
	if s.child.pid == 0 {
		result.ExitCode = -1
	}
	s.conclusion.result = result
	// An agent that listens has the result in its journal before anybody else hears of
	// it; for one that comes later, it has to be on disk here.
	s.ending.start("write its result into " + s.folder)
	s.conclusion.save(filepath.Join(s.folder, proxyproto.ResultFile), !s.agent.listens())
}

// tell tells the result, once.
func (s *supervisor) tell() {
	s.ending.timer.Stop()
	if !s.conclusion.told {
		s.conclusion.told = true
		s.agent.send(proxyproto.Message{Exited: s.conclusion.result})
	}
}

// conclusion is the result of the job, and what has become of it.
type conclusion struct {
	// result is nil before the end of the job; told: the agent may have it.
	result *proxyproto.Result
	told   bool
	// saved is sent when the result has been written, or has not.
	saved chan struct{}
}

// save has the result written to a file in the background. One that the disk did not take is
// written again: the job may have filled it.
func (o *conclusion) save(path string, durably bool) {
	result, saved := o.result, o.saved
	go func() {
		err := writeJSON(path, result, durably)
		saved <- struct{}{}
		for ; err != nil; err = writeJSON(path, result, true) {
			complain(err)
			time.Sleep(saveAgain)
		}
	}()
}
