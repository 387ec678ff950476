package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

const (
	// killPatience is how long one attempt to end all processes may take
	// before it is complained about and repeated.
	killPatience = 10 * time.Second
	// escapePeriod is how long after the end of its groups a process is taken
	// to be one that left them.
	escapePeriod = 200 * time.Millisecond
	// reapTime is how long waiting for the last children may take when there
	// are no others.
	reapTime = 5 * time.Millisecond
	// memoryChecks is how often, memoryCheckPeriod apart, the kernel is asked
	// whether it has killed after it told that memory ran out.
	memoryChecks      = 100
	memoryCheckPeriod = 5 * time.Millisecond
	// nearLimit is the part of the memory limit from which on samples note
	// the biggest processes.
	nearLimit = 0.75
)

// supervisor runs the job. Its fields belong to the goroutine of run.
type supervisor struct {
	folder string
	spec   *proxyproto.Spec
	self   proxyproto.Identity
	server *server
	agent  *connection
	told   <-chan os.Signal

	inside         enclosure
	child          child
	started        *proxyproto.Started
	rootName       string
	startTime      time.Time
	stdout, stderr *capture

	// rootEnded and reaped are told by reap, gone by endTree, memoryLow by the
	// kernel.
	rootEnded chan ending
	reaped    chan struct{}
	gone      chan struct{}
	memoryLow chan struct{}
	stopWatch func()

	lease, timeLimit, grace, sample, memoryCheck, unsaved *time.Timer
	// graceEnd is when the job is ended; interruption is what asked it to end by itself.
	graceEnd         time.Time
	interruption     *proxyproto.Interrupt
	memoryChecksLeft int

	verdict   verdict
	root      *ending
	endingAll bool
	meter     meter
	schedule  schedule
	suspects  []proxyproto.ProcessMemory
	result    *proxyproto.Result
	leave     bool
}

