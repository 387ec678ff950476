package main

import (
	"slices"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

// measure takes a sample, and judges by it where only measuring can.
func (s *supervisor) measure(now time.Time) {
	if s.result != nil || s.endingAll {
		return
	}
	s.sample.Reset(s.schedule.next())
	usage, err := s.inside.usage()
	if err != nil {
		complain(err)
		return
	}
	s.meter.observe(now, usage)
	limit := s.spec.MemoryLimit
	if limit > 0 && float64(usage.Memory) >= nearLimit*float64(limit) {
		s.noteSuspects()
	}
	if limit > 0 && s.spec.Cgroups.None() && usage.Memory > limit {
		s.end(s.memoryVerdict(usage.Memory))
	} else {
		s.checkMemory()
	}
	if s.schedule.due(now) {
		s.agent.send(proxyproto.Message{Sample: &proxyproto.Sample{MemoryBytes: usage.Memory, Statistics: s.statistics()}})
	}
}

// suspectMemory reacts to the kernel telling that memory has run out. It tells
// before it kills: who is big now is known for the last time.
func (s *supervisor) suspectMemory() {
	if s.result != nil || s.endingAll {
		return
	}
	s.noteSuspects()
	s.memoryChecksLeft = memoryChecks
	s.recheckMemory()
}

// recheckMemory looks again until the kernel has killed, or clearly did not.
func (s *supervisor) recheckMemory() {
	if s.result != nil || s.endingAll || s.checkMemory() || s.memoryChecksLeft == 0 {
		return
	}
	s.memoryChecksLeft--
	s.memoryCheck.Reset(memoryCheckPeriod)
}

// checkMemory ends the job when the kernel has killed a process of it at its
// memory limit, and says whether it did. On v1 the others would live on.
func (s *supervisor) checkMemory() bool {
	events, err := s.inside.memoryEvents()
	if err != nil {
		complain(err)
		return false
	}
	if !events.Killed || !events.LimitHit {
		return false
	}
	usage, err := s.inside.usage()
	if err != nil {
		complain(err)
	}
	// The victim's memory may be free again. It was all in use, or the kernel
	// would not have killed.
	s.verdict.decide(s.memoryVerdict(max(usage.Memory, s.spec.MemoryLimit)))
	s.endTree()
	return true
}

func (s *supervisor) memoryVerdict(usage int64) verdict {
	excess := &proxyproto.MemoryExcess{Usage: usage, Limit: s.spec.MemoryLimit, Biggest: s.suspects}
	return verdict{outcome: proxyproto.OutcomeMemoryLimitExceeded, err: excess.String(), memory: excess}
}

// noteSuspects remembers the biggest processes. The kernel's victim may have
// gone meanwhile: a list that adds up to less than before is no better.
func (s *supervisor) noteSuspects() {
	list := biggestProcesses(s.inside)
	if total(list) >= total(s.suspects)/2 {
		s.suspects = list
	}
}

func total(list []proxyproto.ProcessMemory) int64 {
	var sum int64
	for _, process := range list {
		sum += process.Bytes
	}
	return sum
}

// finishMeasuring measures a job that has ended and whose groups are still
// there.
func (s *supervisor) finishMeasuring() {
	usage, err := s.inside.usage()
	if err != nil {
		complain(err)
	} else {
		usage.Memory = 0
		s.meter.observe(s.root.time, usage)
	}
	peak := processPeak(s.root.usage)
	s.meter.observeEnd(s.root.time, usage.Peak, peak)
	if excess := s.verdict.memory; excess != nil {
		s.meter.statistics.MaxMemory = max(s.meter.statistics.MaxMemory, excess.Usage)
		s.nameVictims(excess)
		if total(excess.Biggest) < peak {
			// The kernel was faster than the look at the processes.
			excess.Biggest = []proxyproto.ProcessMemory{{Pid: s.child.pid, Name: s.rootName, Bytes: peak}}
			s.verdict.err = excess.String()
		}
	}
}

// nameVictims adds whom the kernel killed to those who were seen.
func (s *supervisor) nameVictims(excess *proxyproto.MemoryExcess) {
	if s.spec.Cgroups.None() {
		return
	}
	killed := newVictims(s.spec.Cgroups)
	if err := killed.read(); err != nil {
		complain(err)
	}
	excess.Biggest = merge(excess.Biggest, killed.list)
	s.verdict.err = excess.String()
}

// merge joins two lists of processes, each process with the most that is known of it.
func merge(seen, more []proxyproto.ProcessMemory) []proxyproto.ProcessMemory {
	list := slices.Clone(seen)
	for _, process := range more {
		same := func(p proxyproto.ProcessMemory) bool { return p.Pid == process.Pid }
		if i := slices.IndexFunc(list, same); i >= 0 {
			process.Bytes = max(process.Bytes, list[i].Bytes)
			list = slices.Delete(list, i, i+1)
		}
		list = append(list, process)
	}
	return mostMemory(list)
}

// statistics are the meter's, with the output's.
func (s *supervisor) statistics() proxyproto.Statistics {
	statistics := s.meter.statistics
	if s.stdout != nil {
		statistics.StdoutBytes, statistics.StdoutDroppedBytes = s.stdout.written.Load(), s.stdout.dropped.Load()
	}
	if s.stderr != nil {
		statistics.StderrBytes, statistics.StderrDroppedBytes = s.stderr.written.Load(), s.stderr.dropped.Load()
	}
	return statistics
}
