package runner_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

const (
	// soon is a grace that is over before anybody waits long, never one that is not
	// over before the test is.
	soon  = 100 * time.Millisecond
	never = 10 * patience
)

// TestInterrupt asks jobs to go that answer to it in different ways.
func TestInterrupt(t *testing.T) {
	const idle = "; echo ready; while :; do sleep 0.01; done"
	tests := map[string]struct {
		shell       string
		rootOnly    bool
		grace       time.Duration
		wantOutcome proxyproto.Outcome
		wantCode    int
		wantSignal  string
		wantReason  string
		wantText    string
	}{
		"exits with 0":            {shell: `trap 'exit 0' USR1` + idle, grace: never, wantOutcome: proxyproto.OutcomeExited},
		"exits with 7":            {shell: `trap 'exit 7' USR1` + idle, grace: never, wantOutcome: proxyproto.OutcomeExited, wantCode: 7},
		"asks to be run again":    {shell: `trap 'exit 75' USR1` + idle, grace: never, wantOutcome: proxyproto.OutcomeExited, wantCode: 75},
		"is killed by the signal": {shell: `echo ready; exec sleep 1000`, grace: never, wantOutcome: proxyproto.OutcomeSignaled, wantCode: -1, wantSignal: "SIGUSR1"},
		"ignores the signal":      {shell: `trap '' USR1` + idle, grace: soon, wantOutcome: proxyproto.OutcomeStopped, wantCode: -1, wantSignal: "SIGKILL", wantReason: "late"},
		"has children that ignore it": {shell: `trap 'exit 0' USR1; sh -c "trap '' USR1; while :; do sleep 0.01; done" &` + "\n" + strings.TrimPrefix(idle, "; "), grace: never,
			wantOutcome: proxyproto.OutcomeExited},
		"hears of it in the first one only": {shell: `trap 'exit 3' USR1; sh -c "trap 'echo child' USR1` + idle + `" & while :; do sleep 0.01; done`, rootOnly: true, grace: never, wantOutcome: proxyproto.OutcomeExited, wantCode: 3},
		"blocks the way to its notice":      {shell: `mkdir .weir; mkfifo .weir/notice.json .weir/notice.json.new; trap 'exit 4' USR1` + idle, grace: never, wantOutcome: proxyproto.OutcomeExited, wantCode: 4},
		"finds its notice":                  {shell: `trap 'cat $WEIR_NOTICE; exit 0' USR1` + idle, grace: never, wantOutcome: proxyproto.OutcomeExited, wantText: `{"why":"because"}`},
	}
	onEachBackend(t, func(t *testing.T, f *fixture) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				job := f.start(t, runner.JobSpec{ID: strings.ReplaceAll(name, " ", "-"), Shell: test.shell})
				f.awaitOutput(t, job, 1)
				err := job.Interrupt(runner.Interruption{Signal: "SIGUSR1", RootOnly: test.rootOnly, Reason: "late", Grace: test.grace, Notice: []byte(`{"why":"because"}`)})
				if err != nil {
					t.Fatalf("Interrupt: %v", err)
				}
				result := finished(t, job)
				if result.Outcome != test.wantOutcome || result.ExitCode != test.wantCode || result.Signal != test.wantSignal || result.Reason != test.wantReason {
					t.Errorf("result %+v, want %s, exit code %d, signal %q, reason %q", result, test.wantOutcome, test.wantCode, test.wantSignal, test.wantReason)
				}
				if !result.Interrupted {
					t.Error("the result does not say that the job was interrupted")
				}
				text := f.output(t, job.ID(), "stdout")
				if !strings.Contains(text, test.wantText) || strings.Contains(text, "child") {
					t.Errorf("stdout %q, want %q in it, and no word of a child", text, test.wantText)
				}
			})
		}
	})
}

