package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

func TestLimitsOf(t *testing.T) {
	tests := map[string]struct {
		spec proxyproto.Spec
		want cgroup.Limits
	}{
		"a quota, without a word":     {proxyproto.Spec{CPULimit: 1.5, CPUWeight: 7}, cgroup.Limits{CPU: 1.5, CPUWeight: 7}},
		"a weight by the limit":       {proxyproto.Spec{CPULimit: 1.5, CPUEnforcement: proxyproto.EnforceWeight}, cgroup.Limits{CPUWeight: 150}},
		"a weight that is given":      {proxyproto.Spec{CPULimit: 1.5, CPUEnforcement: proxyproto.EnforceWeight, CPUWeight: 7}, cgroup.Limits{CPUWeight: 7}},
		"a weight beyond all":         {proxyproto.Spec{CPULimit: 1e5, CPUEnforcement: proxyproto.EnforceWeight}, cgroup.Limits{CPUWeight: cgroup.MaxWeight}},
		"a weight of next to nothing": {proxyproto.Spec{CPULimit: 1e-4, CPUEnforcement: proxyproto.EnforceWeight}, cgroup.Limits{CPUWeight: 1}},
		"processes":                   {proxyproto.Spec{PidsLimit: 3, MemoryLimit: 5}, cgroup.Limits{Pids: 3, Memory: 5}},
		"processes, strict":           {proxyproto.Spec{PidsLimit: 3, Isolation: proxyproto.IsolationStrict}, cgroup.Limits{Pids: 3 + becomeThreads}},
	}
	for name, test := range tests {
		if got := limitsOf(&test.spec); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestOOMScore: the more a job is above its reserve, the sooner it goes; none that is within
// goes before one that is above.
func TestOOMScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machine := rapid.Int64Range(1, 1<<45).Draw(t, "machine")
		reserve := rapid.Int64Range(0, machine).Draw(t, "reserve")
		less := rapid.Int64Range(0, 2*machine).Draw(t, "less")
		more := less + rapid.Int64Range(0, machine).Draw(t, "more")
		a, b := oomScore(less, reserve, machine), oomScore(more, reserve, machine)
		if a > b || a < scoreWithin || b > scoreMax {
			t.Fatalf("scores %d and %d", a, b)
		}
		if (less > reserve) != (a >= scoreAbove) {
			t.Fatalf("score %d of %d bytes, the reserve is %d", a, less, reserve)
		}
	})
	if got := oomScore(3<<30, 1<<30, 8<<30); got != 625 {
		t.Errorf("a quarter of the machine above its reserve: %d, want 625", got)
	}
}

