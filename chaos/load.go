package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/chaos/history"
	"weir/messages/apipb"
)

// load is the clients of a run, and the users whose rights it tests.
type load struct {
	cfg Config
	// api is a client of an operator.
	api *client.Client
	// journal is for calls of clients, asks for those of other users, turns for changes of
	// rights.
	journal, asks, turns *history.Writer
	score                *score
	// clients keep their open operations between run and settle.
	clients  []*submitter
	askers   []*asker
	changers []*changer
	targets  targets
}

func newLoad(ctx context.Context, cfg Config, api *client.Client, streams history.Writers, score *score) (*load, error) {
	l := &load{
		cfg: cfg, api: api, score: score,
		journal: streams[history.ClientFile], asks: streams[history.AskFile], turns: streams[history.RightsFile],
	}
	for i := range cfg.Clients {
		own, err := cfg.Users.Client(clientUser(i + 1))
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, &submitter{
			load: l, own: own, number: i + 1, pool: pool(i + 1), random: rand.New(rand.NewPCG(cfg.Seed, uint64(i+1))), open: make(map[string]bool),
		})
	}
	if len(cfg.Simulated) > 0 {
		l.clients = append(l.clients, &submitter{load: l, own: api, number: cfg.Clients + 1, pool: Simulated, open: make(map[string]bool)})
	}
	return l, l.addUsers(ctx)
}

// run submits until ctx is done.
func (l *load) run(ctx context.Context) error {
	var all []func(context.Context) error
	for _, c := range l.clients {
		if c.pool == Simulated {
			all = append(all, c.occupy)
		} else {
			all = append(all, c.run)
		}
	}
	for _, a := range l.askers {
		all = append(all, a.run)
	}
	for _, c := range l.changers {
		all = append(all, c.run)
	}
	return together(all, func(run func(context.Context) error) error { return run(ctx) })
}

