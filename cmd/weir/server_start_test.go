package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"weir/actors"
)

// TestTimeToEndJobs grows with the lease.
func TestTimeToEndJobs(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		2 * time.Second:  actors.DefaultTiming().Node.Kill,
		5 * time.Second:  500 * time.Millisecond,
		20 * time.Second: 2 * time.Second,
	} {
		f := serverFlags{heartbeat: time.Second, lease: lease, reassignAfter: time.Second}
		timing := f.actorTiming()
		if err := timing.Validate(); err != nil || timing.Node.Kill != want || timing.Node.Lease != lease {
			t.Errorf("lease %v: %v to end jobs after a lease of %v, %v; want %v", lease, timing.Node.Kill, timing.Node.Lease, err, want)
		}
	}
}

// TestStepsOfTheStart ends the start where it fails, and where what runs already does.
func TestStepsOfTheStart(t *testing.T) {
	errStep, errRival := errors.New("no such folder"), errors.New("another process is running as this replica")
	for name, test := range map[string]struct {
		// second is the second of three steps.
		second    func(ctx context.Context, fail func(error)) error
		want      error
		wantTaken []int
	}{
		"all is well":               {func(context.Context, func(error)) error { return nil }, nil, []int{1, 2, 3}},
		"a step fails":              {func(context.Context, func(error)) error { return errStep }, errStep, []int{1, 2}},
		"a rival, while it waits":   {func(ctx context.Context, fail func(error)) error { fail(errRival); <-ctx.Done(); return ctx.Err() }, errRival, []int{1, 2}},
		"a rival, while it is busy": {func(_ context.Context, fail func(error)) error { fail(errRival); return nil }, errRival, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, fail := context.WithCancelCause(t.Context())
			defer fail(nil)
			var taken []int
			step := func(n int) func(context.Context) error {
				return func(context.Context) error {
					taken = append(taken, n)
					if n == 2 {
						return test.second(ctx, fail)
					}
					return nil
				}
			}
			if err := take(ctx, step(1), step(2), step(3)); !errors.Is(err, test.want) || !slices.Equal(taken, test.wantTaken) {
				t.Errorf("took %v: %v, want %v: %v", taken, err, test.wantTaken, test.want)
			}
		})
	}
}