func TestDiskPeriod(t *testing.T) {
	tests := map[string]struct {
		left int64
		took time.Duration
		want time.Duration
	}{
		"it could be full soon":        {1 << 20, time.Millisecond, minDiskPeriod},
		"it is full":                   {-5, 0, minDiskPeriod},
		"half a second away":           {1 << 29, time.Millisecond, 500 * time.Millisecond},
		"far away":                     {1 << 40, time.Millisecond, maxDiskPeriod},
		"looking takes long in itself": {1 << 20, time.Second, diskShare * time.Second},
	}
	for name, test := range tests {
		if got := diskPeriod(test.left, test.took); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestDiskIsNotLedAway by links, and counts what is below folders.
func TestDiskIsNotLedAway(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	write := func(path string, bytes int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, bytes), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(outside, "big"), 9<<20)
	write(filepath.Join(inside, "a", "b", "c"), 3<<20)
	for i := range 2 * biggest {
		write(filepath.Join(inside, "small", string(rune('a'+i))), 4096*(i+1))
	}
	for _, name := range []string{"link", "a/link"} {
		if err := os.Symlink(outside, filepath.Join(inside, name)); err != nil {
			t.Fatal(err)
		}
	}
	led := filepath.Join(t.TempDir(), "led")
	if err := os.Symlink(outside, led); err != nil {
		t.Fatal(err)
	}
	nobody := func() ([]proctree.Process, error) { return nil, nil }
	d := disk{folders: []string{inside, led, filepath.Join(inside, "not-there")}, deleted: openDeleted{processes: nobody}}
	use := d.look()
	if use.bytes < 3<<20 || use.bytes > 4<<20 {
		t.Errorf("%d bytes, want 3 MiB and a little", use.bytes)
	}
	if len(use.biggest) != biggest || use.biggest[0].Path != "a/b/c" || use.biggest[1].Path != "small/j" || use.biggest[4].Path != "small/g" {
		t.Errorf("biggest %+v", use.biggest)
	}
}

// slowStreams keep something for ever, unless that is abandoned.
type slowStreams struct {
	streams
	began chan bool
	// done: all was kept when it was abandoned.
	done bool
}

func (s slowStreams) finish(ctx context.Context, completed bool) remains {
	s.began <- completed
	<-ctx.Done()
	if !completed || s.done {
		return remains{}
	}
	return remains{failure: verdict{outcome: proxyproto.OutcomeOutputFailed, err: ctx.Err().Error()}}
}

// TestAbandonedFlush ends a job whose processes have gone while what it wrote is kept.
func TestAbandonedFlush(t *testing.T) {
	tests := map[string]struct {
		status      unix.WaitStatus
		outcome     proxyproto.Outcome
		done        bool
		wantWhole   bool
		cause       verdict
		wantOutcome proxyproto.Outcome
	}{
		"a completed one is stopped":        {0, proxyproto.OutcomeExited, false, true, verdict{outcome: proxyproto.OutcomeStopped}, proxyproto.OutcomeStopped},
		"a completed one, when all is kept": {0, proxyproto.OutcomeExited, true, true, verdict{outcome: proxyproto.OutcomeStopped}, proxyproto.OutcomeExited},
		"a failed one":                      {1 << 8, proxyproto.OutcomeExited, false, false, verdict{outcome: proxyproto.OutcomeLeaseExpired}, proxyproto.OutcomeExited},
		"one above a limit":                 {0, proxyproto.OutcomeDiskLimitExceeded, false, false, verdict{outcome: proxyproto.OutcomeStopped}, proxyproto.OutcomeDiskLimitExceeded},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := &proxyproto.Spec{JobID: "job", Shell: "true", Workspace: t.TempDir()}
			s := newSupervisor(t.TempDir(), spec, outside{}, nil, nil)
			slow := slowStreams{streams: &dataStreams{spec: new(proxyproto.Spec)}, began: make(chan bool, 1), done: test.done}
			s.streams = slow
			if s.abandonFlush(test.cause) {
				t.Error("abandoned before the command has ended")
			}
			s.root = &ending{status: test.status, time: time.Now()}
			s.verdict.decide(verdict{outcome: test.outcome})
			s.flush()
			if whole := <-slow.began; whole != test.wantWhole {
				t.Errorf("kept as completed: %t, want %t", whole, test.wantWhole)
			}
			if !s.abandonFlush(test.cause) {
				t.Error("not abandoned")
			}
			s.takeRemains(<-s.flushed)
			takeSaved(s)
			if s.conclusion.result == nil || s.conclusion.result.Outcome != test.wantOutcome {
				t.Errorf("result %+v, want %s", s.conclusion.result, test.wantOutcome)
			}
			if s.abandonFlush(test.cause) {
				t.Error("abandoned after its end")
			}
		})
	}
}

// TestFlushOfAnAbandonedJob is over before it begins: what the job is ended for came when its
// command had ended, and processes that it has left had not.
func TestFlushOfAnAbandonedJob(t *testing.T) {
	late := func(s *supervisor) {
		s.lease.timer.Reset(0)
		<-s.lease.over
		s.expire()
	}
	stopped := func(s *supervisor) { s.stop(proxyproto.Stop{Reason: "preemption"}) }
	tests := map[string]struct {
		status      unix.WaitStatus
		come        func(*supervisor)
		wantOutcome proxyproto.Outcome
	}{
		"it is stopped":             {0, stopped, proxyproto.OutcomeStopped},
		"its lease runs out":        {0, late, proxyproto.OutcomeLeaseExpired},
		"one that has failed":       {1 << 8, stopped, proxyproto.OutcomeExited},
		"one that has failed, late": {1 << 8, late, proxyproto.OutcomeExited},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job", LeaseMillis: 3_600_000}, outside{}, nil, nil)
			slow := slowStreams{streams: &dataStreams{spec: new(proxyproto.Spec)}, began: make(chan bool, 1)}
			s.streams, s.endingAll = slow, true
			s.root = &ending{status: test.status, time: time.Now()}
			s.verdict.decide(verdict{outcome: proxyproto.OutcomeExited})
			test.come(s)
			s.flush()
			if test.status != 0 {
				s.cancelFlush()
			}
			select {
			case r := <-s.flushed:
				s.takeRemains(r)
			case <-time.After(patience):
				t.Fatal("what it wrote is kept")
			}
			takeSaved(s)
			if s.conclusion.result.Outcome != test.wantOutcome {
				t.Errorf("result %+v, want %s", s.conclusion.result, test.wantOutcome)
			}
		})
	}
}

