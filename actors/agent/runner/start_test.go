package runner_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
