package wordcount

import (
	"context"
	"fmt"
	"os"
	"time"

	"weir/cmd/poll"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// Cluster is what a run needs of a cluster. Calls other than Read are repeated until they
// succeed.
type Cluster interface {
	StartOperation(ctx context.Context, r *apipb.StartRequest) (*apipb.StartResponse, error)
	GetOperation(ctx context.Context, id string) (*apipb.Operation, error)
	// Jobs returns all jobs of an operation that are known.
	Jobs(ctx context.Context, id string) ([]*apipb.Job, error)
	// Stdout returns all that a job wrote to stdout.
	Stdout(ctx context.Context, job string) (string, error)
	Leader(ctx context.Context) (string, error)
	// Read makes one linearizable read at a replica that `turn` chooses, but never at the replica
	// `without`.
	Read(ctx context.Context, without string, turn int) error
	// Kill ends a replica with kill -9.
	Kill(replica string) error
}

// Config says what to count.
type Config struct {
	// Source is a folder; every agent sees it under this absolute path.
	Source string
	// Direct has the counts of Source, made without the cluster.
	Direct Counts
	// Jobs is how many jobs share the files.
	Jobs int
	// KillLeader makes a failover part of the run.
	KillLeader bool
	// Gate is the path of a file that does not exist yet, in a folder that every agent sees.
	// The run creates it once the leader is killed. The last job waits for it, so that the
	// operation cannot end before. If Gate is empty, as it must be without KillLeader, no job
	// waits.
	Gate string
	// Patience is how long the run waits for another job to complete before it gives up: far
	// longer than a job and a failover. See DefaultPatience.
	Patience time.Duration
}

// DefaultPatience is a suitable Config.Patience.
const DefaultPatience = 2 * time.Minute

// The states of operations and jobs that matter here.
var (
	completed, running = lifecycle.JobCompleted.String(), lifecycle.JobRunning.String()
	failed, aborted    = lifecycle.JobFailed.String(), lifecycle.JobAborted.String()
)

// pollPeriod is how often progress is read. It is short compared to a job, so that the leader
// dies when hardly more than half of the jobs have completed.
const pollPeriod = 50 * time.Millisecond

// Run counts, and returns a Result, which lists what is wrong, if anything. It returns an error if
// the run could not be finished. `say` shows events. `progress` shows the number of completed
// jobs.
func Run(ctx context.Context, cluster Cluster, config Config, say func(line string), progress func(completed int64)) (*Result, error) {
	r := &run{
		cluster: cluster, config: config, say: say, progress: progress,
		result: &Result{
			Jobs: config.Jobs, Source: config.Source, DirectFiles: len(config.Direct), DirectWords: config.Direct.Words(), wantKill: config.KillLeader,
		},
	}
	defer r.close()
	began := time.Now()
	for _, step := range []func(context.Context) error{r.start, r.follow, r.account, r.outage} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	r.result.Total = time.Since(began)
	r.result.check(config.Direct, r.outputs)
	return r.result, nil
}

// run is a run in progress.
type run struct {
	cluster  Cluster
	config   Config
	say      func(line string)
	progress func(completed int64)
	result   *Result
	id       string
	// outputs are the outputs of completed jobs, by cookie.
	outputs map[int]string
	prober  *prober
	killed  time.Time
	// atKill are the jobs that ran when the leader was killed.
	atKill map[string]bool
}

func (r *run) start(ctx context.Context) error {
	spec, err := Spec(r.config.Source, r.config.Jobs, r.config.Gate)
	if err != nil {
		return fmt.Errorf("count words: %w", err)
	}
	started, err := r.cluster.StartOperation(ctx, &apipb.StartRequest{Spec: spec})
	if err != nil {
		return fmt.Errorf("start operation: %w", err)
	}
	r.id = started.GetOperationId()
	r.say("started operation " + r.id)
	return nil
}

// follow watches the operation until it has ended, and kills the leader on the way.
func (r *run) follow(ctx context.Context) error {
	last, since := int64(-1), time.Now()
	return poll.Every(ctx, pollPeriod, func() (over bool, err error) {
		o, err := r.cluster.GetOperation(ctx, r.id)
		if err != nil {
			return true, fmt.Errorf("watch operation: %w", err)
		}
		done := o.GetProgress().GetCompleted()
		if done != last {
			last, since = done, time.Now()
		} else if time.Since(since) > r.config.Patience {
			return true, fmt.Errorf("no job has completed for %v: %d of %d have, operation %s is %s", r.config.Patience, done, r.config.Jobs, r.id, o.GetState())
		}
		r.progress(done)
		switch o.GetState() {
		case completed, failed, aborted:
			r.result.State, r.result.Error = o.GetState(), o.GetResult().GetMessage()
			r.result.Completed = o.GetProgress().GetCompleted()
			r.result.Failed, r.result.Aborted = o.GetProgress().GetFailed(), o.GetProgress().GetAborted()
			return true, nil
		}
		if r.config.KillLeader && r.killed.IsZero() && 2*done >= int64(r.config.Jobs) {
			return false, r.kill(ctx)
		}
		return false, nil
	})
}

// kill kills the leader. From just before the kill, the prober reads from the other replicas.
func (r *run) kill(ctx context.Context) error {
	leader, err := r.cluster.Leader(ctx)
	if err != nil {
		return fmt.Errorf("find leader: %w", err)
	}
	r.prober = probe(ctx, func(ctx context.Context, turn int) error { return r.cluster.Read(ctx, leader, turn) })
	jobs, err := r.cluster.Jobs(ctx, r.id)
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	r.atKill = make(map[string]bool)
	for _, job := range jobs {
		switch job.GetState() {
		case running:
			r.atKill[job.GetId()] = true
		case completed:
			r.result.CompletedAtKill++
		}
	}
	r.killed = time.Now()
	if err := r.cluster.Kill(leader); err != nil {
		return fmt.Errorf("kill leader: %w", err)
	}
	if r.config.Gate != "" {
		if err := os.WriteFile(r.config.Gate, nil, 0o600); err != nil {
			return fmt.Errorf("create the file that the last job waits for: %w", err)
		}
	}
	r.result.Leader, r.result.RunningAtKill = leader, len(r.atKill)
	r.say(fmt.Sprintf("killed the leader %s (-9) with %d jobs completed and %d running", leader, r.result.CompletedAtKill, len(r.atKill)))
	return nil
}

// account reads the outputs of the jobs.
func (r *run) account(ctx context.Context) error {
	jobs, err := r.cluster.Jobs(ctx, r.id)
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	r.outputs = make(map[int]string)
	for _, job := range jobs {
		if job.GetState() != completed {
			continue
		}
		if r.atKill[job.GetId()] {
			r.result.Survived++
		}
		text, err := r.cluster.Stdout(ctx, job.GetId())
		if err != nil {
			return fmt.Errorf("read output of job %s: %w", job.GetId(), err)
		}
		r.outputs[int(job.GetCookie())] = text
	}
	return nil
}

// outage stores the time without a leader, once a read sent after the kill has been answered. It
// hardly waits: the operation has ended by now, so a leader is there to answer.
func (r *run) outage(ctx context.Context) error {
	if r.prober == nil {
		return nil
	}
	return poll.Every(ctx, pollPeriod, func() (ok bool, _ error) {
		r.result.Outage, ok = r.prober.outage(r.killed)
		return ok, nil
	})
}

func (r *run) close() {
	if r.prober != nil {
		r.prober.stop()
	}
}
