package storm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weir/cmd/poll"
	"weir/examples/clique/load"
	"weir/examples/clique/playground"
	"weir/messages/apipb"
)

// scene is one run: the service in a storm.
type scene struct {
	*stage
	*playground.Run
	trace  playground.Trace[state]
	result *result
}

// state has the number of ready instances, and the number of all instances.
type state struct{ ready, present int }

// happening is an event with its times in the run; the time `to` is 0 while the event goes on.
type happening struct {
	event
	// name is the name of the node.
	name     string
	from, to time.Duration
}

// play runs the service through a storm.
func (s *stage) play(ctx context.Context, r *result) error {
	run := &scene{stage: s, Run: s.NewRun(names[r.spared]), result: r}
	return run.Play(ctx, run.open, run.rage, run.close)
}

// open starts the service and, once all instances are ready, its load.
func (s *scene) open(ctx context.Context) error {
	if err := s.Serve(ctx, s.serviceSpec(s.result.spared), s.see); err != nil {
		return err
	}
	return s.Send(ctx, s.instances())
}

// see records the instances that discovery reports.
func (s *scene) see(instances []*apipb.Instance) {
	s.trace.Note(func(now *state) {
		now.ready, now.present = load.CountIf(instances, load.Ready), load.CountIf(instances, present)
	})
}

// rage runs the events until the storm is over and enough requests are sent.
func (s *scene) rage(ctx context.Context) error {
	var group sync.WaitGroup
	all := lanes(s.Load.Seed, len(s.Nodes), s.Duration)
	for _, l := range all {
		group.Go(func() {
			if err := s.follow(ctx, l); err != nil {
				s.Fail(err)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, l := range all {
		s.result.events = append(s.result.events, l.happened...)
	}
	if err := s.Whole(ctx, s.instances()); err != nil {
		return err
	}
	return s.Enough(ctx)
}

// follow runs the events of a lane.
func (s *scene) follow(ctx context.Context, l *lane) error {
	for {
		next, ok := l.next(len(l.happened), time.Since(s.Began), s.Duration)
		if !ok {
			return nil
		}
		if err := poll.Pause(ctx, next.pause); err != nil {
			return err
		}
		now := happening{event: next}
		var err error
		if now.name, err = s.busy(ctx, next); err != nil {
			return err
		}
		begin := [kinds]func(context.Context, happening) error{drain: s.drain, rival: s.rival, upgrade: s.upgrade, death: s.die}[next.kind]
		now.from = time.Since(s.Began)
		if err := begin(ctx, now); err != nil {
			return fmt.Errorf("%s at %s: %w", words[next.kind], now.name, err)
		}
		now.to = time.Since(s.Began)
		l.happened = append(l.happened, now)
	}
}

// close ends the load, and then the service, and counts how its instances ended.
func (s *scene) close(ctx context.Context) error {
	if err := s.Halt(ctx); err != nil {
		return err
	}
	s.result.began, s.result.ended, s.result.tally, s.result.moments = s.Began, time.Now(), s.Tally(), s.trace.Since(s.Began)
	jobs, err := s.End(ctx, s.Timeout)
	s.result.count(jobs)
	return err
}
