package foretell

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weir/cmd/poll"
	"weir/cmd/weir/internal/simulate"
	"weir/messages/apipb"
	"weir/messages/explainpb"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
)

// Cluster is what a run needs of a cluster.
type Cluster interface {
	CreatePool(ctx context.Context, pool *apipb.Pool) (revision uint64, err error)
	StartOperation(ctx context.Context, r *apipb.StartRequest) (*apipb.StartResponse, error)
	ListOperations(ctx context.Context, r *apipb.ListOperationsRequest) (*apipb.ListOperationsResponse, error)
	ListJobs(ctx context.Context, r *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error)
	Explain(ctx context.Context, r *apipb.ExplainRequest) ([]*explainpb.Explanation, error)
}

// Config says how long a run lasts, how many jobs the cluster runs at once, and by what seed the load is random.
type Config struct {
	Lasts time.Duration
	Slots int
	Seed  uint64
}

const (
	// pollPeriod is how often the run looks at its operations, and askPeriod how often it asks about one that
	// waits, in turn.
	pollPeriod, askPeriod = 500 * time.Millisecond, 2 * time.Second
	// shortestWait is what shorter waits count as: the period in which shares are computed anew.
	shortestWait = time.Second
)

// Run keeps the pools busy, asks, and returns how good the answers were. It leaves what runs in the end to
// whoever stops the cluster. `progress` is told how long it has run, and how many questions were asked.
func Run(ctx context.Context, cluster Cluster, config Config, progress func(ran time.Duration, asked int)) (*simulate.Estimates, error) {
	for _, p := range pools {
		wanted, err := p.wanted()
		if err != nil {
			return nil, err
		}
		if _, err := cluster.CreatePool(ctx, wanted); err != nil {
			return nil, err
		}
	}
	r := &run{cluster: cluster, load: load(config.Seed, config.Slots, config.Lasts), began: time.Now(), operations: map[string]*operation{}}
	err := poll.Every(ctx, pollPeriod, func() (over bool, err error) {
		ran := time.Since(r.began)
		progress(ran, len(r.questions))
		if ran >= config.Lasts {
			return true, nil
		}
		return false, r.look(ctx)
	})
	if err != nil {
		return nil, err
	}
	for _, op := range r.operations {
		if err := r.end(ctx, op); err != nil {
			return nil, err
		}
	}
	return simulate.Judge(r.questions, shortestWait), nil
}

// run is a run in progress.
type run struct {
	cluster    Cluster
	load       []submission // not started yet
	began      time.Time
	operations map[string]*operation // in progress
	questions  []simulate.Question
	due        time.Time // of the next question to one in turn
}

// operation is one in progress.
type operation struct {
	id string
	// started is how many jobs have started; open has the questions that this has not answered yet.
	started, waits int64
	open           []int
	asked          time.Time
}

// look starts what is due, finds out what has started and ended, and asks.
func (r *run) look(ctx context.Context) error {
	for len(r.load) > 0 && r.load[0].at <= time.Since(r.began) {
		spec, err := r.load[0].spec()
		if err != nil {
			return err
		}
		if _, err := r.cluster.StartOperation(ctx, &apipb.StartRequest{Spec: spec}); err != nil {
			return err
		}
		r.load = r.load[1:]
	}
	list, err := r.inProgress(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	var waiting []*operation
	for _, now := range list {
		there[now.GetId()] = true
		op := r.operations[now.GetId()]
		if op == nil {
			op = &operation{id: now.GetId()}
			r.operations[op.id] = op
		}
		p := now.GetProgress()
		if started := p.GetTotal() - p.GetPending(); started != op.started {
			op.started = started
			if err := r.answer(ctx, op); err != nil {
				return err
			}
		}
		if op.waits = p.GetPending(); op.waits > 0 && now.GetState() == lifecycle.Running.String() {
			waiting = append(waiting, op)
		}
	}
	for id, op := range r.operations {
		if there[id] {
			continue
		}
		if err := r.end(ctx, op); err != nil {
			return err
		}
		delete(r.operations, id)
	}
	return r.askAll(ctx, waiting)
}

// inProgress lists the operations that have not ended.
func (r *run) inProgress(ctx context.Context) (all []*apipb.Operation, err error) {
	for req := (&apipb.ListOperationsRequest{InProgress: true, Limit: 1000}); ; {
		page, err := r.cluster.ListOperations(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetOperations()...)
		if !page.GetIncomplete() {
			return all, nil
		}
		req.After = page.GetNext()
	}
}

// answer finds out when jobs of an operation have started that it was asked about.
func (r *run) answer(ctx context.Context, op *operation) error {
	if len(op.open) == 0 {
		return nil
	}
	list, err := r.cluster.ListJobs(ctx, &apipb.ListJobsRequest{Operation: op.id, Limit: 1000})
	if err != nil {
		return err
	}
	op.open = slices.DeleteFunc(op.open, func(i int) bool {
		q := &r.questions[i]
		for _, job := range list.GetJobs() {
			if job.GetStartTime() == nil {
				continue
			}
			if started := job.GetStartTime().AsTime().Sub(r.began); started > q.Asked && (q.Started < 0 || started < q.Started) {
				q.Started = started
			}
		}
		return q.Started >= 0
	})
	return nil
}

// end ends the questions about an operation that no start has answered.
func (r *run) end(ctx context.Context, op *operation) error {
	ended := time.Since(r.began)
	if err := r.answer(ctx, op); err != nil {
		return err
	}
	for _, i := range op.open {
		r.questions[i].Ended = ended
	}
	return nil
}

// askAll asks about operations that have begun to wait, and about another one in turn.
func (r *run) askAll(ctx context.Context, waiting []*operation) error {
	var longest *operation
	for _, op := range waiting {
		if op.asked.IsZero() {
			if err := r.ask(ctx, op); err != nil {
				return err
			}
			continue
		}
		if longest == nil || op.asked.Before(longest.asked) {
			longest = op
		}
	}
	if longest == nil || time.Now().Before(r.due) {
		return nil
	}
	r.due = time.Now().Add(askPeriod)
	return r.ask(ctx, longest)
}

// ask asks when the next job of an operation starts.
func (r *run) ask(ctx context.Context, op *operation) error {
	op.asked = time.Now()
	answers, err := r.cluster.Explain(ctx, &apipb.ExplainRequest{Operation: op.id})
	if err != nil {
		return fmt.Errorf("ask about operation %s: %w", op.id, err)
	}
	if len(answers) == 0 {
		return nil
	}
	x := answers[0]
	if x.GetVerdict() == explain.FactNoJobs || x.GetVerdict() == explain.FactStarting {
		return nil
	}
	since := func(at time.Time) time.Duration { return at.Sub(r.began) }
	q := simulate.Question{Operation: op.id, First: op.started == 0, Asked: since(x.GetTime().AsTime()), Verdict: x.GetVerdict(), Started: -1}
	if x.GetEstimatedStart() != nil {
		q.By, q.Start = x.GetEstimatedBy(), since(x.GetEstimatedStart().AsTime())
		q.Earliest, q.Latest = since(x.GetEstimatedEarliest().AsTime()), since(x.GetEstimatedLatest().AsTime())
	}
	op.open = append(op.open, len(r.questions))
	r.questions = append(r.questions, q)
	return nil
}
