package main

import (
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// meter turns measurements into statistics. It reads no clock: callers pass the time.
type meter struct {
	// current is the memory at the last measurement, and tmpfs is the part of that memory in
	// volumes. netPeak is the peak memory without volumes, and tmpfsPeak is the peak of the
	// volumes.
	current, tmpfs     int64
	netPeak, tmpfsPeak int64
	// cache is the file cache at the last measurement. groupPeak is the kernel's peak up to that
	// measurement.
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

// observe records a measurement. `tmpfs` is the part of the memory that is in volumes.
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
	// A process that was missed in this sample must not reduce the sums.
	m.statistics.CPUUserMicros = max(m.statistics.CPUUserMicros, usage.CPUUser.Microseconds())
	m.statistics.CPUSystemMicros = max(m.statistics.CPUSystemMicros, usage.CPUSystem.Microseconds())
}

// observeGap accounts for memory that was in use only before the first measurement, or only since
// the last. If the kernel reports a new peak of all charged memory, the job used at least that peak
// minus its file cache and tmpfs. For file cache and tmpfs, the greater of the values before and
// after the gap is subtracted. Between other measurements this estimate would mistake files that a
// job writes and removes for memory.
func (m *meter) observeGap(usage cgroup.Usage, tmpfs int64) {
	if usage.Peak > m.groupPeak {
		peak := usage.Peak - max(m.cache, usage.Cache)
		m.netPeak = max(m.netPeak, peak-max(m.tmpfs, tmpfs))
		m.statistics.MaxMemory = max(m.statistics.MaxMemory, peak)
	}
}

// observeEnd records the peak memory of the biggest process, shared memory included; 0 if unknown.
// It is capped by the kernel's peak of the group, if there is one. The value `least` is recorded
// when nothing else is known, because the processes were too small and too short-lived.
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

// advance adds the peak memory so far to the integral, up to now.
func (m *meter) advance(now time.Time) {
	if passed := now.Sub(m.last); passed > 0 {
		m.statistics.CumulativeMaxMemory += float64(m.statistics.MaxMemory) * passed.Seconds()
		m.last = now
	}
}

// waited is what the processes of the job have used that were waited for.
type waited struct {
	// before is what those of earlier jobs of the proxy have used. Largest is the most that one of this job
	// held, in KiB.
	before  unix.Rusage
	largest atomic.Int64
}

func newWaited() *waited { return &waited{before: used(unix.RUSAGE_CHILDREN)} }

// note notes the end of a process. Only one goroutine calls it.
func (w *waited) note(e ending) { w.largest.Store(max(w.largest.Load(), e.usage.Maxrss)) }

// usage returns what all have used, without their memory.
func (w *waited) usage() unix.Rusage { return since(used(unix.RUSAGE_CHILDREN), w.before) }

// since returns what was used in addition to an earlier usage.
func since(usage, before unix.Rusage) unix.Rusage {
	usage.Utime = unix.NsecToTimeval(usage.Utime.Nano() - before.Utime.Nano())
	usage.Stime = unix.NsecToTimeval(usage.Stime.Nano() - before.Stime.Nano())
	usage.Inblock -= before.Inblock
	usage.Oublock -= before.Oublock
	usage.Majflt -= before.Majflt
	usage.Nvcsw -= before.Nvcsw
	usage.Nivcsw -= before.Nivcsw
	return usage
}

// peak returns the peak memory of any process of the job that was waited for; 0 if unknown.
// Until a child executes its program, the kernel counts it with the memory of the proxy, whose peak
// is the parameter `own`. So a value up to `own` only says that the true peak is no higher than
// this value; the result `peak` is then 0. The result `least` is the value in either case.
func (w *waited) peak(root unix.Rusage, own int64) (peak, least int64) {
	least = max(root.Maxrss, w.largest.Load()) << 10
	if least > own {
		peak = least
	}
	return peak, least
}

// ownPeak is the peak memory of the proxy; math.MaxInt64 if it cannot be read.
func ownPeak() int64 {
	own, err := proctree.Peak(os.Getpid())
	if err != nil {
		complain(err)
		return math.MaxInt64
	}
	return own
}

// firstSample is the time to the first measurement. Each interval is twice as long as the one
// before, up to the period, so that short jobs are measured too.
const firstSample = 20 * time.Millisecond

// treePeriod is the longest time between measurements where measuring is the
// only way to enforce a limit.
const treePeriod = 100 * time.Millisecond

const (
	// restPeriod is the longest time between two looks at a job that is at rest. Each wakes the proxy, for 0.1 ms of a
	// processor. Meanwhile the agent says when the memory of the job changes. A usual lease is a little longer, so that its
	// end does not wake the proxy too.
	restPeriod = 4 * time.Second
	// longestRest is the longest time between two measurements.
	longestRest = 2 * time.Minute
	// restMemory is by how much the memory charged to a job at rest may have changed since it was measured, in bytes.
	restMemory = 256 << 10
	// restCPU is how much processor time it may have used since it was measured, and restShare the part of a processor that
	// it may use meanwhile, as a divisor.
	restCPU   = 100 * time.Millisecond
	restShare = 100
)

// calm is what a job was seen to use: when its agent was last told, and when it was last looked at.
type calm struct {
	// limit is the memory limit of the job; 0: it has none.
	limit, charged int64
	measured, cpu  time.Duration
	since, last    time.Time
}

// measure notes a measurement that the agent is told.
func (c *calm) measure(now time.Time, usage cgroup.Usage) {
	cpu := usage.CPUUser + usage.CPUSystem
	*c = calm{limit: c.limit, charged: usage.Memory + usage.Cache, measured: cpu, cpu: cpu, since: now, last: now}
}

// look notes a look at the job, and reports whether it has been at rest since the agent was told. A job near its limit is not:
// what is charged to it stays the same when it needs memory that was file cache.
func (c *calm) look(now time.Time, charged int64, cpu time.Duration) bool {
	used, passed := cpu-c.cpu, now.Sub(c.last)
	c.cpu, c.last = cpu, now
	changed := charged - c.charged
	if c.limit > 0 && float64(charged) >= nearLimit*float64(c.limit) {
		return false
	}
	return -restMemory < changed && changed < restMemory && cpu-c.measured < restCPU && used*restShare < passed &&
		!c.since.IsZero() && now.Sub(c.since) < longestRest
}

// schedule says when to measure, and when to send a sample to the agent.
type schedule struct {
	wait, measure, tell time.Duration
	lastTold            time.Time
	calm                calm
}

func newSchedule(spec *proxyproto.Spec) schedule {
	s := schedule{wait: firstSample, measure: spec.SamplePeriod(), tell: spec.SamplePeriod(), calm: calm{limit: spec.MemoryLimit}}
	if spec.Cgroups.None() && (spec.MemoryLimit > 0 || spec.PidsLimit > 0) {
		s.measure = min(s.measure, treePeriod)
	}
	s.wait = min(s.wait, s.measure)
	return s
}

// next returns the time to the next measurement.
func (s *schedule) next() time.Duration {
	wait := min(s.wait, s.measure)
	s.wait = min(2*wait, s.measure)
	return wait
}

// rest returns the time to the next look at a job that is at rest.
func (s *schedule) rest() time.Duration {
	s.wait = min(2*s.wait, restPeriod)
	return s.wait
}

// due reports whether the measurement at now is to be sent.
func (s *schedule) due(now time.Time) bool {
	// Half a period early is better than a whole one late.
	if now.Before(s.lastTold.Add(s.tell - s.wait/2)) {
		return false
	}
	s.lastTold = now
	return true
}
