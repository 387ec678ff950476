package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

// goOn lets a job go on that waits for the file.
func goOn(t *testing.T, path string) {
	t.Helper()
	write(t, path, "")
}

// untilStuck has a shell wait until touch, which it has started last, waits for the disk, and
// not for a moment alone, as for its own program.
const untilStuck = "n=0; while [ $n -lt 20 ]; do grep -q '(touch) D ' /proc/$!/stat && n=$((n+1)) || n=0; sleep 0.01; done; "

// TestEndHangs has the disk hang on which something of a job is to be kept when the job ends:
// the end comes nevertheless, says what hangs, and nothing is kept later.
func TestEndHangs(t *testing.T) {
	tests := map[string]struct {
		// shell runs when the disk hangs, and change has the spec use it.
		shell       string
		change      func(t *testing.T, disk string) func(*proxyproto.Spec)
		wantOutcome proxyproto.Outcome
		wantStep    string
		wantName    string
	}{
		"a file that is kept": {
			shell: "echo mine > result",
			change: func(_ *testing.T, disk string) func(*proxyproto.Spec) {
				return func(spec *proxyproto.Spec) {
					spec.Outputs = []proxyproto.KeptFile{{Path: "result", Destination: filepath.Join(disk, "kept")}}
				}
			},
			wantOutcome: proxyproto.OutcomeEndHung, wantStep: "keep result as", wantName: "weir-jobproxy",
		},
		"the output": {
			shell: "cat",
			change: func(t *testing.T, disk string) func(*proxyproto.Spec) {
				return fed(filepath.Join(disk, "kept"), records.Lines, input(t, "a\n"))
			},
			wantOutcome: proxyproto.OutcomeEndHung, wantStep: "record what it has read and written", wantName: "weir-jobproxy",
		},
		"standard error": {
			shell: "echo words >&2",
			change: func(_ *testing.T, disk string) func(*proxyproto.Spec) {
				return func(spec *proxyproto.Spec) { spec.OutputFolder = disk }
			},
			wantOutcome: proxyproto.OutcomeEndHung, wantStep: "store standard error", wantName: "weir-jobproxy",
		},
		"standard error of a job that fails": {
			shell: "echo words >&2; exit 3",
			change: func(_ *testing.T, disk string) func(*proxyproto.Spec) {
				return func(spec *proxyproto.Spec) { spec.OutputFolder = disk }
			},
			wantOutcome: proxyproto.OutcomeExited, wantStep: "store standard error", wantName: "weir-jobproxy",
		},
		"a process that it leaves behind": {
			shell: "touch $DISK/file & " + untilStuck + "exit 0",
			change: func(_ *testing.T, disk string) func(*proxyproto.Spec) {
				return func(spec *proxyproto.Spec) { spec.Environment = append(spec.Environment, "DISK="+disk) }
			},
			wantOutcome: proxyproto.OutcomeEndHung, wantStep: "kill its processes", wantName: "touch",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			disk, signal := disktest.Hanging(t, 8), filepath.Join(t.TempDir(), "go")
			p := startProxy(t, "while [ ! -e "+signal+" ]; do sleep 0.01; done; "+test.shell, time.Hour,
				test.change(t, disk), func(spec *proxyproto.Spec) { spec.EndTimeoutMillis = 1500 })
			agent := p.connect(t)
			agent.hear(t, "started")
			thaw := disktest.Freeze(t, disk)
			goOn(t, signal)
			result := agent.hear(t, "exited").Exited
			if result.Outcome != test.wantOutcome || result.Output != nil || result.Hang == nil || !strings.Contains(result.Hang.Step, test.wantStep) {
				t.Fatalf("result %+v, hang %v, want %s in %q", result, result.Hang, test.wantOutcome, test.wantStep)
			}
			processes := result.Hang.Processes
			if len(processes) != 1 || processes[0].Name != test.wantName || processes[0].Wait == "" || !strings.Contains(result.Error, processes[0].String()) {
				t.Errorf("processes %v, error %q, want %s named, and where it waits", processes, result.Error, test.wantName)
			}
			agent.say(t, `{"release":{}}`)
			thaw()
			select {
			case <-p.ended:
			case <-time.After(patience):
				t.Fatal("the proxy is there still when the disk answers again")
			}
			if _, err := os.Stat(filepath.Join(disk, "kept")); err == nil {
				t.Error("it was kept when the job had ended")
			}
		})
	}
}

