package main

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// meter turns measurements into statistics. It is pure: time comes in.
type meter struct {
	// current and tmpfs are the last measurement's, netPeak and tmpfsPeak the most of the
	// processes alone and of the volumes.
	current, tmpfs     int64
	netPeak, tmpfsPeak int64
	// cache is the last measurement's, groupPeak the kernel's own peak by then.
	cache, groupPeak int64
	// seen: there has been a measurement.
	seen            bool
	wait, throttled time.Duration
	peakPids        int64

	statistics proxyproto.Statistics
	last       time.Time
}

// begin sets the time from which memory is integrated.
func (m *meter) begin(now time.Time) { m.last = now }

// observe takes a measurement; tmpfs is the part of the memory that is in volumes.
func (m *meter) observe(now time.Time, usage cgroup.Usage, tmpfs int64) {
	if !m.seen {
		m.observeGap(usage, tmpfs)
	}
	m.seen, m.cache, m.groupPeak = true, usage.Cache, max(m.groupPeak, usage.Peak)
	m.advance(now)
	m.current, m.tmpfs = usage.Memory, tmpfs
	m.netPeak = max(m.netPeak, usage.Memory-tmpfs)
	m.tmpfsPeak = max(m.tmpfsPeak, tmpfs)
	m.wait, m.throttled = max(m.wait, usage.CPUWait), max(m.throttled, usage.CPUThrottled)
	m.peakPids = max(m.peakPids, usage.PeakPids)
	m.statistics.MaxMemory = max(m.statistics.MaxMemory, usage.Memory)
	// A process that was missed must not take its time back.
	m.statistics.CPUUserMicros = max(m.statistics.CPUUserMicros, usage.CPUUser.Microseconds())
	m.statistics.CPUSystemMicros = max(m.statistics.CPUSystemMicros, usage.CPUSystem.Microseconds())
}

// observeGap takes what was used before the first measurement, or since the last, and is not any
// more: if the kernel has seen a new peak of all that is charged, as much was used then as is
// left of it without the file pages, and without tmpfs, of the measurement before or after that
// has more. Between others it would take files that a job writes and removes for memory.
func (m *meter) observeGap(usage cgroup.Usage, tmpfs int64) {
	if usage.Peak > m.groupPeak {
		peak := usage.Peak - max(m.cache, usage.Cache)
		m.netPeak = max(m.netPeak, peak-max(m.tmpfs, tmpfs))
		m.statistics.MaxMemory = max(m.statistics.MaxMemory, peak)
	}
}

// observeEnd takes what is known when all is over: the most that the biggest process has held,
// with what it shares with others (0: not known). The truth is not above the kernel's peak of
// the whole group, where there is one. least is what a process has held that was too small and
// too short for anything else to be known of it.
func (m *meter) observeEnd(now time.Time, processPeak, least int64) {
	peak := processPeak
	if m.groupPeak > 0 {
		peak = min(peak, m.groupPeak)
	}
	if m.netPeak == 0 && peak == 0 {
		peak = least
	}
	m.netPeak = max(m.netPeak, peak)
	m.statistics.MaxMemory = max(m.statistics.MaxMemory, peak)
	m.advance(now)
	m.current, m.tmpfs = 0, 0
}

// advance integrates the most memory seen so far up to now.
func (m *meter) advance(now time.Time) {
	if passed := now.Sub(m.last); passed > 0 {
		m.statistics.CumulativeMaxMemory += float64(m.statistics.MaxMemory) * passed.Seconds()
		m.last = now
	}
}

// processPeak is the most memory that a process of the job has held which was waited for; 0: it
// is not known. Until a child has its own program it is counted with the memory of the proxy,
// which was own then, so what is not above that says only that the truth is not above either:
// that is least.
func processPeak(root unix.Rusage, alone bool, own int64) (peak, least int64) {
	least = root.Maxrss << 10
	// The init of a strictly isolated job is no process of the job.
	if alone {
		least = max(least, used(unix.RUSAGE_CHILDREN).Maxrss<<10)
	}
	if least > own {
		peak = least
	}
	return peak, least
}

// ownPeak is the most memory that the proxy has held; where it cannot be told, more than any
// process has.
func ownPeak() int64 {
	own, err := proctree.Peak(os.Getpid())
	if err != nil {
		complain(err)
		return math.MaxInt64
	}
	return own
}

// firstSample is the time to the first measurement. Each next one takes twice
// as long, until the period is reached: short jobs are measured too.
const firstSample = 20 * time.Millisecond

// treePeriod is the longest time between measurements where measuring is the
// only way to enforce a limit.
const treePeriod = 100 * time.Millisecond

// schedule says when to measure, and when to tell the agent.
type schedule struct {
	wait, measure, tell time.Duration
	lastTold            time.Time
}

func newSchedule(spec *proxyproto.Spec) schedule {
	s := schedule{wait: firstSample, measure: spec.SamplePeriod(), tell: spec.SamplePeriod()}
	if spec.Cgroups.None() && (spec.MemoryLimit > 0 || spec.PidsLimit > 0) {
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
