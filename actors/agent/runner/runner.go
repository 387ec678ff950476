package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/output"
	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

var (
	// ErrClosed is returned once the Runner has been closed.
	ErrClosed = errors.New("runner is closed")
	// ErrInUse is returned by Open when another process uses the same root.
	ErrInUse = errors.New("in use by another agent")
	// ErrJobExists is returned by Start for an id that is in use, or whose output
	// is still kept.
	ErrJobExists = errors.New("job exists")
	// ErrOutputGone is returned for output that is no longer kept, or of a job that never ran on
	// this node.
	ErrOutputGone = errors.New("output no longer kept")
	// ErrUnreachable is returned when a message cannot be sent to a job's proxy.
	// If the proxy stays unreachable, the job ends with its lease.
	ErrUnreachable = errors.New("job proxy unreachable")
)

// Runner runs jobs. Its methods may be called by several goroutines.
type Runner struct {
	config Config
	paths  layout
	spares spares
	// lock is held while the runner is open; nil: another agent holds the root folder and the
	// groups.
	lock        *os.File
	confinement confinement
	// mostPids bounds the processes and threads of each job.
	mostPids int

	mu       sync.Mutex
	jobs     map[string]*Job
	retained retained
	closed   bool

	sessions sessions
	// shared has the end of the lease of all jobs whose proxies can read it there; nil: the kernel cannot seal it.
	shared *sharedLease
	growth growth

	// reader claims readerUID, as which kept files are read; nil: none has been read.
	reading   sync.Mutex
	reader    *os.File
	readerUID uint32
}

// Open returns a Runner with the unreleased jobs of the earlier agent process: see Jobs. Running
// jobs go on as long as their lease is renewed; the events of jobs that ended meanwhile report
// their end. Output that is still kept can be read.
func Open(config Config) (*Runner, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("open runner: %w", err)
	}
	root, err := filepath.Abs(config.Root)
	if err != nil {
		return nil, fmt.Errorf("open runner: %w", err)
	}
	config.Root = root
	r := &Runner{config: config, paths: layout{root: root}, spares: spares{root: layout{root: root}.spares()}, confinement: findConfinement(config.ProxyPath), jobs: make(map[string]*Job)}
	if err := r.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open runner: %w", err), r.Leave())
	}
	return r, nil
}

func (r *Runner) open() error {
	for _, folder := range []string{r.config.Root, r.paths.jobs(), r.paths.outputs()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	if err := r.takeLock(); err != nil {
		return err
	}
	if err := cgroup.Prepare(r.config.Cgroups.Node); err != nil {
		return err
	}
	if err := r.limitProcesses(); err != nil {
		return err
	}
	if err := r.spares.clear(); err != nil {
		return err
	}
	r.removeOrphans()
	r.shared = shareLease(r.config.Logger)
	if err := r.adopt(); err != nil {
		return err
	}
	var err error
	r.retained, err = findRetained(r.paths.outputs(), func(id string) bool { return r.jobs[id] != nil })
	if err != nil {
		return err
	}
	return r.drop(r.retained.excess(r.config.Retain))
}

// The processes of all jobs together, and those of one job, are at most one of these parts of what the
// machine can have, so that a fork bomb leaves some to others.
const (
	partOfJobs = 2
	partOfAJob = 4
)

func (r *Runner) limitProcesses() error {
	most, err := cgroup.MostProcesses("/")
	if err != nil {
		return err
	}
	r.mostPids = int(max(1, most/partOfAJob))
	return cgroup.LimitNode(r.config.Cgroups.Node, max(1, most/partOfJobs))
}

// takeLock keeps other agents away from the root, and so from the node's groups, whose name
// no other root has.
func (r *Runner) takeLock() error {
	file, err := os.OpenFile(r.paths.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return errors.Join(fmt.Errorf("lock %s: %w", r.config.Root, err), file.Close())
	}
	r.lock = file
	return nil
}

func (r *Runner) unlock() error {
	r.reading.Lock()
	defer r.reading.Unlock()
	if err := drop(r.reader); err != nil {
		return err
	}
	r.reader = nil
	if r.shared != nil {
		_ = r.shared.file.Close() // fails only if it is closed
	}
	if r.lock == nil {
		return nil
	}
	return r.lock.Close()
}

// Start starts a job. It returns as soon as the job's proxy has been started;
// Job.Events reports what happens to the command. After an error nothing runs and
// nothing is left. Start fails if ctx ends before the proxy is started, so that a job can
// be cancelled while its disk does not answer.
func (r *Runner) Start(ctx context.Context, spec JobSpec) (*Job, error) {
	user, claim, err := r.userOf(&spec)
	var proxySpec *proxyproto.Spec
	if err == nil {
		proxySpec, err = r.forProxy(&spec, user)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start job %.60q: %w", spec.ID, err), drop(claim))
	}
	var job *Job
	if err = ctx.Err(); err == nil {
		job, err = r.reserve(spec.ID, user, claim)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start job %s: %w", spec.ID, err), drop(claim))
	}
	if err := job.start(ctx, proxySpec, spec.Furnish); err != nil {
		r.forget(job)
		job.closeDiscovery()
		job.takeSockets().close()
		close(job.events)
		close(job.ended)
		close(job.followed)
		return nil, fmt.Errorf("start job %s: %w", spec.ID, errors.Join(err, r.unmake(spec.ID), drop(claim)))
	}
	go job.run()
	return job, nil
}

// unmake removes the folders of a job that was not started. The output comes first: while the job's folder is
// there, the next Open goes on if this process ends here. Output alone would look like that of a job that has run.
func (r *Runner) unmake(id string) error {
	if err := os.RemoveAll(r.paths.output(id)); err != nil {
		return err
	}
	return r.paths.removeJob(id)
}

// reserve registers a job under an unused id.
func (r *Runner) reserve(id string, user *proxyproto.User, claim *os.File) (*Job, error) {
	// Look without mu: the disk may hang, and renewing the leases of other jobs needs mu.
	_, missing := os.Lstat(r.paths.output(id))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if _, exists := r.jobs[id]; exists {
		return nil, ErrJobExists
	}
	if missing == nil {
		return nil, fmt.Errorf("%w: its output is kept", ErrJobExists)
	}
	job := newJob(r, id)
	job.user, job.claim = user, claim
	r.jobs[id] = job
	return job, nil
}

func (r *Runner) forget(job *Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, job.id)
}