// TestResultCannotBeWritten has the disk of the job's own folder hang: an agent that listens is told the
// result, and so is one that comes while it cannot be written for it.
func TestResultCannotBeWritten(t *testing.T) {
	disk, signal := disktest.Hanging(t, 8), filepath.Join(t.TempDir(), "go")
	t.Setenv("TMPDIR", disk)
	p := startProxy(t, "while [ ! -e "+signal+" ]; do sleep 0.01; done; exit 3", time.Hour, func(spec *proxyproto.Spec) { spec.EndTimeoutMillis = 500 })
	agent := p.connect(t)
	agent.hear(t, "started")
	thaw := disktest.Freeze(t, disk)
	defer thaw()
	goOn(t, signal)
	if result := agent.hear(t, "exited").Exited; result.Outcome != proxyproto.OutcomeExited || result.ExitCode != 3 {
		t.Errorf("result %+v, want the command's own end", result)
	}
	must(t, agent.Close())
	next := p.connect(t)
	if result := next.hear(t, "exited").Exited; result.ExitCode != 3 {
		t.Errorf("result %+v, want it told again", result)
	}
	must(t, next.Close())
	thaw()
	if _, err := p.awaitResult(); err != nil {
		t.Errorf("the result is not written when the disk answers again: %v", err)
	}
}

// TestSlowEndIsNoHang: what moves is waited for.
func TestSlowEndIsNoHang(t *testing.T) {
	p := new(progress)
	p.begin("keep a as b")
	first := p.moved
	p.moved = first.Add(-time.Hour)
	if step, idle := p.idle(first); step != "keep a as b" || idle != time.Hour {
		t.Errorf("%q for %v, want an hour", step, idle)
	}
	p.move()
	if _, idle := p.idle(time.Now()); idle > time.Minute {
		t.Errorf("for %v after it has moved", idle)
	}
}

// TestPausedEndIsNoHang: the end of a job does not hang because its proxy did not run.
func TestPausedEndIsNoHang(t *testing.T) {
	const timeout = 80 * time.Second
	tests := map[string]struct {
		// moved and due are how long ago something moved last, and a look at it was due.
		moved, due time.Duration
		want       bool
	}{
		"nothing moved": {moved: timeout, due: 0, want: true},
		"nothing moved, and the look is a bit late": {moved: timeout, due: timeout / stallChecks / 2, want: true},
		"the proxy stood still":                     {moved: timeout, due: timeout / 2},
		"it stood still, and nothing moved before":  {moved: 3 * timeout, due: timeout, want: true},
		"something moved, and it stood still then":  {moved: timeout, due: 2 * timeout},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := &proxyproto.Spec{JobID: "job", Shell: "true", Workspace: t.TempDir(), EndTimeoutMillis: timeout.Milliseconds()}
			s := newSupervisor(t.TempDir(), spec, outside{self: proxyproto.Identity{Pid: os.Getpid()}}, nil, nil)
			s.gone, s.root = nil, &ending{time: time.Now()}
			s.verdict.decide(verdict{outcome: proxyproto.OutcomeExited})
			s.ending.start("keep a as b")
			now := time.Now()
			s.ending.moved, s.ending.due = now.Add(-test.moved), now.Add(-test.due)
			if s.checkStall(now); (s.conclusion.result != nil) != test.want {
				t.Errorf("given up: %t, want %t", s.conclusion.result != nil, test.want)
			}
			if s.conclusion.result != nil {
				takeSaved(s)
			} else if !s.ending.timer.Stop() {
				t.Error("it is not looked at again")
			}
		})
	}
}

// TestLogThatHangs holds nobody up, and has what was said before the end.
func TestLogThatHangs(t *testing.T) {
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	reader, writer := os.NewFile(uintptr(pipe[0]), "reader"), os.NewFile(uintptr(pipe[1]), "writer")
	defer reader.Close()
	defer writer.Close()
	l := newProxyLog(writer, patience)
	line := strings.Repeat("x", 1<<10) + "\n"
	for range 10 * logLines {
		l.add(line)
	}
	read := make(chan int)
	go func() {
		n, buffer := 0, make([]byte, 1<<20)
		for {
			m, err := reader.Read(buffer)
			if n += m; err != nil {
				read <- n
				return
			}
		}
	}()
	l.flush()
	must(t, writer.Close())
	if n := <-read; n < logLines*len(line) || n%len(line) != 0 {
		t.Errorf("%d bytes were written, want whole lines, %d at least", n, logLines)
	}
}

// stuckStreams keep something until they are let go, whoever wants them to stop.
type stuckStreams struct {
	streams
	letGo chan struct{}
}

func (s stuckStreams) finish(context.Context, bool) remains {
	<-s.letGo
	return remains{output: &proxyproto.OutputCount{Part: "part-7", Rows: 1}}
}

