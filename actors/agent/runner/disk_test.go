package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

// TestJobFillsTheDisk has a job fill the disk that it shares with others, and print
// then: it gets the system's error, and is no one else's trouble.
func TestJobFillsTheDisk(t *testing.T) {
	disk := disktest.Small(t, 8<<20)
	f := newFixture(t, backends["with cgroups"], func(c *runner.Config) { c.Root = filepath.Join(disk, "agent") })
	other := f.start(t, runner.JobSpec{ID: "other", Shell: "echo begun; while [ ! -e go ]; do sleep 0.01; done; exit 3"})
	f.awaitOutput(t, other, 1)
	hog := f.start(t, runner.JobSpec{ID: "hog", Shell: "cat /dev/zero > all; code=$?; head -c 1M /dev/zero; head -c 1M /dev/zero >&2; exit $code"})
	result := finished(t, hog)
	if result.Outcome != proxyproto.OutcomeExited || result.ExitCode != 1 {
		t.Errorf("the hog: %+v, want it to fail by itself", result)
	}
	s := result.Statistics
	if s.StdoutBytes != 1<<20 || s.StdoutDroppedBytes == 0 || s.StderrDroppedBytes == 0 {
		t.Errorf("the hog printed %+v, want it counted, and said what was dropped", s)
	}
	for _, stream := range []string{"store stdout", "store stderr"} {
		if !strings.Contains(result.OutputLost, stream) || !strings.Contains(result.OutputLost, "no space left on device") {
			t.Errorf("output lost: %q, want %q named", result.OutputLost, stream)
		}
	}

	if _, err := f.Start(f.ctx, runner.JobSpec{ID: "late", Shell: "true", Lease: patience}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Start on a full disk: %v, want the system's error", err)
	}
	if result := other.Result(); result != nil {
		t.Fatalf("the other job has ended: %+v", result)
	}
	// A folder takes no space of such a disk.
	if err := os.Mkdir(filepath.Join(f.config.Root, "jobs", "other", proxyproto.WorkspaceFolder, "go"), 0o700); err != nil {
		t.Fatal(err)
	}
	if result := finished(t, other); result.ExitCode != 3 {
		t.Errorf("the other job: %+v, want its own exit code", result)
	}
	if err := hog.Release(); err != nil {
		t.Fatal(err)
	}
	if err := other.Release(); err != nil {
		t.Fatal(err)
	}
	if result := f.run(t, runner.JobSpec{ID: "again", Shell: "echo fine"}); result.ExitCode != 0 || result.OutputLost != "" {
		t.Errorf("a job when there is space again: %+v", result)
	}
}
