package playground

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/cmd/poll"
	"weir/examples/clique/load"
	"weir/messages/apipb"
)

// Patience is how long a change may take before a run is given up: much longer than a change takes
// even on a busy machine.
const Patience = 7 * time.Minute

// Run is one run of the service under a load.
type Run struct {
	// Name names the run; Operation is the id of the service.
	Name, Operation string
	// Began is when the load began.
	Began time.Time

	stage     *Stage
	fleet     *load.Fleet
	generator *load.Generator
	// printing serializes output.
	printing sync.Mutex
	// background counts the goroutines that watch and send. If one fails, it ends the run with
	// Fail.
	background sync.WaitGroup
	// Fail ends the run for a cause.
	Fail context.CancelCauseFunc
	// stop ends the load; ran is closed when it has ended.
	stop context.CancelFunc
	ran  chan struct{}
}

// NewRun returns a run that has not begun.
func (s *Stage) NewRun(name string) *Run {
	fleet := load.NewFleet()
	return &Run{Name: name, Began: time.Now(), stage: s, fleet: fleet, generator: load.New(s.config.Load, fleet), ran: make(chan struct{})}
}

// Play runs the steps, one after another.
func (r *Run) Play(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, r.Fail = context.WithCancelCause(ctx)
	defer r.background.Wait()
	defer r.Fail(nil)
	for _, step := range steps {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				err = cause
			}
			return fmt.Errorf("run %s: %w", r.Name, err)
		}
	}
	return nil
}

// Tally returns the results of the requests so far.
func (r *Run) Tally() load.Tally { return r.generator.Tally() }

// Say prints an event.
func (r *Run) Say(format string, args ...any) {
	r.printing.Lock()
	defer r.printing.Unlock()
	total := r.Tally().Total()
	fmt.Fprintf(r.stage.config.Out, "%-16s %6.1f s  %6d requests sent, %3d failed  %s\n", r.Name, time.Since(r.Began).Seconds(), total.Sent, total.Failed, fmt.Sprintf(format, args...))
}

// Watch calls `what` in the background. If it fails, the run ends.
func (r *Run) Watch(ctx context.Context, what func() error) {
	r.background.Go(func() {
		if err := what(); err != nil && ctx.Err() == nil {
			r.Fail(err)
		}
	})
}

// Serve starts the service of a description, and passes its instances to `see` whenever they
// change.
func (r *Run) Serve(ctx context.Context, description map[string]any, see func([]*apipb.Instance)) (err error) {
	if r.Operation, err = r.stage.Begin(ctx, description); err != nil {
		return err
	}
	r.Watch(ctx, func() error { return r.fleet.Follow(r.stage.WatchInstances(ctx, r.Operation), see) })
	return nil
}

// Send starts the load once this many instances are ready. The run's time begins then: the time
// before says nothing about the service.
func (r *Run) Send(ctx context.Context, instances int) error {
	if err := r.Whole(ctx, instances); err != nil {
		return err
	}
	stop, cancel := context.WithCancel(ctx)
	r.stop, r.Began = cancel, time.Now()
	r.background.Go(func() {
		defer close(r.ran)
		r.generator.Run(ctx, stop)
	})
	r.Say("%d instances are ready", instances)
	return nil
}

// Whole waits until this many instances are ready.
func (r *Run) Whole(ctx context.Context, instances int) error {
	return r.Until(ctx, fmt.Sprintf("%d instances are ready", instances), func(seen []*apipb.Instance) bool { return load.CountIf(seen, load.Ready) >= instances })
}

// Until waits until `is` returns true for the instances; `what` names that condition in the error.
func (r *Run) Until(ctx context.Context, what string, is func(seen []*apipb.Instance) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("timed out after %v waiting for: %s", Patience, what))
	defer cancel()
	return r.fleet.Until(ctx, is)
}

// Enough waits until the run has sent its number of requests.
func (r *Run) Enough(ctx context.Context) error {
	return poll.Every(ctx, Glance, func() (bool, error) { return r.Tally().Total().Sent >= r.stage.config.Requests, nil })
}

// Halt ends the load and waits for the open requests.
func (r *Run) Halt(ctx context.Context) error {
	r.stop()
	select {
	case <-r.ran:
		r.Say("every request has ended")
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// End ends the service and returns its jobs. Its instances have timeout to leave.
func (r *Run) End(ctx context.Context, timeout time.Duration) ([]*apipb.Job, error) {
	if err := r.stage.AbortOperation(ctx, r.Operation, "the run is over", timeout); err != nil {
		return nil, err
	}
	if _, err := r.stage.WaitOperation(ctx, r.Operation); err != nil {
		return nil, err
	}
	jobs, err := r.stage.ListJobs(ctx, &apipb.ListJobsRequest{Operation: r.Operation, Limit: 1000})
	return jobs.GetJobs(), err
}
