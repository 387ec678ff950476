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
	folder  string
	spec    *proxyproto.Spec
	self    proxyproto.Identity
	server  *server
	agent   *connection
	signals <-chan os.Signal

	inside   enclosure
	child    child
	streams  streams
	volumes  *volumes
	disk     disk
	scorer   scorer
	prober   *prober
	started  *proxyproto.Started
	rootName string
	// ownPeak is the most memory that the proxy had held when it started the command.
	ownPeak        int64
	startTime      time.Time
	stdout, stderr *capture

	// rootEnded and reaped are told by reap, gone by endTree, memoryLow by the
	// kernel, failed and flushed by the streams.
	rootEnded chan ending
	reaped    chan struct{}
	gone      chan struct{}
	memoryLow chan struct{}
	failed    chan verdict
	flushed   chan remains
	probed    chan probed
	// diskTold has what the workspace takes; diskLast is what it took in the end, set
	// before gone is told.
	diskTold  chan diskUse
	diskLast  diskUse
	stopDisk  func()
	stopWatch func()
	// ending is how far the end of the job has come, checkDue when that is looked at next, and
	// hang what of it hangs; saved is told when the result has been written.
	ending   *progress
	checkDue time.Time
	hang     *proxyproto.Hang
	saved    chan error
	// cancelFlush is set from when the streams finish, abandoned when they are not to.
	cancelFlush func()
	abandoned   verdict

	// leaseEnd is when lease is over, on the clock of proctree.Uptime.
	leaseEnd                                                     time.Duration
	lease, timeLimit, grace, sample, memoryCheck, unsaved, stall *time.Timer
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
	maxDisk   int64
	remains   remains
	// result is the end of the job; told: the agent may have it.
	result *proxyproto.Result
	told   bool
	leave  bool
}

func newSupervisor(folder string, spec *proxyproto.Spec, self proxyproto.Identity, server *server, told <-chan os.Signal) *supervisor {
	pace := new(progress)
	volumes := new(volumes)
	inside := newEnclosure(spec, volumes)
	leaseEnd := proctree.Uptime() + spec.Lease()
	return &supervisor{
		folder:      folder,
		spec:        spec,
		self:        self,
		server:      server,
		signals:     told,
		inside:      inside,
		streams:     newStreams(spec, folder, pace),
		volumes:     volumes,
		disk:        newDisk(spec, folder, inside.processes),
		scorer:      newScorer(spec.MemoryReserve),
		prober:      &prober{inside: inside, spec: spec},
		probed:      make(chan probed),
		rootEnded:   make(chan ending, 1),
		reaped:      make(chan struct{}),
		gone:        make(chan struct{}),
		memoryLow:   make(chan struct{}, 1),
		failed:      make(chan verdict, 1),
		flushed:     make(chan remains, 1),
		diskTold:    make(chan diskUse),
		stopDisk:    func() {},
		stopWatch:   func() {},
		leaseEnd:    leaseEnd,
		lease:       time.NewTimer(spec.Lease()),
		timeLimit:   stoppedTimer(),
		grace:       stoppedTimer(),
		sample:      stoppedTimer(),
		memoryCheck: stoppedTimer(),
		unsaved:     stoppedTimer(),
		stall:       stoppedTimer(),
		ending:      pace,
		saved:       make(chan error, 1),
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
		case <-s.signals:
			s.stop(proxyproto.Stop{Reason: "weir-jobproxy was told to end by SIGTERM"})
		case <-s.lease.C:
			s.leaseOver()
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
		case err := <-s.saved:
			s.takeSaved(err)
		case <-s.stall.C:
			s.checkStall(time.Now())
		case e := <-s.rootEnded:
			s.exit(e)
		case cause := <-s.failed:
			s.end(cause)
		case use := <-s.diskTold:
			s.takeDisk(use)
		case <-s.gone:
			s.finish()
		case r := <-s.flushed:
			s.takeRemains(r)
		case p := <-s.probed:
			p.asked.send(proxyproto.Message{Probed: &p.Probed})
		}
	}
	s.agent.close()
	if err := os.Remove(filepath.Join(s.folder, proxyproto.SocketFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		complain(err)
	}
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
	err := checkCommand(r.message, s.told)
	if err == nil {
		err = s.obey(r.message)
	}
	if err != nil {
		r.from.send(proxyproto.Message{Error: &proxyproto.Error{Message: r.message.Name(), Error: err.Error()}})
	}
}