func newSupervisor(folder string, spec *proxyproto.Spec, self proxyproto.Identity, server *server, told <-chan os.Signal) *supervisor {
	return &supervisor{
		folder:      folder,
		spec:        spec,
		self:        self,
		server:      server,
		told:        told,
		inside:      newEnclosure(spec),
		rootEnded:   make(chan ending, 1),
		reaped:      make(chan struct{}),
		gone:        make(chan struct{}),
		memoryLow:   make(chan struct{}, 1),
		stopWatch:   func() {},
		lease:       time.NewTimer(spec.Lease()),
		timeLimit:   stoppedTimer(),
		grace:       stoppedTimer(),
		sample:      stoppedTimer(),
		memoryCheck: stoppedTimer(),
		unsaved:     stoppedTimer(),
		schedule:    newSchedule(spec),
	}
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// run starts the job, sees it to its end, and returns when the agent has
// released it or its lease has run out.
func (s *supervisor) run() {
	s.start()
	for !s.leave {
		select {
		case r := <-s.server.requests:
			s.serve(r)
		case <-s.told:
			s.stop(proxyproto.Stop{Reason: "weir-jobproxy was told to end by SIGTERM"})
		case <-s.lease.C:
			s.expire()
		case <-s.timeLimit.C:
			s.end(verdict{outcome: proxyproto.OutcomeTimeLimitExceeded, err: fmt.Sprintf("ran for its time limit of %v", s.spec.TimeLimit())})
		case <-s.grace.C:
			s.graceOver()
		case now := <-s.sample.C:
			s.measure(now)
		case <-s.memoryLow:
			s.suspectMemory()
		case <-s.memoryCheck.C:
			s.recheckMemory()
		case <-s.unsaved.C:
			s.save(writeDurably)
		case e := <-s.rootEnded:
			s.exit(e)
		case <-s.gone:
			s.finish()
		}
	}
	s.agent.close()
	if err := os.Remove(filepath.Join(s.folder, proxyproto.SocketFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		complain(err)
	}
}

// start starts the command; a failure is the job's result.
func (s *supervisor) start() {
	s.startTime = time.Now()
	s.meter.begin(s.startTime)
	err := s.inside.create()
	if err == nil {
		if err = s.launch(); err != nil {
			err = errors.Join(err, s.inside.remove())
		}
	}
	if err != nil {
		s.verdict.decide(verdict{outcome: proxyproto.OutcomeStartFailed, err: err.Error()})
		s.conclude(0)
		return
	}
	if root, err := proctree.Read(s.child.pid); err == nil {
		s.started = &proxyproto.Started{Identity: root.Identity, Time: s.startTime}
		s.rootName = root.Name
	}
	go reap(s.child.pid, s.rootEnded, s.reaped)
	s.sample.Reset(s.schedule.next())
	if limit := s.spec.TimeLimit(); limit > 0 {
		s.timeLimit.Reset(limit)
	}
	s.agent.send(proxyproto.Message{Started: s.started})
}

// launch opens the pipes and starts the root process.
func (s *supervisor) launch() error {
	stop, err := s.inside.watchMemory(func() {
		select {
		case s.memoryLow <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	s.stopWatch = stop
	stdout, stdoutEnd, err := startCapture(s.spec.OutputFolder, "stdout", s.spec.StdoutLimit)
	if err != nil {
		return fmt.Errorf("capture output: %w", err)
	}
	s.stdout = stdout
	defer stdoutEnd.Close()
	stderr, stderrEnd, err := startCapture(s.spec.OutputFolder, "stderr", s.spec.StderrLimit)
	if err != nil {
		return fmt.Errorf("capture output: %w", err)
	}
	s.stderr = stderr
	defer stderrEnd.Close()
	s.child, err = startChild(s.spec, s.inside, stdoutEnd, stderrEnd)
	return err
}

// serve carries out what a connection says.
func (s *supervisor) serve(r request) {
	switch {
	case r.opened:
		s.agent.close()
		s.agent = r.from
		s.greet()
		return
	case r.err != nil:
		r.from.send(proxyproto.Message{Error: &proxyproto.Error{Error: r.err.Error()}})
		return
	}
	err := checkCommand(r.message, s.result != nil)
	if err == nil {
		err = s.obey(r.message)
	}
	if err != nil {
		r.from.send(proxyproto.Message{Error: &proxyproto.Error{Message: r.message.Name(), Error: err.Error()}})
	}
}

// greet tells a new connection what has happened so far.
func (s *supervisor) greet() {
	s.agent.send(proxyproto.Message{Hello: &proxyproto.Hello{Version: proxyproto.Version, JobID: s.spec.JobID, Identity: s.self}})
	if s.started != nil {
		s.agent.send(proxyproto.Message{Started: s.started})
	}
	if s.result != nil {
		s.agent.send(proxyproto.Message{Exited: s.result})
	}
}

// obey carries out a message that checkCommand has found to be good.
func (s *supervisor) obey(m proxyproto.Message) error {
	switch {
	case m.Renew != nil:
		s.lease.Reset(time.Duration(m.Renew.LeaseMillis) * time.Millisecond)
	case m.Signal != nil:
		number := unix.SignalNum(m.Signal.Name)
		if m.Signal.RootOnly {
			return s.child.signal(number)
		}
		return signalAll(s.inside, number)
	case m.Interrupt != nil:
		s.interrupt(*m.Interrupt)
	case m.Stop != nil:
		s.stop(*m.Stop)
	case m.Release != nil:
		s.leave = true
	}
	return nil
}

// stop asks the job to go, and sees to it that it does.
func (s *supervisor) stop(stop proxyproto.Stop) {
	if s.over() {
		return
	}
	s.verdict.decide(verdict{outcome: proxyproto.OutcomeStopped, reason: stop.Reason})
	if stop.GraceMillis == 0 {
		s.endTree()
		return
	}
	if s.graceEnd.IsZero() {
		complainIf(signalAll(s.inside, unix.SIGTERM))
	}
	s.endIn(stop.GraceMillis)
}

// interrupt asks the job to end by itself, once, and holds the deadline, whatever
// becomes of the agent. A job that is being stopped is not asked.
func (s *supervisor) interrupt(m proxyproto.Interrupt) {
	if s.over() {
		return
	}
	if s.graceEnd.IsZero() {
		s.interruption = &m
		number := unix.SignalNum(m.Signal)
		if m.RootOnly {
			complainIf(s.child.signal(number))
		} else {
			complainIf(signalAll(s.inside, number))
		}
	}
	s.endIn(m.GraceMillis)
}

// over: the job has ended, or is being ended.
func (s *supervisor) over() bool { return s.root != nil || s.result != nil || s.endingAll }

// endIn ends the job after so long, unless it is to end earlier.
func (s *supervisor) endIn(graceMillis int64) {
	end := time.Now().Add(time.Duration(graceMillis) * time.Millisecond)
	if s.graceEnd.IsZero() || end.Before(s.graceEnd) {
		s.graceEnd = end
		s.grace.Reset(time.Until(end))
	}
}

// graceOver ends a job that has not gone in the time that it was given.
func (s *supervisor) graceOver() {
	if s.interruption != nil {
		s.end(verdict{outcome: proxyproto.OutcomeStopped, reason: s.interruption.Reason})
		return
	}
	s.endTree()
}

// expire ends a job, or leaves behind the result of one, that no agent wants.
func (s *supervisor) expire() {
	if s.result != nil {
		s.leave = true
		return
	}
	s.end(verdict{outcome: proxyproto.OutcomeLeaseExpired, err: "the agent was not heard from in time"})
	// The result waits this long for an agent to come back.
	s.lease.Reset(s.spec.Lease())
}

// end ends the job at once, for a cause.
func (s *supervisor) end(cause verdict) {
	if s.root == nil && s.result == nil {
		s.verdict.decide(cause)
		s.endTree()
	}
}

// exit takes the end of the root process. Whoever it left behind goes too.
func (s *supervisor) exit(e ending) {
	s.root = &e
	if !s.verdict.decided() && !s.checkMemory() {
		events, err := s.inside.memoryEvents()
		if err != nil {
			complain(err)
		}
		s.verdict.decide(causeOfExit(e.status, events))
	}
	s.endTree()
}

// endTree ends every process of the job, in the background; gone is told when
// all have been waited for and their output is complete.
func (s *supervisor) endTree() {
	if s.endingAll {
		return
	}
	s.endingAll = true
	alone := s.root != nil && s.spec.Cgroups.None()
	go func() {
		for !alone || !s.childless() {
			err := s.inside.kill(killPatience)
			if err == nil {
				break
			}
			complain(err)
		}
		s.awaitReaped()
		s.stdout.finish()
		s.stderr.finish()
		close(s.gone)
	}()
}

// childless says whether all descendants have been waited for, and spares a
// tree that has ended by itself the reading of all processes.
func (s *supervisor) childless() bool {
	select {
	case <-s.reaped:
		return true
	case <-time.After(reapTime):
		return false
	}
}

// awaitReaped waits until every child has been waited for. A job of root may
// have moved a process out of its groups, but not away from its foster parent.
func (s *supervisor) awaitReaped() {
	for {
		select {
		case <-s.reaped:
			return
		case <-time.After(escapePeriod):
			if err := (&tree{}).kill(killPatience); err != nil {
				complain(err)
			}
		}
	}
}

// complainIf complains about an error, if there is one.
func complainIf(err error) {
	if err != nil {
		complain(err)
	}
}

// complain writes to the proxy's log.
func complain(err error) {
	fmt.Fprintf(os.Stderr, "%s %v\n", time.Now().UTC().Format(time.RFC3339Nano), err)
}
