package main

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// saveAgain is the pause before a failed write of the result is retried.
const saveAgain = 500 * time.Millisecond

// finish measures a job whose processes have all gone, and starts to store its output.
func (s *supervisor) finish() {
	s.gone = nil
	s.measureEnd(killPatience)
	s.takeDisk(s.disk.last)
	s.flush()
}

// measureEnd takes the last measurement of a job, whose processes have gone or hang, and removes
// its enclosure, up to patience if groups are still busy. The result does not wait for that, but the proxy does.
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
	s.removing.Go(func() {
		s.unremoved = s.inside.Remove(patience)
		complain(s.unremoved)
	})
}

// conclude makes the result, and sends it or writes it for an agent that connects later.
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
		Pid:            s.rootPid(),
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
	// A connected agent writes the result to its journal. For one that connects later, it has to be
	// here.
	if s.agent.listens() {
		s.tell()
		return
	}
	s.ending.start("write its result into " + s.folder)
	s.keepResult()
}

// keepResult writes the result, if there is one, for an agent that connects later.
func (s *supervisor) keepResult() {
	if s.conclusion.result != nil && !s.conclusion.kept {
		s.conclusion.kept = true
		s.conclusion.save(filepath.Join(s.folder, proxyproto.ResultFile))
	}
}

// resultKept tells the agent, if there is one, or leaves the result to one that connects later.
func (s *supervisor) resultKept() {
	s.tell()
	s.conclusion.written = true
	s.leave = s.leave || s.conclusion.last
}

// tell sends the result to the agent, once.
func (s *supervisor) tell() {
	s.ending.timer.Stop()
	if !s.conclusion.told {
		s.conclusion.told = true
		s.agent.send(proxyproto.Message{Exited: s.conclusion.result})
	}
}

// conclusion is the result of the job, and how far it has been saved and sent.
type conclusion struct {
	// result is nil before the end of the job. told says that the result has been sent, kept that it
	// is to be written, and written that it has been, or that this failed once. last says that the
	// proxy ends then.
	result                    *proxyproto.Result
	told, kept, written, last bool
	// saved receives a value when the first attempt to write the result is over.
	saved chan struct{}
}

// save writes the result durably to a file in the background. A failed write is retried until it
// succeeds: the job itself may have filled the disk.
func (o *conclusion) save(path string) {
	result, saved := o.result, o.saved
	go func() {
		err := writeJSON(path, result)
		saved <- struct{}{}
		for ; err != nil; err = writeJSON(path, result) {
			complain(err)
			time.Sleep(saveAgain)
		}
	}()
}
