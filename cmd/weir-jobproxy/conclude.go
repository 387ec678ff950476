package main

import (
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
	s.takeDisk(s.diskLast)
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
	s.stopDisk()
	s.diskTold = nil
	s.finishMeasuring()
	if err := s.inside.remove(patience); err != nil {
		complain(err)
	}
}

// conclude makes the result, writes it, and tells it.
func (s *supervisor) conclude(status unix.WaitStatus) {
	for _, timer := range []*time.Timer{s.timeLimit, s.grace, s.sample, s.memoryCheck} {
		timer.Stop()
	}
	s.stopWatch()
	complainIf(s.volumes.unmount())
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
	result.OutputLost = clip(lost(s.stdout, s.stderr), mostText)
	result.Hang = s.hang
	result.Input, result.Output = s.remains.input, s.remains.output
	if s.child.pid == 0 {
		result.ExitCode = -1
	}
	s.result = result
	// An agent that listens has the result in its journal before anybody else hears of
	// it; for one that comes later, it has to be on disk here.
	s.watchEnd("write its result into " + s.folder)
	if s.agent.listens() {
		s.save(writeWhole)
	} else {
		s.save(writeDurably)
	}
}

// save has the result written in the background.
func (s *supervisor) save(write func(folder, name string, value any) error) {
	folder, result := s.folder, s.result
	go func() { s.saved <- write(folder, proxyproto.ResultFile, result) }()
}

// takeSaved tells the result when it has been written. A disk that does not take it is tried
// again: the job may have filled it.
func (s *supervisor) takeSaved(err error) {
	if err != nil {
		complain(err)
		s.unsaved.Reset(saveAgain)
	}
	s.tell()
}

// tell tells the result, once.
func (s *supervisor) tell() {
	s.stall.Stop()
	if !s.told {
		s.told = true
		s.agent.send(proxyproto.Message{Exited: s.result})
	}
}