// together calls the function do for all elements of a list concurrently.
func together[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, one := range list {
		all.Go(func() { errs[i] = do(one) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// settle resubmits submissions without an answer, and waits until every operation has ended or
// Patience is over. The final reads show any that are still open.
func (l *load) settle(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.cfg.Patience)
	defer cancel()
	for _, c := range l.clients {
		if err := c.resubmit(limited, true); err != nil {
			return err
		}
	}
	for sleep(limited, lookPeriod) == nil {
		if going, err := l.inProgress(limited); err == nil && len(going) == 0 {
			break
		}
	}
	return ctx.Err()
}

// mostInProgress is the largest page that replicas answer with. Far fewer operations of a run are in progress.
const mostInProgress = 1000

// inProgress returns the operations that have not ended.
func (l *load) inProgress(ctx context.Context) (map[string]bool, error) {
	list, err := l.api.ListOperations(ctx, &apipb.ListOperationsRequest{InProgress: true, Limit: mostInProgress})
	if err != nil {
		return nil, err
	}
	going := make(map[string]bool)
	for _, o := range list.GetOperations() {
		going[o.GetId()] = true
	}
	l.score.change(func(p *Progress) { p.InProgress = len(going) })
	return going, nil
}

// submitter is one client.
type submitter struct {
	*load
	// own is the client's own connection, as its user.
	own    *client.Client
	number int
	// pool is where it starts operations.
	pool   string
	random *rand.Rand
	// count numbers its submissions.
	count int
	// unknown are submissions without an answer. They are sent again until they get one.
	unknown []*structpb.Struct
	// open are operations that may be in progress.
	open map[string]bool
}

// callTimeout bounds one call with all its retries; after it the outcome is unknown.
const callTimeout = 4 * time.Second

// abortShare is how many of 10 operations are aborted.
const abortShare = 1

func (s *submitter) run(ctx context.Context) error {
	for {
		// Uniform around the mean, so that clients do not march in step.
		if sleep(ctx, time.Duration(float64(s.cfg.Pace)*2*s.random.Float64())) != nil {
			return nil
		}
		if err := s.resubmit(ctx, false); err != nil {
			return err
		}
		operation, title, err := s.submitNext(ctx, fmt.Sprint("c", s.number), s.spec)
		if err != nil {
			return err
		}
		if operation == "" {
			continue
		}
		if len(s.open) >= s.cfg.Backlog {
			s.sift(ctx)
		}
		if len(s.open) >= s.cfg.Backlog || s.random.IntN(10) < abortShare {
			err = s.abort(ctx, operation, title)
		} else {
			s.open[operation] = true
		}
		if err != nil {
			return err
		}
	}
}

// submitNext submits what describe makes of the next title, and returns the operation if there was an answer.
func (s *submitter) submitNext(ctx context.Context, name string, describe func(title string) (*structpb.Struct, error)) (operation, title string, err error) {
	s.count++
	title = fmt.Sprintf("%s-%d", name, s.count)
	spec, err := describe(title)
	if err == nil {
		operation, err = s.submit(ctx, spec)
	}
	return operation, title, err
}

// resubmit resends a submission that was not answered. With `insist` it goes on until all are
// answered or ctx is done.
func (s *submitter) resubmit(ctx context.Context, insist bool) error {
	for len(s.unknown) > 0 {
		spec := s.unknown[0]
		s.unknown = s.unknown[1:]
		if _, err := s.submit(ctx, spec); err != nil {
			return err
		}
		if ctx.Err() != nil || !insist {
			break
		}
	}
	return nil
}

// submit makes one submission, and returns its operation if there was an answer. err is an
// error of the journal.
func (s *submitter) submit(ctx context.Context, spec *structpb.Struct) (operation string, err error) {
	mutation := spec.GetFields()["title"].GetStringValue()
	call := history.Call{Client: s.number, What: history.Submit, Mutation: mutation, Called: history.Now()}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := s.own.StartOperation(limited, &apipb.StartRequest{Spec: spec, MutationId: mutation})
	call.Returned, call.Operation = history.Now(), res.GetOperationId()
	call.Outcome, call.Error = outcome(err)
	switch call.Outcome {
	case history.OK:
		s.score.acknowledged()
		s.targets.add(call.Operation, s.pool)
	case history.Unknown:
		s.unknown = append(s.unknown, spec)
	}
	return call.Operation, s.journal.Write(call)
}

func (s *submitter) abort(ctx context.Context, operation, mutation string) error {
	call := history.Call{Client: s.number, What: history.Abort, Mutation: mutation, Operation: operation, Called: history.Now()}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.own.AbortOperation(limited, operation, "a client of the run changed its mind", 0)
	call.Returned = history.Now()
	call.Outcome, call.Error = outcome(err)
	return s.journal.Write(call)
}

// outcome classifies how a call ended.
func outcome(err error) (history.Outcome, string) {
	var refused *client.Error
	switch {
	case err == nil:
		return history.OK, ""
	case errors.As(err, &refused):
		return history.Refused, err.Error()
	default:
		return history.Unknown, err.Error()
	}
}

// sift forgets operations that have ended.
func (s *submitter) sift(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// Without an answer, the next submission tries again.
	if going, err := s.inProgress(limited); err == nil {
		maps.DeleteFunc(s.open, func(id string, _ bool) bool { return !going[id] })
	}
}

const (
	mostJobs = 5
	// Witnesses last from a moment to longer than the lease.
	leastWork, mostWork = 100 * time.Millisecond, 4 * time.Second
)

// spec describes an operation: some witnesses that all last equally long. Its title
// is the mutation id.
func (s *submitter) spec(mutation string) (*structpb.Struct, error) {
	share := s.random.Float64()
	work := leastWork + time.Duration(share*share*share*float64(mostWork-leastWork))
	return s.cfg.spec(mutation, s.pool, 1+s.random.IntN(mostJobs), work)
}

// spec describes an operation in a pool, with jobs that all last equally long.
func (cfg *Config) spec(mutation, pool string, jobs int, work time.Duration) (*structpb.Struct, error) {
	var command []any
	for _, part := range cfg.Witness {
		command = append(command, part)
	}
	spec, err := structpb.NewStruct(map[string]any{
		"type": "vanilla", "title": mutation, "pool": pool,
		"tasks": map[string]any{"witness": map[string]any{
			"job_count": jobs, "command": append(command, work.String()), "cpu_limit": 0.5, "memory_limit": "128MiB",
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("describe operation: %w", err)
	}
	return spec, nil
}
