package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// start starts the command; a failure is the job's result.
func (s *supervisor) start() {
	defer forgetSecrets(s.spec)
	s.startTime = time.Now()
	s.meter.begin(s.startTime)
	err := s.inside.create()
	if err == nil {
		if err = s.volumes.mount(s.spec); err == nil {
			err = s.launch()
		}
		if err != nil {
			err = errors.Join(err, s.inside.Kill(killPatience), s.inside.Remove(killPatience))
		}
	}
	if err != nil {
		s.startFailed(err)
		return
	}
	s.memory.ownPeak = ownPeak()
	if root, err := proctree.Read(s.child.pid); err == nil {
		s.started = &proxyproto.Started{Identity: s.outside.identity(root.Identity), Time: s.startTime}
		s.memory.rootName = root.Name
	}
	go s.child.await(s.waited, s.rootEnded, s.beside.heard, s.reaped)
	s.sample.Reset(s.schedule.next())
	s.disk.begin()
	if limit := s.spec.TimeLimit(); limit > 0 {
		s.timeLimit.Reset(limit)
	}
	s.agent.send(proxyproto.Message{Started: s.started})
	s.streams.begin(func(cause verdict) {
		select {
		case s.failed <- cause:
		default:
		}
	})
}

// rootPid is the pid by which the agent knows the root process; 0 if none was started.
func (s *supervisor) rootPid() int {
	if s.started == nil {
		return 0
	}
	return s.started.Pid
}

// startFailed ends a job whose command was not started.
func (s *supervisor) startFailed(err error) {
	cause := verdict{outcome: proxyproto.OutcomeStartFailed, err: err.Error()}
	if ofStream, ok := errors.AsType[*streamError](err); ok {
		cause = ofStream.verdict
	}
	s.verdict.decide(cause)
	// There are no processes to end.
	s.endingAll, s.gone = true, nil
	s.ending.start("record what it has read and written")
	s.flush()
}

// launch opens the pipes and starts the root process.
func (s *supervisor) launch() error {
	stop, err := s.inside.WatchMemory(func() {
		select {
		case s.memory.low <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	s.memory.stop = stop
	stdin, stdoutEnd, err := s.streams.open()
	if err != nil {
		return err
	}
	if stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			return err
		}
	}
	defer stdin.Close()
	if stdoutEnd == nil {
		if s.stdout, stdoutEnd, err = startCapture(s.spec.OutputFolder, "stdout", s.spec.StdoutLimit); err != nil {
			return fmt.Errorf("capture output: %w", err)
		}
	}
	defer stdoutEnd.Close()
	stderr, stderrEnd, err := startCapture(s.spec.OutputFolder, "stderr", s.spec.StderrLimit)
	if err != nil {
		return fmt.Errorf("capture output: %w", err)
	}
	s.stderr = stderr
	defer stderrEnd.Close()
	s.child, err = startChild(s.spec, s.folder, s.inside, []uintptr{stdin.Fd(), stdoutEnd.Fd(), stderrEnd.Fd()})
	return err
}
