package runner_test

import (
	"strings"
	"testing"

	"weir/actors/agent/runner"
	"weir/scheduling/statistics"
)

// TestShortJobsAreMeasured: jobs of some milliseconds are over before a sample is taken, and
// teach their task what they used nevertheless.
func TestShortJobsAreMeasured(t *testing.T) {
	const mib = 1 << 20
	tests := map[string]struct {
		argv []string
		// wantMost is without control groups greater by what the program shares.
		wantLeast, wantMost int64
	}{
		"50 MiB for 10 ms":  {argv: []string{"dd", "if=/dev/zero", "of=/dev/null", "bs=50M", "count=1"}, wantLeast: 50 * mib, wantMost: 60 * mib},
		"next to nothing":   {argv: []string{"true"}, wantLeast: 1, wantMost: 32 * mib},
		"a file of 100 MiB": {argv: []string{"dd", "if=/dev/zero", "of=file", "bs=1M", "count=100"}, wantLeast: 1, wantMost: 40 * mib},
	}
	onEachBackend(t, func(t *testing.T, f *fixture) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				result := f.run(t, runner.JobSpec{ID: strings.ReplaceAll(name, " ", "-"), Argv: test.argv, MemoryLimit: 512 * mib})
				used := result.Statistics.Values[statistics.UserMaxMemory]
				t.Logf("ran %v, used %d bytes", result.Duration(), used)
				if result.ExitCode != 0 || used < test.wantLeast || used > test.wantMost {
					t.Errorf("max memory %d after %v, exit code %d; want %d to %d", used, result.Duration(), result.ExitCode, test.wantLeast, test.wantMost)
				}
				if all := result.Statistics.MaxMemory; all != used {
					t.Errorf("with tmpfs %d, without %d, and there is none", all, used)
				}
			})
		}
	})
}
