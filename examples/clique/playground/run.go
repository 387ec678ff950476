package playground

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/examples/clique/load"
	"weir/messages/apipb"
)

// Patience is how long a change may take before a run is given up: much longer than it takes
// on a machine that has other work.
const Patience = 7 * time.Minute

// Run is one run of the service under a load.
type Run struct {
	// Name is that of the run, Operation the service.
	Name, Operation string
	// Began is when the load began.
	Began time.Time

	stage     *Stage
	fleet     *load.Fleet
	generator *load.Generator
	// printing is held by who prints.
	printing sync.Mutex
	// background are those that watch and send; one that cannot go on ends the run by Fail.
	background sync.WaitGroup
	// Fail ends the run for a cause.
	Fail context.CancelCauseFunc
	// stop ends the load, which ran ends with.
	stop context.CancelFunc
	ran  chan struct{}
}

// NewRun returns a run that has not begun.
func (s *Stage) NewRun(name string) *Run {
	fleet := load.NewFleet()
	return &Run{Name: name, Began: time.Now(), stage: s, fleet: fleet, generator: load.New(s.config.Load, fleet), ran: make(chan struct{})}
}

// Play takes the steps of the run, one after the other.
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

// Tally returns what has become of the requests so far.
func (r *Run) Tally() load.Tally { return r.generator.Tally() }

// Say tells of something that has happened.
func (r *Run) Say(format string, args ...any) {
	r.printing.Lock()
	defer r.printing.Unlock()
	total := r.Tally().Total()
	fmt.Fprintf(r.stage.config.Out, "%-16s %6.1f s  %6d requests sent, %3d failed  %s\n", r.Name, time.Since(r.Began).Seconds(), total.Sent, total.Failed, fmt.Sprintf(format, args...))
}

// Watch does something in the background, without which the run cannot go on.
func (r *Run) Watch(ctx context.Context, what func() error) {
	r.background.Go(func() {
		if err := what(); err != nil && ctx.Err() == nil {
			r.Fail(err)
		}
	})
}

// Serve starts the service of a description, and hands its instances to see, whenever these
// are others.
func (r *Run) Serve(ctx context.Context, description map[string]any, see func([]*apipb.Instance)) (err error) {
	if r.Operation, err = r.stage.Begin(ctx, description); err != nil {
		return err
	}
	r.Watch(ctx, func() error { return r.fleet.Follow(r.stage.WatchInstances(ctx, r.Operation), see) })
	return nil
}

// Send begins the load once so many instances are ready. The time before is the cluster's, and
// of no interest.
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

// Whole waits until so many instances are ready.
func (r *Run) Whole(ctx context.Context, instances int) error {
	return r.Until(ctx, fmt.Sprintf("%d instances are ready", instances), func(seen []*apipb.Instance) bool { return load.CountIf(seen, load.Ready) >= instances })
}

// Until waits until the instances are as is says; what says it for people.
func (r *Run) Until(ctx context.Context, what string, is func(seen []*apipb.Instance) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("not so after %v: %s", Patience, what))
	defer cancel()
	return r.fleet.Until(ctx, is)
}

// Enough waits until as many requests were sent as a run has.
func (r *Run) Enough(ctx context.Context) error {
	return Poll(ctx, func() (bool, error) { return r.Tally().Total().Sent >= r.stage.config.Requests, nil })
}

// Halt ends the load.
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

// End ends the service, whose instances have so long to leave, and returns its jobs.
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