// greet tells a new connection what has happened so far.
func (s *supervisor) greet() {
	s.agent.send(proxyproto.Message{Hello: &proxyproto.Hello{Version: proxyproto.Version, JobID: s.spec.JobID, Identity: s.self, RenewsUntil: true}})
	if s.started != nil {
		s.agent.send(proxyproto.Message{Started: s.started})
	}
	if s.told {
		s.agent.send(proxyproto.Message{Exited: s.result})
	}
}

// obey carries out a message that checkCommand has found to be good.
func (s *supervisor) obey(m proxyproto.Message) error {
	switch {
	case m.Renew != nil:
		s.renew(*m.Renew)
	case m.Signal != nil:
		number := unix.SignalNum(m.Signal.Name)
		if m.Signal.RootOnly {
			return s.child.signal(number)
		}
		return signalAll(s.inside, number)
	case m.Interrupt != nil:
		s.interrupt(*m.Interrupt)
	case m.Probe != nil:
		s.probe(*m.Probe)
	case m.Stop != nil:
		s.stop(*m.Stop)
	case m.Release != nil:
		s.leave = true
	}
	return nil
}

// stop asks the job to go, and sees to it that it does.
func (s *supervisor) stop(stop proxyproto.Stop) {
	s.hearEnd()
	if s.abandonFlush(verdict{outcome: proxyproto.OutcomeStopped, reason: stop.Reason}) || s.over() {
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
	if s.hearEnd(); s.over() {
		return
	}
	if s.graceEnd.IsZero() {
		s.interruption = &m
		switch number := unix.SignalNum(m.Signal); {
		case number == 0:
		case m.RootOnly:
			complainIf(s.child.signal(number))
		default:
			complainIf(signalAll(s.inside, number))
		}
		s.streams.interrupt()
	}
	s.endIn(m.GraceMillis)
}

// probed is the outcome of a probe, and who asked for it.
type probed struct {
	proxyproto.Probed
	asked *connection
}

// probe runs a command beside the job's own, and tells who asks now how that went.
func (s *supervisor) probe(m proxyproto.Probe) {
	asked, root := s.agent, s.child
	if s.started == nil || s.over() {
		asked.send(proxyproto.Message{Probed: &proxyproto.Probed{Error: errNoJob.Error()}})
		return
	}
	go func() {
		outcome := probed{asked: asked}
		if err := s.prober.run(root, m.Argv, time.Duration(m.TimeoutMillis)*time.Millisecond); err != nil {
			outcome.Error = clip(err.Error(), mostText)
		}
		s.probed <- outcome
	}()
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

// end ends the job at once, for a cause.
func (s *supervisor) end(cause verdict) {
	if s.hearEnd(); s.root == nil && s.result == nil {
		s.verdict.decide(cause)
		s.endTree()
	}
}

// hearEnd takes the end of the root process if it has come: what is to end the job came later,
// or at the same moment, and the job's own end counts.
func (s *supervisor) hearEnd() {
	select {
	case e := <-s.rootEnded:
		s.exit(e)
	default:
	}
}

// exit takes the end of the root process. Whoever it left behind goes too.
func (s *supervisor) exit(e ending) {
	s.root = &e
	if !s.verdict.decided() {
		if events := s.memoryEvents(); !s.judgeMemory(events) {
			s.verdict.decide(causeOfExit(e.status, events, s.refusedForks(e.status), s.spec.PidsLimit))
		}
	}
	s.endTree()
}

// refusedForks counts what may have led to an end that is not a good one.
func (s *supervisor) refusedForks(status unix.WaitStatus) int64 {
	if status == 0 {
		return 0
	}
	refused, err := s.inside.refusedForks()
	complainIf(err)
	return refused
}
