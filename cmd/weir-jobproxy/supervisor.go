package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// supervisor runs the job. Its fields belong to the goroutine of run.
type supervisor struct {
	folder  string
	spec    *proxyproto.Spec
	outside outside
	server  *server
	agent   *connection
	signals <-chan os.Signal

	inside         enclosure
	child          child
	streams        streams
	volumes        *volumes
	waited         *waited
	beside         beside
	prober         *prober
	visits         *visits
	started        *proxyproto.Started
	startTime      time.Time
	stdout, stderr *capture

	// lease, deadline and timeLimit end the job when they expire. memory and disk end it when it
	// exceeds its limits.
	lease     lease
	deadline  deadline
	timeLimit *time.Timer
	memory    memoryWatch
	disk      diskWatch
	sample    *time.Timer
	meter     meter
	schedule  schedule

	// child.await sends rootEnded and closes reaped, endTree closes gone, streams send failed
	// and flushed, probe sends probed, and exec sends executed.
	rootEnded chan ending
	reaped    chan struct{}
	gone      chan struct{}
	failed    chan verdict
	flushed   chan remains
	probed    chan probed
	executed  chan executed
	// cancelFlush is nil until flush starts. abandoned is the cause for which the streams must stop
	// keeping output and files.
	cancelFlush func()
	abandoned   verdict

	verdict    verdict
	root       *ending
	endingAll  bool
	ending     endWatch
	remains    remains
	conclusion conclusion
	leave      bool
	// stay says that the proxy is to wait for another job.
	stay bool
	// claim is the claim to the job's user; nil: there is none. cpu is what the proxy has used for earlier jobs.
	claim *os.File
	cpu   unix.Rusage
	// removing is done when the enclosure of the ended job has been removed. unremoved is then why it is not.
	removing  sync.WaitGroup
	unremoved error
}

func newSupervisor(folder string, spec *proxyproto.Spec, outside outside, server *server, told <-chan os.Signal) *supervisor {
	pace := new(progress)
	volumes := new(volumes)
	waited := newWaited()
	inside := newEnclosure(spec, volumes, waited)
	s := &supervisor{
		folder:     folder,
		spec:       spec,
		outside:    outside,
		server:     server,
		signals:    told,
		inside:     inside,
		streams:    &dataStreams{spec: spec, folder: folder, ending: pace},
		volumes:    volumes,
		waited:     waited,
		lease:      newLease(spec),
		deadline:   deadline{timer: stoppedTimer()},
		memory:     newMemoryWatch(spec, inside, volumes, outside),
		disk:       newDiskWatch(newDisk(spec, folder, inside.processes)),
		probed:     make(chan probed),
		executed:   make(chan executed),
		rootEnded:  make(chan ending, 1),
		reaped:     make(chan struct{}),
		gone:       make(chan struct{}),
		failed:     make(chan verdict, 1),
		flushed:    make(chan remains, 1),
		timeLimit:  stoppedTimer(),
		sample:     stoppedTimer(),
		schedule:   newSchedule(spec),
		ending:     endWatch{progress: pace, limit: spec.EndTimeout(), timer: stoppedTimer()},
		conclusion: conclusion{saved: make(chan struct{}, 1)},
	}
	s.prober = &prober{inside: inside, spec: spec, beside: &s.beside}
	s.visits = &visits{inside: inside, spec: spec, beside: &s.beside}
	return s
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// run starts the job, supervises it to its end, and returns when the agent has released it or
// its lease has expired. Then stay says whether the proxy can run another. The agent disposes of the folder of a separate job, with its socket.
func (s *supervisor) run() {
	s.start()
	for !s.leave {
		select {
		case r := <-s.server.requests:
			s.serve(r)
		case <-s.signals:
			s.stop(proxyproto.Stop{Reason: "weir-jobproxy received SIGTERM"})
		case <-s.lease.over:
			s.leaseOver()
		case <-s.timeLimit.C:
			s.end(verdict{outcome: proxyproto.OutcomeTimeLimitExceeded, err: fmt.Sprintf("reached its time limit of %v", s.spec.TimeLimit())})
		case <-s.deadline.timer.C:
			s.graceOver()
		case now := <-s.sample.C:
			s.lookAt(now)
		case <-s.memory.low:
			s.suspectMemory()
		case <-s.memory.check.C:
			s.recheckMemory()
		case <-s.conclusion.saved:
			s.resultKept()
		case <-s.ending.timer.C:
			s.checkStall(time.Now())
		case e := <-s.rootEnded:
			s.exit(e)
		case cause := <-s.failed:
			s.end(cause)
		case use := <-s.disk.told:
			s.takeDisk(use)
		case <-s.gone:
			s.finish()
		case r := <-s.flushed:
			s.takeRemains(r)
		case p := <-s.probed:
			p.asked.send(proxyproto.Message{Probed: &p.Probed})
		case e := <-s.executed:
			e.asked.send(proxyproto.Message{Executed: &e.Executed})
		}
	}
	s.removing.Wait()
	if s.stay = s.stay && s.restore(); s.stay {
		return
	}
	s.agent.close()
	if !s.spec.Separated() {
		complain(os.Remove(filepath.Join(s.folder, proxyproto.SocketFile)), os.ErrNotExist)
	}
}

// serve handles a request of a connection.
func (s *supervisor) serve(r request) {
	switch {
	case r.opened:
		s.agent.close()
		s.lease.unshare()
		s.agent, s.conclusion.last = r.from, false
		s.greet()
		return
	case r.closed:
		r.from.end()
		if r.from == s.agent {
			s.lease.unshare()
		}
		if !s.agent.listens() {
			s.keepResult()
		}
		return
	}
	err := r.err
	if err == nil {
		err = checkCommand(r.message, s.conclusion.told)
	}
	switch {
	case err != nil && r.message.Exec != nil:
		r.from.refuse(*r.message.Exec, r.files, err)
		return
	case err != nil:
		closeAll(r.files)
		r.from.send(proxyproto.Message{Error: &proxyproto.Error{Message: r.message.Name(), Error: err.Error()}})
		return
	}
	s.obey(r)
}

// greet sends a new connection all that has happened so far.
func (s *supervisor) greet() {
	s.agent.send(proxyproto.Message{Hello: &proxyproto.Hello{Version: proxyproto.Version, JobID: s.spec.JobID, Identity: s.outside.self, RenewsUntil: true, Execs: true, Stays: true, Shares: true}})
	if s.started != nil {
		s.agent.send(proxyproto.Message{Started: s.started})
	}
	if s.conclusion.told {
		s.agent.send(proxyproto.Message{Exited: s.conclusion.result})
	}
	if s.started != nil {
		// The agent may be a new one, which knows nothing of what the job uses.
		s.schedule.lastTold = time.Time{}
		s.measure(time.Now())
	}
}

// obey carries out a request whose message checkCommand has accepted.
func (s *supervisor) obey(r request) {
	switch m := r.message; {
	case m.Renew != nil:
		s.lease.renew(*m.Renew)
		if m.Renew.Shared {
			s.shareLease(r)
		}
	case m.Measure != nil:
		s.measure(time.Now())
	case m.Interrupt != nil:
		s.interrupt(*m.Interrupt)
	case m.Probe != nil:
		s.probe(*m.Probe)
	case m.Exec != nil:
		s.exec(*m.Exec, r.files)
	case m.HangUp != nil:
		s.visits.hangUp(m.HangUp.Session)
	case m.Stop != nil:
		s.stop(*m.Stop)
	case m.Release != nil:
		s.leave, s.stay = true, m.Release.Stay && r.from == s.agent
	}
}

// shareLease makes the lease follow what the agent shares, unless another connection has taken its place.
func (s *supervisor) shareLease(r request) {
	if r.from != s.agent {
		closeAll(r.files)
		return
	}
	if err := s.lease.share(r.files[0]); err != nil {
		r.from.send(proxyproto.Message{Error: &proxyproto.Error{Message: r.message.Name(), Error: err.Error()}})
	}
}

// stop asks the job to end, and kills it after the grace period.
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
	if !s.deadline.set() {
		complain(signalAll(s.inside, unix.SIGTERM))
	}
	s.deadline.within(stop.GraceMillis)
}