// Job returns a job that has not been released, or nil.
func (r *Runner) Job(id string) *Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[id]
}

// Jobs returns the jobs that have not been released, ordered by id.
func (r *Runner) Jobs() []*Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.jobs), func(a, b *Job) int { return strings.Compare(a.id, b.id) })
}

// RenewAll extends the leases of all jobs to the given time, which counts from the boot of the
// machine. Call it each time the agent's own lease is renewed, well before the leases end.
func (r *Runner) RenewAll(until time.Duration) {
	if r.shared != nil && until > clock.Boot() {
		r.shared.end.Store(int64(until))
	}
	for _, job := range r.Jobs() {
		// Read the clock for each job, so that waiting for a hung proxy does not extend the
		// next lease.
		left := until - clock.Boot()
		if left <= 0 {
			return
		}
		err := job.renew(until, left)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.config.Logger.Warn("job lease not renewed: its proxy hangs", "job", job.id, "error", err)
		case err != nil:
			// The proxy has gone, most often because the job has just ended; Job.Events
			// reports that.
			r.config.Logger.Debug("job lease not renewed", "job", job.id, "error", err)
		}
	}
}

// OutputPart is a piece of a job's output.
type OutputPart struct {
	output.Part
	// End says that the job has ended and that nothing follows Data.
	End bool
}

// ReadOutput returns at most limit bytes of "stdout" or "stderr" of a job, starting at offset, as
// package output's Read does. It works while the job runs and after.
func (r *Runner) ReadOutput(job, stream string, offset, limit int64) (OutputPart, error) {
	if err := checkName("job", job); err != nil {
		return OutputPart{}, fmt.Errorf("read output: %w", err)
	}
	if stream != "stdout" && stream != "stderr" {
		return OutputPart{}, fmt.Errorf("read output of job %s: unknown stream %.20q, want stdout or stderr", job, stream)
	}
	// Check this before reading, so that all output of a job that has ended is read.
	running := r.Job(job)
	ended := running == nil || running.Result() != nil
	part, err := output.Read(r.paths.output(job), stream, offset, limit)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrOutputGone
	}
	if err != nil {
		return OutputPart{}, fmt.Errorf("read output of job %s: %w", job, err)
	}
	return OutputPart{Part: part, End: ended && part.Next == part.Total}, nil
}

// Leave stops listening to the jobs, which go on under their proxies until their
// lease ends. A Runner opened before that adopts them. If there are no jobs, the
// node's control groups are removed. It may be called twice, and after Close.
func (r *Runner) Leave() error {
	if !r.shut() {
		return nil
	}
	r.endSessions()
	for _, job := range r.Jobs() {
		<-job.tried
		job.leave()
		<-job.followed
	}
	if err := errors.Join(r.spares.close(), r.removeEmpty(), r.unlock()); err != nil {
		return fmt.Errorf("leave runner: %w", err)
	}
	return nil
}

// shut keeps further jobs from starting, and reports whether the runner was open.
func (r *Runner) shut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := !r.closed
	r.closed = true
	return open
}

// removeEmpty removes the node's groups when no job is left.
func (r *Runner) removeEmpty() error {
	if r.lock == nil || len(r.Jobs()) > 0 {
		return nil
	}
	// EBUSY: processes of an unknown job are left. The next Open ends them.
	if err := cgroup.RemoveNode(r.config.Cgroups.Node); err != nil && !errors.Is(err, unix.EBUSY) {
		return err
	}
	return nil
}

// Close ends all jobs and removes everything except the kept output. Each job's
// Events reports its end. It may be called twice.
func (r *Runner) Close() error {
	if !r.shut() {
		return nil
	}
	r.endSessions()
	jobs := r.Jobs()
	for _, job := range jobs {
		<-job.tried
		if err := job.Stop("the agent is closing", 0); err != nil {
			job.killProxy()
		}
	}
	var errs []error
	for _, job := range jobs {
		<-job.ended
		errs = append(errs, job.Release())
	}
	errs = append(errs, r.spares.close(), cgroup.RemoveNode(r.config.Cgroups.Node), r.unlock())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close runner: %w", err)
	}
	return nil
}
