package show

import (
	"context"
	"fmt"
	"time"

	"weir/cmd/poll"
	"weir/examples/clique/load"
	"weir/examples/clique/playground"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// scene is one run: the service under one mode of preemption.
type scene struct {
	*stage
	*playground.Run
	trace  playground.Trace[state]
	result *result
	// heavy is the id of the heavy operation.
	heavy string
}

// play runs the service under the result's mode of preemption.
func (s *stage) play(ctx context.Context, r *result) error {
	run := &scene{stage: s, Run: s.NewRun(names[r.mode]), result: r}
	return run.Play(ctx, run.open, run.arrive, run.share, run.depart, run.close)
}

// open starts the service and, once all instances are ready, its load.
func (s *scene) open(ctx context.Context) error {
	if err := s.Serve(ctx, s.serviceSpec(s.result.mode), s.hold(serviceOf)); err != nil {
		return err
	}
	s.Watch(ctx, func() error { return s.followShare(ctx, s.Operation, serviceOf) })
	if err := s.Send(ctx, s.Places); err != nil {
		return err
	}
	return poll.Pause(ctx, s.Alone)
}

// hold returns a function that records the jobs of an operation, as discovery reports them.
func (s *scene) hold(of func(*state) *holding) func([]*apipb.Instance) {
	return func(instances []*apipb.Instance) {
		count := map[string]float64{}
		for _, instance := range instances {
			count[instance.GetState()]++
		}
		s.trace.Note(func(now *state) {
			of(now).live, of(now).draining = count[actorpb.InstanceLive]/float64(s.Places), count[actorpb.InstanceDraining]/float64(s.Places)
		})
	}
}

// followShare records the fair share of an operation until it ends.
func (s *scene) followShare(ctx context.Context, operation string, of func(*state) *holding) error {
	return poll.Every(ctx, playground.Glance, func() (ended bool, err error) {
		op, err := s.GetOperation(ctx, operation)
		if err != nil {
			return false, err
		}
		fair := op.GetFairShare()
		stage, err := lifecycle.ParseState(op.GetState())
		if ended = err != nil || stage.Terminal() || stage == lifecycle.Aborting; ended {
			fair = 0
		}
		s.trace.Note(func(now *state) { of(now).fair = fair })
		return ended, err
	})
}

// arrive starts the heavy operation.
func (s *scene) arrive(ctx context.Context) (err error) {
	s.result.arrived = time.Since(s.Began)
	if s.heavy, err = s.Begin(ctx, s.Filler("heavy", pool)); err != nil {
		return err
	}
	s.Watch(ctx, func() error { return load.NewFleet().Follow(s.WatchInstances(ctx, s.heavy), s.hold(heavyOf)) })
	s.Watch(ctx, func() error { return s.followShare(ctx, s.heavy, heavyOf) })
	s.Say("a heavy operation arrives in the same pool")
	return nil
}

// share waits until both operations have their fair share.
func (s *scene) share(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, playground.Patience, fmt.Errorf("the operations have not reached their fair shares after %v", playground.Patience))
	defer cancel()
	err := poll.Every(limited, playground.Glance, func() (ok bool, _ error) {
		s.result.reached, ok = reached(s.trace.Since(s.Began), s.result.arrived)
		return ok, nil
	})
	if err != nil {
		return err
	}
	s.Say("both have their fair share, after %.1f s", s.result.reached.Seconds())
	return poll.Pause(ctx, s.Together-(time.Since(s.Began)-s.result.arrived))
}

// depart ends the heavy operation and waits until all instances of the service are ready again.
func (s *scene) depart(ctx context.Context) error {
	s.result.departed = time.Since(s.Began)
	if err := s.AbortOperation(ctx, s.heavy, "it has been seen", 0); err != nil {
		return err
	}
	s.Say("the heavy operation is aborted")
	if err := s.Whole(ctx, s.Places); err != nil {
		return err
	}
	s.Say("%d instances are ready again", s.Places)
	if err := poll.Pause(ctx, s.After-(time.Since(s.Began)-s.result.departed)); err != nil {
		return err
	}
	return s.Enough(ctx)
}

// close ends the load, and then the service, and counts how its instances ended.
func (s *scene) close(ctx context.Context) error {
	if err := s.Halt(ctx); err != nil {
		return err
	}
	s.result.moments, s.result.tally = s.trace.Since(s.Began), s.Tally()
	jobs, err := s.End(ctx, s.ShortTimeout)
	for _, job := range jobs {
		switch {
		case job.GetInterruption().GetReason() != lifecycle.AbortPreemption.String():
		case job.GetState() == lifecycle.JobCompleted.String():
			s.result.left++
		default:
			s.result.cut++
		}
	}
	return err
}
