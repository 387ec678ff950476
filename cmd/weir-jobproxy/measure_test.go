package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/statistics"
)

func TestMeter(t *testing.T) {
	start := time.Unix(1000, 0)
	var m meter
	m.begin(start)
	m.observe(start.Add(time.Second), cgroup.Usage{Memory: 100, CPUUser: 5 * time.Microsecond}, 0)
	last := cgroup.Usage{Memory: 50, Peak: 300, CPUUser: 4 * time.Microsecond}
	m.observeGap(last, 0)
	m.observe(start.Add(3*time.Second), last, 0)
	m.observeEnd(start.Add(4*time.Second), 400, 400)
	want := proxyproto.Statistics{
		MaxMemory: 300,
		// Nothing for 1 s, then the kernel's peak.
		CumulativeMaxMemory: 3 * 300,
		CPUUserMicros:       5,
	}
	if diff := cmp.Diff(want, m.statistics); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
}

// TestPeaksBetweenSamples are the kernel's, without what it can take back.
func TestPeaksBetweenSamples(t *testing.T) {
	type sample struct{ memory, cache, peak, tmpfs int64 }
	tests := map[string]struct {
		samples            []sample
		processPeak, least int64
		want, wantNet      int64
	}{
		"never seen alive":                             {samples: []sample{{peak: 70, cache: 20}}, want: 50, wantNet: 50},
		"never seen alive, tmpfs left":                 {samples: []sample{{peak: 70, cache: 20, tmpfs: 15}}, want: 50, wantNet: 35},
		"a peak after the last sample":                 {samples: []sample{{memory: 10, cache: 5, peak: 15}, {memory: 10, cache: 5, peak: 80}}, want: 75, wantNet: 75},
		"a peak before the first sample":               {samples: []sample{{memory: 10, cache: 5, peak: 80}, {cache: 5, peak: 80}}, want: 75, wantNet: 75},
		"files that came and went between two samples": {samples: []sample{{memory: 10, peak: 10}, {memory: 12, peak: 500}, {peak: 500}}, want: 12, wantNet: 12},
		"a peak that a sample has seen":                {samples: []sample{{memory: 60, cache: 5, peak: 65}, {cache: 5, peak: 65}}, want: 60, wantNet: 60},
		"files that were written and removed":          {samples: []sample{{memory: 10, cache: 500, peak: 510}, {peak: 512}}, want: 12, wantNet: 12},
		"files that were written since":                {samples: []sample{{memory: 10, peak: 10}, {cache: 500, peak: 510}}, want: 10, wantNet: 10},
		"more files left than there was charged":       {samples: []sample{{memory: 10, cache: 5, peak: 15}, {cache: 90, peak: 80}}, want: 10, wantNet: 10},
		"no peak is known, a process":                  {samples: []sample{{}}, processPeak: 40, least: 40, want: 40, wantNet: 40},
		"a process with what it shares":                {samples: []sample{{peak: 30, cache: 10}}, processPeak: 40, least: 40, want: 30, wantNet: 30},
		"nothing but a process too small":              {samples: []sample{{}}, least: 7, want: 7, wantNet: 7},
		"a process too small, and more is known":       {samples: []sample{{peak: 3}}, least: 7, want: 3, wantNet: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var m meter
			now := time.Unix(1000, 0)
			m.begin(now)
			for i, s := range test.samples {
				usage := cgroup.Usage{Memory: s.memory, Cache: s.cache, Peak: s.peak}
				if i == len(test.samples)-1 {
					m.observeGap(usage, s.tmpfs)
				}
				m.observe(now, usage, s.tmpfs)
			}
			m.observeEnd(now, test.processPeak, test.least)
			if m.statistics.MaxMemory != test.want || m.netPeak != test.wantNet {
				t.Errorf("most %d, without tmpfs %d; want %d, %d", m.statistics.MaxMemory, m.netPeak, test.want, test.wantNet)
			}
		})
	}
}

// TestJobAtRest is one whose memory and processor time have hardly changed since it was measured.
func TestJobAtRest(t *testing.T) {
	const period = 250 * time.Millisecond
	tests := map[string]struct {
		charged   int64
		cpu       time.Duration
		passed    time.Duration
		limit     int64
		unmeasure bool
		want      bool
	}{
		"nothing has changed":          {charged: 10 << 20, passed: period, want: true},
		"a few pages":                  {charged: 10<<20 + 64<<10, cpu: time.Millisecond, passed: period, want: true},
		"it has grown":                 {charged: 11 << 20, passed: period},
		"it has shrunk":                {charged: 9 << 20, passed: period},
		"it computes":                  {charged: 10 << 20, cpu: 10 * time.Millisecond, passed: period},
		"it computes little, for long": {charged: 10 << 20, cpu: 101 * time.Millisecond, passed: 50 * time.Second},
		"it was measured long ago":     {charged: 10 << 20, passed: longestRest},
		"near its limit":               {charged: 10 << 20, passed: period, limit: 13 << 20},
		"far from its limit":           {charged: 10 << 20, passed: period, limit: 14 << 20, want: true},
		"it was not measured":          {charged: 10 << 20, passed: period, unmeasure: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now, c := time.Unix(1000, 0), calm{limit: test.limit, charged: 10 << 20}
			if !test.unmeasure {
				c.measure(now, cgroup.Usage{Memory: 8 << 20, Cache: 2 << 20, CPUUser: time.Second, CPUSystem: time.Second})
			}
			if got := c.look(now.Add(test.passed), test.charged, 2*time.Second+test.cpu); got != test.want {
				t.Errorf("at rest: %v, want %v", got, test.want)
			}
		})
	}
}

