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
	s.conclusion.save(!s.agent.listens())
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
	folder string
	// result is nil before the end of the job; told: the agent may have it.
	result *proxyproto.Result
	told   bool
	// saved is sent when the result has been written, or has not; unsaved is when that is
	// tried again.
	saved   chan error
	unsaved *time.Timer
}

func newConclusion(folder string) conclusion {
	return conclusion{folder: folder, saved: make(chan error, 1), unsaved: stoppedTimer()}
}

// save has the result written in the background.
func (o *conclusion) save(durably bool) {
	path, result, saved := filepath.Join(o.folder, proxyproto.ResultFile), o.result, o.saved
	go func() { saved <- writeJSON(path, result, durably) }()
}

// retry has a result that the disk did not take written again: the job may have filled it.
func (o *conclusion) retry(err error) {
	if err != nil {
		complain(err)
		o.unsaved.Reset(saveAgain)
	}
}