// TestInterruptAgain gives a job more deadlines than one.
func TestInterruptAgain(t *testing.T) {
	tests := map[string]struct {
		then       func(job *runner.Job) error
		wantReason string
	}{
		"an earlier deadline counts": {wantReason: "first", then: func(job *runner.Job) error {
			return job.Interrupt(runner.Interruption{Signal: "SIGUSR1", Reason: "second", Grace: soon})
		}},
		"of a stop too": {wantReason: "second", then: func(job *runner.Job) error {
			return job.Stop("second", 0)
		}},
	}
	onEachBackend(t, func(t *testing.T, f *fixture) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				job := f.start(t, runner.JobSpec{ID: strings.ReplaceAll(name, " ", "-"), Shell: `trap 'echo told' USR1; echo ready; while :; do sleep 0.01; done`})
				f.awaitOutput(t, job, 1)
				if err := job.Interrupt(runner.Interruption{Signal: "SIGUSR1", Reason: "first", Grace: never}); err != nil {
					t.Fatal(err)
				}
				f.awaitOutput(t, job, 2)
				if err := test.then(job); err != nil {
					t.Fatal(err)
				}
				if err := job.Interrupt(runner.Interruption{Signal: "SIGUSR1", Reason: "third", Grace: 2 * never}); err != nil {
					t.Fatal(err)
				}
				result := finished(t, job)
				if result.Outcome != proxyproto.OutcomeStopped || result.Reason != test.wantReason || !result.Interrupted {
					t.Errorf("result %+v, want it stopped, %s, interrupted", result, test.wantReason)
				}
				if text := f.output(t, job.ID(), "stdout"); strings.Count(text, "told") != 1 {
					t.Errorf("stdout %q, want the signal once", text)
				}
			})
		}
	})
}

// TestDeadlineHoldsWithoutAnAgent leaves a job that ignores its signal.
func TestDeadlineHoldsWithoutAnAgent(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, runner.JobSpec{Shell: `trap '' USR1; echo $$; while :; do sleep 0.01; done`})
		pid := pidsOf(t, f.awaitOutput(t, job, 1))[0]
		if err := job.Interrupt(runner.Interruption{Signal: "SIGUSR1", Reason: "late", Grace: 3 * soon}); err != nil {
			t.Fatal(err)
		}
		if err := f.Leave(); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, pid)
		if result := finished(t, f.reopen(t)); result.Outcome != proxyproto.OutcomeStopped || result.Reason != "late" || !result.Interrupted {
			t.Errorf("result %+v, want it stopped, late, interrupted", result)
		}
	})
}

// TestEndedJobIsForgotten though it had long to leave.
func TestEndedJobIsForgotten(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	gone := func() weak.Pointer[runner.Job] {
		job := f.start(t, runner.JobSpec{Shell: `trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done`})
		f.awaitOutput(t, job, 1)
		if err := job.Interrupt(runner.Interruption{Signal: "SIGUSR1", Reason: "late", Grace: 365 * 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		finished(t, job)
		if err := job.Release(); err != nil {
			t.Fatal(err)
		}
		return weak.Make(job)
	}()
	for deadline := time.Now().Add(patience); gone.Value() != nil; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("something holds the job")
		}
	}
}

func TestInterruptWithAnUnknownSignal(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	job := f.start(t, runner.JobSpec{Shell: "sleep 1000"})
	if err := job.Interrupt(runner.Interruption{Signal: "SIGDANCE"}); err == nil || !strings.Contains(err.Error(), "SIGDANCE") {
		t.Errorf("Interrupt: %v, want an error that names it", err)
	}
}

// TestInterruptByAnOlderProxy falls back to what a proxy of version 1 understands.
func TestInterruptByAnOlderProxy(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	playback(t, filepath.Join(f.config.Root, "jobs", "job"), filepath.Join("testdata", "v1-running.txt"), told)
	job := f.reopen(t)
	if _, is := (<-job.Events()).(runner.Started); !is {
		t.Fatal("the proxy has told nothing")
	}
	if err := os.MkdirAll(filepath.Join(f.config.Root, "jobs", "job", proxyproto.WorkspaceFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := job.Interrupt(runner.Interruption{Signal: "SIGUSR1", Reason: "late", Grace: 3 * time.Second}); err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-told:
		if want := `{"stop":{"reason":"late","grace_millis":3000}}`; strings.TrimSpace(line) != want {
			t.Errorf("told %s, want %s", line, want)
		}
	case <-time.After(patience):
		t.Fatalf("told nothing within %v", patience)
	}
	if err := f.Discard("job"); err != nil {
		t.Error(err)
	}
}
