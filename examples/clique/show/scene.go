package show

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// patience is how long a change may take before the run is given up: much longer than
// it takes on a machine that has other work.
const patience = 3 * time.Minute

// sharePeriod is how often fair shares are asked for.
const sharePeriod = 100 * time.Millisecond

// scene is one run: the service under one mode of preemption.
type scene struct {
	*stage
	mode      string
	trace     *trace
	fleet     *load.Fleet
	generator *load.Generator
	result    *result
	// service and heavy are the operations.
	service, heavy string
	// background are those that watch; one that cannot go on ends the run by fail.
	background sync.WaitGroup
	fail       context.CancelCauseFunc
	// stop ends the load, which ran ends with.
	stop context.CancelFunc
	ran  chan struct{}
}

// play runs the service in a mode.
func (s *stage) play(ctx context.Context, mode string) (*result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	client := load.NewClient()
	defer client.CloseIdleConnections()
	run := &scene{stage: s, mode: mode, fail: fail, fleet: load.NewFleet(client), result: &result{mode: mode}, ran: make(chan struct{})}
	run.generator = load.New(s.Load, run.fleet, client)
	defer run.background.Wait()
	defer fail(nil)
	for _, step := range []func(context.Context) error{run.open, run.arrive, run.share, run.depart, run.close, run.account} {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				err = cause
			}
			return nil, fmt.Errorf("run with %s preemption: %w", mode, err)
		}
	}
	return run.result, nil
}

// say tells of something that has happened.
func (s *scene) say(format string, args ...any) {
	total := s.generator.Tally().Total()
	fmt.Fprintf(s.Out, "%-9s %5.1f s  %6d requests sent, %3d failed  %s\n", s.name(), s.trace.since().Seconds(), total.Sent, total.Failed, fmt.Sprintf(format, args...))
}

func (s *scene) name() string { return names[s.mode] }

// open starts the service and, once all instances are ready, its load.
func (s *scene) open(ctx context.Context) (err error) {
	if s.service, err = s.Begin(ctx, s.serviceSpec(s.mode)); err != nil {
		return err
	}
	s.trace = newTrace(s.jobs)
	s.watch(ctx, func() error {
		return s.fleet.Follow(ctx, s.WatchInstances(ctx, s.service), func(seen []*apipb.Instance) { s.trace.hold(serviceOf, seen) })
	})
	s.watch(ctx, func() error { return s.followShare(ctx, s.service, serviceOf) })
	if err := s.await(ctx, s.jobs); err != nil {
		return err
	}
	// The time before is the cluster's, and of no interest.
	s.trace.restart()
	stop, cancel := context.WithCancel(ctx)
	s.stop = cancel
	s.background.Go(func() {
		defer close(s.ran)
		s.generator.Run(ctx, stop)
	})
	s.say("%d instances are ready", s.jobs)
	return playground.Pause(ctx, s.Alone)
}

// await waits until so many instances are ready.
func (s *scene) await(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the service has no %d instances after %v", count, patience))
	defer cancel()
	return s.fleet.Ready(ctx, count)
}

// watch does something in the background, without which the run cannot go on.
func (s *scene) watch(ctx context.Context, what func() error) {
	s.background.Go(func() {
		if err := what(); err != nil && ctx.Err() == nil {
			s.fail(err)
		}
	})
}

// followShare notes the fair share of an operation until that has ended.
func (s *scene) followShare(ctx context.Context, operation string, of func(*moment) *holding) error {
	for {
		op, err := s.GetOperation(ctx, operation)
		if err != nil {
			return err
		}
		if state, err := lifecycle.ParseState(op.GetState()); err != nil || state.Terminal() || op.GetState() == lifecycle.Aborting.String() {
			s.trace.note(func(m *moment) { of(m).fair = 0 })
			return err
		}
		s.trace.note(func(m *moment) { of(m).fair = op.GetFairShare() })
		if err := playground.Pause(ctx, sharePeriod); err != nil {
			return err
		}
	}
}

// arrive starts the heavy operation.
func (s *scene) arrive(ctx context.Context) (err error) {
	s.result.arrived = s.trace.since()
	if s.heavy, err = s.Begin(ctx, s.heavySpec()); err != nil {
		return err
	}
	s.watch(ctx, func() error {
		for seen, err := range s.WatchInstances(ctx, s.heavy) {
			if err != nil {
				return err
			}
			s.trace.hold(heavyOf, seen.GetInstances())
		}
		return nil
	})
	s.watch(ctx, func() error { return s.followShare(ctx, s.heavy, heavyOf) })
	s.say("a heavy operation arrives in the same pool")
	return nil
}

// share waits until both operations have their fair share.
func (s *scene) share(ctx context.Context) error {
	limit := time.Now().Add(patience)
	for {
		took, ok := reached(s.trace.all(), s.result.arrived)
		if ok {
			s.result.reached = took
			s.say("both have their fair share, after %.1f s", took.Seconds())
			return playground.Pause(ctx, s.Together-(s.trace.since()-s.result.arrived))
		}
		if time.Now().After(limit) {
			moments := s.trace.all()
			return fmt.Errorf("the operations have not got their fair shares in %v: %+v", patience, moments[len(moments)-1])
		}
		if err := playground.Pause(ctx, playground.Glance); err != nil {
			return err
		}
	}
}

// depart ends the heavy operation and waits until the service is whole again.
func (s *scene) depart(ctx context.Context) error {
	s.result.departed = s.trace.since()
	if err := s.AbortOperation(ctx, s.heavy, "it has been seen", 0); err != nil {
		return err
	}
	s.say("the heavy operation goes")
	if err := s.await(ctx, s.jobs); err != nil {
		return err
	}
	s.say("%d instances are ready again", s.jobs)
	if err := playground.Pause(ctx, s.After-(s.trace.since()-s.result.departed)); err != nil {
		return err
	}
	for s.generator.Tally().Total().Sent < s.Requests {
		if err := playground.Pause(ctx, playground.Glance); err != nil {
			return err
		}
	}
	return nil
}

// close ends the load, and then the service.
func (s *scene) close(ctx context.Context) error {
	s.stop()
	select {
	case <-s.ran:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.result.moments, s.result.tally = s.trace.all(), s.generator.Tally()
	s.say("every request has ended")
	if err := s.AbortOperation(ctx, s.service, "the run is over", s.ShortTimeout); err != nil {
		return err
	}
	_, err := s.WaitOperation(ctx, s.service)
	return err
}

// account counts how preempted instances ended.
func (s *scene) account(ctx context.Context) error {
	jobs, err := s.ListJobs(ctx, &apipb.ListJobsRequest{Operation: s.service, Limit: 1000})
	if err != nil {
		return err
	}
	for _, job := range jobs.GetJobs() {
		switch {
		case job.GetInterruption().GetReason() != lifecycle.AbortPreemption.String():
		case job.GetState() == lifecycle.JobCompleted.String():
			s.result.left++
		default:
			s.result.cut++
		}
	}
	return nil
}