// TestScheduleOfAJobAtRest: it is looked at less and less often, and measured as often as before when it is at rest no
// longer.
func TestScheduleOfAJobAtRest(t *testing.T) {
	s := newSchedule(&proxyproto.Spec{SamplePeriodMillis: 250})
	for s.wait < s.measure {
		s.next()
	}
	var waits []time.Duration
	for range 6 {
		waits = append(waits, s.rest())
	}
	waits = append(waits, s.next(), s.next())
	const period = 250 * time.Millisecond
	want := []time.Duration{2 * period, 4 * period, 8 * period, 16 * period, 16 * period, 16 * period, period, period}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

// TestTinyJobIsMeasured though it ends before anybody looks at it.
func TestTinyJobIsMeasured(t *testing.T) {
	result := runJob(t, "exec true", func(spec *proxyproto.Spec) { spec.SamplePeriodMillis = time.Hour.Milliseconds() })
	if used := result.Statistics.Values[statistics.UserMaxMemory]; used <= 0 || used > 128<<20 {
		t.Errorf("max memory %d, want a little", used)
	}
}

// TestLargestProcess: what processes of earlier jobs held does not count, nor what is not known to be more than the proxy.
func TestLargestProcess(t *testing.T) {
	tests := map[string]struct {
		root, others, own   int64
		wantPeak, wantLeast int64
	}{
		"no process":           {},
		"the command":          {root: 9, others: 5, own: 1 << 10, wantPeak: 9 << 10, wantLeast: 9 << 10},
		"another":              {root: 5, others: 9, own: 1 << 10, wantPeak: 9 << 10, wantLeast: 9 << 10},
		"smaller than a proxy": {root: 5, others: 9, own: 9 << 10, wantLeast: 9 << 10},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWaited()
			for _, held := range []int64{1, test.others, 2} {
				w.note(ending{usage: unix.Rusage{Maxrss: min(held, test.others)}})
			}
			if peak, least := w.peak(unix.Rusage{Maxrss: test.root}, test.own); peak != test.wantPeak || least != test.wantLeast {
				t.Errorf("%d, at least %d; want %d, %d", peak, least, test.wantPeak, test.wantLeast)
			}
		})
	}
}

// TestTmpfsOfAShortJobIsMemory though nobody has looked while the job ran.
func TestTmpfsOfAShortJobIsMemory(t *testing.T) {
	dir := disktest.Small(t, 8<<20)
	write(t, filepath.Join(dir, "file"), strings.Repeat("x", 2<<20))
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer func() { must(t, unix.Close(root)) }()
	s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job"}, outside{}, nil, nil)
	s.volumes.list = []volume{{path: dir, root: root}}
	s.root = &ending{time: time.Now()}
	s.finishMeasuring()
	if m := s.meter; m.statistics.MaxMemory != 2<<20 || m.tmpfsPeak != 2<<20 || m.netPeak != 0 || m.current != 0 {
		t.Errorf("%d bytes at most, %d of them in tmpfs, without it %d, in the end %d; want 2 MiB of tmpfs", m.statistics.MaxMemory, m.tmpfsPeak, m.netPeak, m.current)
	}
}

// TestRestsOnWhatItsAgentKnows: a measurement that is not sent is not what later ones are compared with.
func TestRestsOnWhatItsAgentKnows(t *testing.T) {
	s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job", LeaseMillis: time.Hour.Milliseconds(), SamplePeriodMillis: 1000}, outside{}, nil, nil)
	first := time.Now()
	s.meter.begin(first)
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 1100 * time.Millisecond} {
		now, told := first.Add(after), s.schedule.lastTold
		s.measure(now)
		if sent := s.schedule.lastTold != told; sent != (after != 100*time.Millisecond) {
			t.Errorf("the measurement after %v is sent: %v", after, sent)
		}
		if s.schedule.calm.since != s.schedule.lastTold {
			t.Errorf("after %v the job is compared with what it used at %v; its agent knows that of %v", after, s.schedule.calm.since, s.schedule.lastTold)
		}
	}
}

// TestNewAgentIsTold what the job uses, however long it has been at rest.
func TestNewAgentIsTold(t *testing.T) {
	p := startProxy(t, "sleep 1000", time.Hour, func(spec *proxyproto.Spec) { spec.SamplePeriodMillis = time.Hour.Milliseconds() })
	for range 3 {
		if sample := p.connect(t).hear(t, "sample").Sample; sample.MemoryBytes <= 0 {
			t.Errorf("told %+v", sample)
		}
	}
}
