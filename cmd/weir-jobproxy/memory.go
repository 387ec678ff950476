package main

import (
	"fmt"
	"time"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

const (
	// memoryChecks is how many times MemoryEvents is read, memoryCheckPeriod apart, after the
	// kernel has reported that memory ran out.
	memoryChecks      = 100
	memoryCheckPeriod = 5 * time.Millisecond
	// nearLimit is the fraction of the memory limit at which samples begin to record the biggest
	// processes.
	nearLimit = 0.75
)

// memoryWatch finds out whether the job exceeds its memory limit, and which processes use the
// memory.
type memoryWatch struct {
	spec    *proxyproto.Spec
	inside  enclosure
	volumes *volumes
	outside outside
	scorer  scorer
	// suspects are the biggest processes seen so far.
	suspects []proxyproto.ProcessMemory
	// low receives a value when the kernel reports low memory. After that, the timer check fires up
	// to checksLeft times.
	low        chan struct{}
	check      *time.Timer
	checksLeft int
	// stop ends the kernel's reports.
	stop func()
	// ownPeak is the proxy's peak memory when it started the command. rootName is the name of the
	// command's process.
	ownPeak  int64
	rootName string
}

func newMemoryWatch(spec *proxyproto.Spec, inside enclosure, volumes *volumes, outside outside) memoryWatch {
	return memoryWatch{
		spec: spec, inside: inside, volumes: volumes, outside: outside, scorer: newScorer(spec.MemoryReserve),
		low: make(chan struct{}, 1), check: stoppedTimer(), stop: func() {},
	}
}

// lookAt takes a sample, unless the job is at rest and its agent watches over its memory.
func (s *supervisor) lookAt(now time.Time) {
	if s.conclusion.result != nil || s.endingAll {
		return
	}
	s.lease.follow()
	if s.lease.shared != nil && s.schedule.wait >= s.schedule.measure {
		charged, cpu, err := s.inside.Glance()
		if err == nil && s.schedule.calm.look(now, charged, cpu) {
			s.sample.Reset(s.schedule.rest())
			return
		}
	}
	s.measure(now)
}

// measure takes a sample, and enforces the limits that only measuring can enforce.
func (s *supervisor) measure(now time.Time) {
	if s.conclusion.result != nil || s.endingAll {
		return
	}
	s.sample.Reset(s.schedule.next())
	usage, err := s.inside.Usage()
	if err != nil {
		complain(err)
		return
	}
	s.meter.observe(now, usage, s.volumes.used())
	s.memory.scorer.score(s.inside, usage.Memory)
	limit := s.spec.MemoryLimit
	if limit > 0 && float64(usage.Memory) >= nearLimit*float64(limit) {
		s.memory.noteSuspects()
	}
	switch pids := pidsLimit(s.spec); {
	case limit > 0 && s.spec.Cgroups.None() && usage.Memory > limit:
		s.end(s.memory.excess(usage.Memory))
	case pids > 0 && s.spec.Cgroups.None() && usage.PeakPids > int64(pids):
		s.end(verdict{outcome: proxyproto.OutcomePidsLimitExceeded,
			err: fmt.Sprintf("Process limit exceeded: %d processes and threads, the limit is %d", usage.PeakPids, s.spec.PidsLimit)})
	default:
		s.checkMemory()
	}
	if s.schedule.due(now) {
		// The job is at rest while it uses what the agent knows.
		s.schedule.calm.measure(now, usage)
		s.agent.send(proxyproto.Message{Sample: &proxyproto.Sample{MemoryBytes: usage.Memory, ProxyMemoryBytes: s.ownMemory(), Statistics: s.statistics()}})
	}
}

// suspectMemory reacts to the kernel's report that memory has run out. The kernel reports
// before it kills: this is the last chance to see which processes are big.
func (s *supervisor) suspectMemory() {
	if s.conclusion.result != nil || s.endingAll {
		return
	}
	s.memory.noteSuspects()
	s.memory.checksLeft = memoryChecks
	s.recheckMemory()
}

// recheckMemory checks again until the kernel has killed a process, or it is clear that it will
// not.
func (s *supervisor) recheckMemory() {
	if s.conclusion.result != nil || s.endingAll || s.checkMemory() || s.memory.checksLeft == 0 {
		return
	}
	s.memory.checksLeft--
	s.memory.check.Reset(memoryCheckPeriod)
}

// checkMemory ends the job if the kernel has killed one of its processes at its memory limit,
// and reports whether it has. With cgroup v1 the other processes would live on.
func (s *supervisor) checkMemory() bool { return s.judgeMemory(s.memory.events()) }

// events returns the kernel's report about the job's memory limit; zero on an error.
func (m *memoryWatch) events() cgroup.MemoryEvents {
	events, err := m.inside.MemoryEvents()
	complain(err)
	return events
}

// judgeMemory is checkMemory for events that have already been read.
func (s *supervisor) judgeMemory(events cgroup.MemoryEvents) bool {
	if !events.Killed || !events.LimitHit {
		return false
	}
	usage, err := s.inside.Usage()
	complain(err)
	// The victim's memory may be free again by now. The job must have used its whole limit:
	// otherwise the kernel would have killed nothing.
	s.verdict.decide(s.memory.excess(max(usage.Memory, s.spec.MemoryLimit)))
	s.endTree()
	return true
}

// excess returns the verdict on a job whose memory usage exceeds its limit.
func (m *memoryWatch) excess(usage int64) verdict {
	excess := &proxyproto.MemoryExcess{Usage: usage, Limit: m.spec.MemoryLimit, Tmpfs: m.volumes.used(), Biggest: m.suspects}
	return verdict{outcome: proxyproto.OutcomeMemoryLimitExceeded, err: excess.String(), memory: excess}
}

// noteSuspects records the biggest processes. If they now have less than half the memory of those
// recorded before, the kernel's victim may be missing: the old list is kept.
func (m *memoryWatch) noteSuspects() {
	list := biggestProcesses(m.inside, m.outside)
	if total(list) >= total(m.suspects)/2 {
		m.suspects = list
	}
}

func total(list []proxyproto.ProcessMemory) int64 {
	var sum int64
	for _, process := range list {
		sum += process.Bytes
	}
	return sum
}

// finishMeasuring measures a job that has ended but whose groups still exist.
func (s *supervisor) finishMeasuring() {
	usage, err := s.inside.Usage()
	complain(err)
	if err == nil {
		// Only the content of volumes is left.
		tmpfs := s.volumes.used()
		usage.Memory = tmpfs
		s.meter.observeGap(usage, tmpfs)
		s.meter.observe(s.root.time, usage, tmpfs)
	}
	peak, least := s.waited.peak(s.root.usage, s.memory.ownPeak)
	s.meter.observeEnd(s.root.time, peak, least)
	if excess := s.verdict.memory; excess != nil {
		s.meter.statistics.MaxMemory = max(s.meter.statistics.MaxMemory, excess.Usage)
		excess.Biggest = s.memory.culprits(s.rootPid(), s.root.usage.Maxrss<<10)
		s.verdict.err = excess.String()
	}
}

// culprits are the suspects, or the root process if it held more than all of them: the kernel
// killed it before a sample saw it.
func (m *memoryWatch) culprits(pid int, held int64) []proxyproto.ProcessMemory {
	if held > m.ownPeak && held > total(m.suspects) {
		return []proxyproto.ProcessMemory{{Pid: pid, Name: m.rootName, Bytes: held}}
	}
	return m.suspects
}
