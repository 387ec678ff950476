package main

import (
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

// meter turns measurements into statistics. It is pure: time comes in.
type meter struct {
	current    int64
	statistics proxyproto.Statistics
	last       time.Time
}

// begin sets the time from which memory is integrated.
func (m *meter) begin(now time.Time) { m.last = now }

// observe takes a measurement.
func (m *meter) observe(now time.Time, usage cgroup.Usage) {
	m.advance(now)
	m.current = usage.Memory
	m.statistics.MaxMemory = max(m.statistics.MaxMemory, usage.Memory)
	// A process that was missed must not take its time back.
	m.statistics.CPUUserMicros = max(m.statistics.CPUUserMicros, usage.CPUUser.Microseconds())
	m.statistics.CPUSystemMicros = max(m.statistics.CPUSystemMicros, usage.CPUSystem.Microseconds())
}

// observeEnd takes what is known when all is over: the kernel's own peaks of
// the whole group (0: not known), which counts file pages, and of the biggest
// process, which counts what it shares with others. The truth between two
// samples is not above the smaller one.
func (m *meter) observeEnd(now time.Time, groupPeak, processPeak int64) {
	peak := processPeak
	if groupPeak > 0 {
		peak = min(peak, groupPeak)
	}
	m.statistics.MaxMemory = max(m.statistics.MaxMemory, peak)
	m.advance(now)
	m.current = 0
}

// advance integrates the most memory seen so far up to now.
func (m *meter) advance(now time.Time) {
	if passed := now.Sub(m.last); passed > 0 {
		m.statistics.CumulativeMaxMemory += float64(m.statistics.MaxMemory) * passed.Seconds()
		m.last = now
	}
}

// processPeak is the most memory that the root process or a descendant which it
// waited for has held. Until a child has its own program it is counted with the
// proxy's memory, so what is not above that says nothing.
func processPeak(child unix.Rusage) int64 {
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil || child.Maxrss <= own.Maxrss {
		return 0
	}
	return child.Maxrss << 10
}

// firstSample is the time to the first measurement. Each next one takes twice
// as long, until the period is reached: short jobs are measured too.
const firstSample = 20 * time.Millisecond

// treePeriod is the longest time between measurements where measuring is the
// only way to enforce a memory limit.
const treePeriod = 100 * time.Millisecond

// schedule says when to measure, and when to tell the agent.
type schedule struct {
	wait, measure, tell time.Duration
	lastTold            time.Time
}

func newSchedule(spec *proxyproto.Spec) schedule {
	s := schedule{wait: firstSample, measure: spec.SamplePeriod(), tell: spec.SamplePeriod()}
	if spec.Cgroups.None() && spec.MemoryLimit > 0 {
		s.measure = min(s.measure, treePeriod)
	}
	s.wait = min(s.wait, s.measure)
	return s
}

// next returns the time to the next measurement.
func (s *schedule) next() time.Duration {
	wait := s.wait
	s.wait = min(2*s.wait, s.measure)
	return wait
}

// due says whether the measurement at now is to be told.
func (s *schedule) due(now time.Time) bool {
	// Half a measurement early is better than a whole one late.
	if now.Before(s.lastTold.Add(s.tell - s.wait/2)) {
		return false
	}
	s.lastTold = now
	return true
}
