package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner"
)

// TestStartGivenUp: a job that is given up while its folders are made is not started, and
// leaves nothing.
func TestStartGivenUp(t *testing.T) {
	onEachBackendWith(t, func(*runner.Config) {}, func(t *testing.T, f *fixture) {
		ctx, giveUp := context.WithCancel(t.Context())
		_, err := f.Start(ctx, runner.JobSpec{ID: "job", Shell: "true", Lease: time.Minute, Furnish: func(string) error {
			giveUp()
			return nil
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("start: %v, want that it was given up", err)
		}
		if f.Job("job") != nil {
			t.Error("the job is there")
		}
	})
}

// TestOutputOfAJobThatWasNotStarted: an earlier version may have left it.
func TestOutputOfAJobThatWasNotStarted(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.config.Root, "output", "job"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	if err := f.Discard("job"); err != nil {
		t.Fatal(err)
	}
	finished(t, f.start(t, runner.JobSpec{ID: "job", Shell: "true"}))
}

// TestStartGivenUpHalfway: what a job that was not started has left is removed by the next agent process, also if this
// one came to its end, or to an error, in the middle of it. The job can be started then.
func TestStartGivenUpHalfway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount what cannot be removed")
	}
	f := newFixture(t, backends["as a process tree"])
	output := filepath.Join(f.config.Root, "output", "job")
	ctx, giveUp := context.WithCancel(t.Context())
	_, err := f.Start(ctx, runner.JobSpec{ID: "job", Shell: "true", Lease: time.Minute, Furnish: func(string) error {
		giveUp()
		return unix.Mount("none", output, "tmpfs", 0, "")
	}})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, unix.EBUSY) {
		t.Errorf("start: %v, want that it was given up, and that something is left", err)
	}
	if err := unix.Unmount(output, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	job, err := f.Start(t.Context(), runner.JobSpec{ID: "job", Shell: "true", Lease: patience})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, job)
	if err := job.Release(); err != nil {
		t.Fatal(err)
	}
}
