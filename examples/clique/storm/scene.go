package storm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
	"weir/messages/apipb"
)

// patience is how long a change may take before the run is given up: much longer than
// it takes on a machine that has other work.
const patience = 5 * time.Minute

// stage is a cluster on which the service is run.
type stage struct {
	Config
	*playground.Cluster
	// places are for jobs, cpu is what each of them takes; nodes are their names.
	places int
	cpu    float64
	nodes  []string
}

// scene is one run: the service in a storm.
type scene struct {
	*stage
	spared    bool
	trace     *trace
	fleet     *load.Fleet
	generator *load.Generator
	result    *result
	service   string
	began     time.Time
	// printing is held by who prints.
	printing sync.Mutex
	// background are those that watch and send; one that cannot go on ends the run by fail.
	background sync.WaitGroup
	fail       context.CancelCauseFunc
	// stop ends the load, which ran ends with.
	stop context.CancelFunc
	ran  chan struct{}
}

// play runs the service through a storm.
func (s *stage) play(ctx context.Context, spared bool) (*result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	client := load.NewClient()
	defer client.CloseIdleConnections()
	run := &scene{
		stage: s, spared: spared, fail: fail, trace: newTrace(), fleet: load.NewReadyFleet(), result: &result{spared: spared}, ran: make(chan struct{}),
		began: time.Now(),
	}
	run.generator = load.New(s.Load, run.fleet, client)
	defer run.background.Wait()
	defer fail(nil)
	for _, step := range []func(context.Context) error{run.open, run.rage, run.close, run.account} {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				err = cause
			}
			return nil, fmt.Errorf("run %s: %w", names[spared], err)
		}
	}
	return run.result, nil
}

// say tells of something that has happened.
func (s *scene) say(format string, args ...any) {
	s.printing.Lock()
	defer s.printing.Unlock()
	total := s.generator.Tally().Total()
	fmt.Fprintf(s.Out, "%-16s %6.1f s  %6d requests sent, %3d failed  %s\n", names[s.spared], time.Since(s.began).Seconds(), total.Sent, total.Failed, fmt.Sprintf(format, args...))
}

// open starts the service and, once all instances are ready, its load.
func (s *scene) open(ctx context.Context) (err error) {
	if s.service, err = s.Begin(ctx, s.serviceSpec(s.spared)); err != nil {
		return err
	}
	s.background.Go(func() {
		if err := s.fleet.Follow(ctx, s.WatchInstances(ctx, s.service), s.trace.see); err != nil && ctx.Err() == nil {
			s.fail(err)
		}
	})
	if err := s.whole(ctx); err != nil {
		return err
	}
	stop, cancel := context.WithCancel(ctx)
	s.stop, s.began = cancel, time.Now()
	s.background.Go(func() {
		defer close(s.ran)
		s.generator.Run(ctx, stop)
	})
	s.say("%d instances are ready", s.instances())
	return nil
}

// whole waits until all instances are ready.
func (s *scene) whole(ctx context.Context) error {
	return s.until(ctx, fmt.Sprintf("%d instances are ready", s.instances()), func(seen []*apipb.Instance) bool { return readyOf(seen) >= s.instances() })
}

// until waits until instances are as is says; what says it for people.
func (s *scene) until(ctx context.Context, what string, is func(seen []*apipb.Instance) bool) error {
	limit := s.Timeout + patience
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not so after %v: %s", limit, what))
	defer cancel()
	return s.trace.until(ctx, is)
}

// rage has the events happen, until the storm is over and enough requests were sent.
func (s *scene) rage(ctx context.Context) error {
	var group sync.WaitGroup
	for _, l := range lanes(s.Seed, len(s.nodes), s.Duration) {
		group.Go(func() {
			if err := s.follow(ctx, l); err != nil {
				s.fail(err)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.whole(ctx); err != nil {
		return err
	}
	for s.generator.Tally().Total().Sent < s.Requests {
		if err := playground.Pause(ctx, playground.Glance); err != nil {
			return err
		}
	}
	return nil
}

// follow has the events of a lane happen.
func (s *scene) follow(ctx context.Context, l *lane) error {
	for count := 0; ; count++ {
		next, ok := l.next(count, time.Since(s.began), s.Duration)
		if !ok {
			return nil
		}
		if err := playground.Pause(ctx, next.pause); err != nil {
			return err
		}
		now := happening{event: next}
		var err error
		if now.name, err = s.busy(ctx, next); err != nil {
			return err
		}
		begin := [kinds]func(context.Context, happening) error{drain: s.drain, rival: s.rival, upgrade: s.upgrade, death: s.die}[next.kind]
		now.from = time.Now()
		if err := begin(ctx, now); err != nil {
			return fmt.Errorf("%s at %s: %w", words[next.kind], now.name, err)
		}
		now.to = time.Now()
		s.trace.happened(now)
	}
}

// close ends the load, and then the service.
func (s *scene) close(ctx context.Context) error {
	s.stop()
	select {
	case <-s.ran:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.result.began, s.result.ended, s.result.tally = s.began, time.Now(), s.generator.Tally()
	s.result.moments, s.result.events = s.trace.all(s.began)
	s.say("every request has ended")
	if err := s.AbortOperation(ctx, s.service, "the run is over", s.Timeout); err != nil {
		return err
	}
	_, err := s.WaitOperation(ctx, s.service)
	return err
}

// account counts how instances ended that were told to go.
func (s *scene) account(ctx context.Context) error {
	jobs, err := s.ListJobs(ctx, &apipb.ListJobsRequest{Operation: s.service, Limit: 1000})
	if err != nil {
		return err
	}
	s.result.count(jobs.GetJobs())
	return nil
}
