package runner_test

import (
	"strings"
	"testing"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

func TestOutcomes(t *testing.T) {
	tests := map[string]struct {
		spec         runner.JobSpec
		wantOutcome  proxyproto.Outcome
		wantExitCode int
		wantSignal   string
		wantError    string
		wantStdout   string
		wantStderr   string
	}{
		"success":                     {spec: runner.JobSpec{Argv: []string{"true"}}, wantOutcome: proxyproto.OutcomeExited},
		"an exit code":                {spec: runner.JobSpec{Shell: "exit 42"}, wantOutcome: proxyproto.OutcomeExited, wantExitCode: 42},
		"both streams":                {spec: runner.JobSpec{Shell: "echo out; echo err >&2"}, wantOutcome: proxyproto.OutcomeExited, wantStdout: "out\n", wantStderr: "err\n"},
		"arguments are no shell's":    {spec: runner.JobSpec{Argv: []string{"echo", "$HOME", "a b", "*"}}, wantOutcome: proxyproto.OutcomeExited, wantStdout: "$HOME a b *\n"},
		"a signal of its own":         {spec: runner.JobSpec{Shell: "kill -SEGV $$"}, wantOutcome: proxyproto.OutcomeSignaled, wantExitCode: -1, wantSignal: "SIGSEGV"},
		"a missing program":           {spec: runner.JobSpec{Argv: []string{"no-such-program"}}, wantOutcome: proxyproto.OutcomeStartFailed, wantExitCode: -1, wantError: `start "no-such-program": no such file or directory in PATH`},
		"a missing program by a path": {spec: runner.JobSpec{Argv: []string{"/no/such/program"}}, wantOutcome: proxyproto.OutcomeStartFailed, wantExitCode: -1, wantError: `start "/no/such/program": no such file or directory`},
		"a program without the right": {spec: runner.JobSpec{Argv: []string{"/etc/passwd"}}, wantOutcome: proxyproto.OutcomeStartFailed, wantExitCode: -1, wantError: "permission denied"},
		"an argument too long":        {spec: runner.JobSpec{Argv: []string{"echo", strings.Repeat("x", 200<<10)}}, wantOutcome: proxyproto.OutcomeStartFailed, wantExitCode: -1, wantError: "argument list too long"},
		"standard input is empty":     {spec: runner.JobSpec{Argv: []string{"cat"}}, wantOutcome: proxyproto.OutcomeExited},
	}
	onEachBackend(t, func(t *testing.T, f *fixture) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				test.spec.ID = strings.ReplaceAll(name, " ", "-")
				test.spec.ID = strings.ReplaceAll(test.spec.ID, "'", "")
				result := f.run(t, test.spec)
				if result.Outcome != test.wantOutcome || result.ExitCode != test.wantExitCode || result.Signal != test.wantSignal {
					t.Errorf("result %+v, want %s, exit code %d, signal %q", result, test.wantOutcome, test.wantExitCode, test.wantSignal)
				}
				if !strings.Contains(result.Error, test.wantError) || test.wantError == "" && result.Error != "" {
					t.Errorf("error %q, want %q", result.Error, test.wantError)
				}
				if got := f.output(t, test.spec.ID, "stdout"); got != test.wantStdout {
					t.Errorf("stdout %q, want %q", got, test.wantStdout)
				}
				if got := f.output(t, test.spec.ID, "stderr"); got != test.wantStderr {
					t.Errorf("stderr %q, want %q", got, test.wantStderr)
				}
			})
		}
	})
}