// interrupt asks the job to end by itself, once, and enforces the deadline, even if the agent
// goes away. A job that is already being stopped is not asked to end.
func (s *supervisor) interrupt(m proxyproto.Interrupt) {
	if s.hearEnd(); s.over() {
		return
	}
	if !s.deadline.set() {
		s.deadline.interruption = &m
		switch number := unix.SignalNum(m.Signal); {
		case number == 0:
		case m.RootOnly:
			complain(s.child.signal(number))
		default:
			complain(signalAll(s.inside, number))
		}
		s.streams.interrupt()
	}
	s.deadline.within(m.GraceMillis)
}

// probed is the outcome of a probe, and the connection that asked for it.
type probed struct {
	proxyproto.Probed
	asked *connection
}

// probe runs a command beside the job's own, and sends the outcome to the connection that
// asked.
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

// over reports whether the job has ended or is being ended.
func (s *supervisor) over() bool { return s.root != nil || s.conclusion.result != nil || s.endingAll }

// graceOver ends a job that has not ended in its grace period.
func (s *supervisor) graceOver() {
	if order := s.deadline.interruption; order != nil {
		s.end(verdict{outcome: proxyproto.OutcomeStopped, reason: order.Reason})
		return
	}
	s.endTree()
}

// end kills the job, for a cause.
func (s *supervisor) end(cause verdict) {
	if s.hearEnd(); s.root == nil && s.conclusion.result == nil {
		s.verdict.decide(cause)
		s.endTree()
	}
}

// hearEnd handles the end of the root process if it has ended already. If the process has exited by
// itself before it could be stopped, its own exit is the result.
func (s *supervisor) hearEnd() {
	select {
	case e := <-s.rootEnded:
		s.exit(e)
	default:
	}
}

// exit handles the end of the root process. Processes that it left behind are killed.
func (s *supervisor) exit(e ending) {
	s.root = &e
	if !s.verdict.decided() {
		if events := s.memory.events(); !s.judgeMemory(events) {
			refused := int64(0)
			if e.status != 0 {
				var err error
				refused, err = s.inside.RefusedForks()
				complain(err)
			}
			s.verdict.decide(causeOfExit(e.status, events, refused, s.spec.PidsLimit))
		}
	}
	s.endTree()
}