// TestHangIsGivenUp whatever it is, such as the last read of an input: the first end counts,
// and what comes later is not kept.
func TestHangIsGivenUp(t *testing.T) {
	tests := map[string]struct {
		status      unix.WaitStatus
		abandoned   verdict
		wantOutcome proxyproto.Outcome
	}{
		"of a completed job":            {0, verdict{}, proxyproto.OutcomeEndHung},
		"of a failed job":               {1 << 8, verdict{}, proxyproto.OutcomeExited},
		"of one that is stopped for it": {0, verdict{outcome: proxyproto.OutcomeStopped, reason: "preemption"}, proxyproto.OutcomeStopped},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := &proxyproto.Spec{JobID: "job", Shell: "true", Workspace: t.TempDir(), EndTimeoutMillis: 80}
			s := newSupervisor(t.TempDir(), spec, outside{self: proxyproto.Identity{Pid: os.Getpid()}}, nil, nil)
			stuck := stuckStreams{streams: &dataStreams{spec: spec}, letGo: make(chan struct{})}
			s.streams, s.gone = stuck, nil
			s.root = &ending{status: test.status, time: time.Now()}
			s.verdict.decide(verdict{outcome: proxyproto.OutcomeExited})
			s.ending.start("kill its processes")
			s.flush()
			if test.abandoned.decided() && !s.abandonFlush(test.abandoned) {
				t.Fatal("not abandoned")
			}
			for deadline := time.After(patience); s.conclusion.result == nil; {
				select {
				case <-s.ending.timer.C:
					s.checkStall(time.Now())
				case <-deadline:
					t.Fatal("it is waited for still")
				}
			}
			takeSaved(s)
			close(stuck.letGo)
			s.takeRemains(<-s.flushed)
			r := s.conclusion.result
			if r.Outcome != test.wantOutcome || r.Reason != test.abandoned.reason || r.Output != nil || r.Hang == nil || !strings.Contains(r.Error, "record what it has read") {
				t.Errorf("result %+v, hang %v, want %s, and nothing kept", r, r.Hang, test.wantOutcome)
			}
		})
	}
}

// TestHangOfAJobThatNeverBegan holds nobody up: orders are heard, and its end is told.
func TestHangOfAJobThatNeverBegan(t *testing.T) {
	spec := &proxyproto.Spec{JobID: "job", Shell: "true", Workspace: t.TempDir(), EndTimeoutMillis: 80}
	s := newSupervisor(t.TempDir(), spec, outside{self: proxyproto.Identity{Pid: os.Getpid()}}, nil, nil)
	stuck := stuckStreams{streams: &dataStreams{spec: spec}, letGo: make(chan struct{})}
	s.streams = stuck
	s.startFailed(errors.New("no such program"))
	for deadline := time.After(patience); s.conclusion.result == nil; {
		select {
		case <-s.ending.timer.C:
			s.checkStall(time.Now())
		case <-deadline:
			t.Fatal("it is waited for still")
		}
	}
	takeSaved(s)
	close(stuck.letGo)
	s.takeRemains(<-s.flushed)
	if r := s.conclusion.result; r.Outcome != proxyproto.OutcomeStartFailed || r.ExitCode != -1 || r.Hang == nil || !strings.Contains(r.Error, "no such program") {
		t.Errorf("result %+v, hang %v, want that it has not begun", r, r.Hang)
	}
}

// stuckProcesses cannot be ended until they are let go.
type stuckProcesses struct {
	tree
	letGo chan struct{}
}

func (s *stuckProcesses) processes() ([]proctree.Process, error) { return nil, nil }
func (s *stuckProcesses) Kill(time.Duration) error               { <-s.letGo; return nil }

// TestProcessesGoAfterTheyWereGivenUp, which nobody waits for any more: the proxy lives on, as
// the agent may still have to hear of the result.
func TestProcessesGoAfterTheyWereGivenUp(t *testing.T) {
	spec := &proxyproto.Spec{JobID: "job", Shell: "true", Workspace: t.TempDir(), EndTimeoutMillis: 80}
	s := newSupervisor(t.TempDir(), spec, outside{self: proxyproto.Identity{Pid: os.Getpid()}}, nil, nil)
	stuck := &stuckProcesses{tree: tree{volumes: s.volumes, waited: s.waited}, letGo: make(chan struct{})}
	s.inside = stuck
	var writer *os.File
	var err error
	s.stderr, writer, err = startCapture(t.TempDir(), "stderr", 1<<10)
	must(t, err)
	must(t, writer.Close())
	s.root = &ending{time: time.Now()}
	s.verdict.decide(verdict{outcome: proxyproto.OutcomeExited})
	gone := s.gone
	s.endTree()
	for deadline := time.After(patience); s.conclusion.result == nil; {
		select {
		case <-s.ending.timer.C:
			s.checkStall(time.Now())
		case <-deadline:
			t.Fatal("it is waited for still")
		}
	}
	takeSaved(s)
	close(s.reaped)
	close(stuck.letGo)
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the end of the processes is waited for still")
	}
	if s.conclusion.result.Outcome != proxyproto.OutcomeEndHung || s.conclusion.result.Hang == nil {
		t.Errorf("result %+v, want its end to hang", s.conclusion.result)
	}
}

// takeSaved has a supervisor take that its result was written, as run does.
func takeSaved(s *supervisor) {
	<-s.conclusion.saved
	s.tell()
}