// TestFailedFlush takes the place of a completion, and of nothing else.
func TestFailedFlush(t *testing.T) {
	for outcome, want := range map[proxyproto.Outcome]proxyproto.Outcome{
		proxyproto.OutcomeExited:            proxyproto.OutcomeOutputFailed,
		proxyproto.OutcomeTimeLimitExceeded: proxyproto.OutcomeTimeLimitExceeded,
	} {
		s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job"}, outside{}, nil, nil)
		s.root = &ending{time: time.Now()}
		s.verdict.decide(verdict{outcome: outcome})
		s.flush()
		r := <-s.flushed
		r.failure = verdict{outcome: proxyproto.OutcomeOutputFailed, err: "full"}
		s.takeRemains(r)
		takeSaved(s)
		if s.conclusion.result.Outcome != want {
			t.Errorf("%s: %s, want %s", outcome, s.conclusion.result.Outcome, want)
		}
	}
}

// TestPidsVerdict tells why a job failed, not why it might have.
func TestPidsVerdict(t *testing.T) {
	tests := map[string]struct {
		status  unix.WaitStatus
		refused int64
		want    string
	}{
		"it failed":        {2 << 8, 3, "Process limit exceeded: failed 3 times to start a process or thread, the limit is 9"},
		"it failed once":   {2 << 8, 1, "Process limit exceeded: failed once to start a process or thread, the limit is 9"},
		"it coped":         {0, 3, ""},
		"nothing happened": {2 << 8, 0, ""},
	}
	for name, test := range tests {
		if got := causeOfExit(test.status, cgroup.MemoryEvents{}, test.refused, 9); got.err != test.want {
			t.Errorf("%s: %q, want %q", name, got.err, test.want)
		}
	}
}

// TestMountsOfTheAgent are left alone by a proxy that finds itself among them.
func TestMountsOfTheAgent(t *testing.T) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	before := mounts(t)
	if err := ownMounts(&proxyproto.Spec{AgentMounts: own}); err == nil {
		t.Error("the proxy took the agent's mounts for its own")
	}
	if err := ownMounts(new(proxyproto.Spec)); err != nil {
		t.Errorf("a job without mounts: %v", err)
	}
	after, same := mounts(t), 0
	for id, was := range before {
		// Others may have unmounted it meanwhile.
		if is, there := after[id]; there && is == was {
			same++
		} else if there {
			t.Errorf("mount %s was %q, is %q", id, was, is)
		}
	}
	if same == 0 {
		t.Errorf("mounts were %q, are %q", before, after)
	}
}

// mounts are those that this process sees, by their numbers.
func mounts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		id, what, _ := strings.Cut(line, " ")
		all[id] = what
	}
	return all
}

// TestLongestResult fits into a line, whatever the job has called its files.
func TestLongestResult(t *testing.T) {
	odd := strings.Repeat("\x01", 1<<20)
	var use diskUse
	for i := range int64(biggest) {
		use.note(odd, i+1)
	}
	s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job", DiskLimit: 1}, outside{}, nil, nil)
	s.verdict = verdict{reason: odd}
	// The children of this process, which are those of other tests, are not to be ended.
	s.endingAll = true
	s.takeDisk(use)
	s.verdict.outcome, s.verdict.err = proxyproto.OutcomeDiskLimitExceeded, odd
	s.verdict.disk = &proxyproto.DiskExcess{Biggest: use.biggest}
	s.verdict.fault = &proxyproto.InputFault{Name: odd, Text: odd}
	s.conclude(0)
	<-s.conclusion.saved
	message := proxyproto.Message{Exited: s.conclusion.result}
	if line, err := message.Line(); err != nil {
		t.Errorf("%d bytes: %v", len(line), err)
	}
	if got := clip("äöü", 3); got != "ä..." {
		t.Errorf("clip: %q, want no half of a letter", got)
	}
}
