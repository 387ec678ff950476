package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/messages/apipb"
)

const (
	// maxLogReads is how many outputs are read at once while jobs are followed, and maxNodeReads how many
	// of them may be on one node, so that a node that does not answer holds up no other. Agents serve 16.
	maxLogReads, maxNodeReads = 8, 2
	// logReadPatience bounds a read while jobs are followed; it is tried again later.
	logReadPatience = 5 * time.Second
	// logListPause is the pause between two looks for new jobs.
	logListPause = time.Second
	// logListPage is how many jobs are listed at once, the most that the API allows.
	logListPage = 1000
	// silentReadsPerSecond bounds how often all outputs without news are read together.
	silentReadsPerSecond = 100
	// maxLogLine is the length of a line, in bytes, from which it is shown in parts.
	maxLogLine = 64 << 10
	// firstTail and maxTail are how much output, in bytes, is searched for its last lines, at first and at most.
	firstTail, maxTail = 32 << 10, 64 << 20
	// codeNodeOffline is the code of output on a node that is offline.
	codeNodeOffline = "node_offline"
)

// Logs says which output of the jobs of an operation OperationLogs reads.
type Logs struct {
	// Operation is an id or an alias.
	Operation string
	// Task, if set, leaves out the jobs of other tasks.
	Task string
	// Streams are stdout, stderr or both.
	Streams []string
	// Failed leaves out jobs that have not failed.
	Failed bool
	// Since, if set, leaves out jobs that ended before.
	Since time.Time
	// Tail is how many of the last lines of each output are read; negative: all. Jobs that start later
	// are read from their beginning.
	Tail int
	// Follow goes on until the operation has ended.
	Follow bool
}

// LogLine is a line of a job's output, without its end of line.
type LogLine struct {
	Job    *apipb.Job
	Stream string
	Text   []byte
}

// LogGaps says what OperationLogs could not read: output that its node no longer keeps, or that is on
// a node that is offline.
type LogGaps struct {
	Jobs int
	// First is the reason of the first one.
	First error
}

// OperationLogs passes the output of all jobs of an operation to show, line by line, each line once:
// job after job, the oldest first, or, to follow them, as the lines come. While it follows, it goes on
// over elections and restarts of agents; a node's silence does not hold up the others. An error of
// show ends it.
func (c *Client) OperationLogs(ctx context.Context, o Logs, show func(LogLine) error) (LogGaps, error) {
	op, err := c.GetOperation(ctx, o.Operation)
	if err != nil {
		return LogGaps{}, err
	}
	l := &logReader{
		c: c, o: o, id: op.GetId(), show: show, known: map[string]*logJob{}, busy: map[string]int{},
		done: make(chan func() error), idle: true, answered: time.Now(),
	}
	if err := l.run(ctx); err != nil {
		return l.gaps, err
	}
	return l.gaps, nil
}

// logReader reads the output of the jobs of an operation. One goroutine owns it; others list and
// read, and send what follows from it to done.
type logReader struct {
	c    *Client
	o    Logs
	id   string
	show func(LogLine) error
	done chan func() error
	work sync.WaitGroup

	// known are the jobs whose output is read or has been read, by id.
	known   map[string]*logJob
	streams []*logStream
	// reads counts the reads under way, and busy does so by node.
	reads int
	busy  map[string]int
	gaps  LogGaps

	// listing: a list of jobs is under way; else the next is due at listDue. listed: there has been one.
	listing, listed bool
	listDue         time.Time
	// idle: the last list had no job that has not ended. final: it was made after the operation had ended.
	idle, final bool
	// answered is when the last list came.
	answered time.Time
}

// logJob is a job whose output is read.
type logJob struct {
	*apipb.Job
	open int
	gap  bool
}

// logStream is an output of a job.
type logStream struct {
	job    *logJob
	name   string
	offset int64
	// tail: only the last lines of what there is are wanted.
	tail    bool
	reading bool
	due     time.Time
	pause   time.Duration
	// partial is the beginning of a line.
	partial []byte
}

// run works until all output has been read.
func (l *logReader) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer l.work.Wait()
	defer cancel()
	for {
		wait := l.begin(ctx, time.Now())
		if l.over() {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case then := <-l.done:
			timer.Stop()
			if err := then(); err != nil {
				return err
			}
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("read logs of operation %s: %w", l.id, errors.Join(l.finish(), context.Cause(ctx)))
		}
	}
}

// over reports whether all output has been read.
func (l *logReader) over() bool {
	return len(l.streams) == 0 && l.listed && (l.final || !l.o.Follow)
}

// finish shows the lines that have no end yet.
func (l *logReader) finish() error {
	for _, s := range l.streams {
		if err := l.rest(s); err != nil {
			return err
		}
	}
	return nil
}

// begin starts all work that is due, and returns how long it is until more is.
func (l *logReader) begin(ctx context.Context, now time.Time) time.Duration {
	wait := logListPause
	if !l.listing && !l.final && (l.o.Follow || !l.listed) {
		if until := l.listDue.Sub(now); until > 0 {
			wait = min(wait, until)
		} else {
			l.listing = true
			l.aside(ctx, l.list)
		}
	}
	most := maxLogReads
	if !l.o.Follow {
		most = 1 // job after job
	}
	for l.reads < most {
		next := l.next()
		if next == nil {
			break
		}
		if until := next.due.Sub(now); until > 0 {
			wait = min(wait, until)
			break
		}
		next.reading = true
		l.reads++
		l.busy[next.job.GetNode()]++
		l.aside(ctx, func(ctx context.Context) func() error { return l.read(ctx, next) })
	}
	return wait
}

// next returns the output that is to be read next; nil if none can be.
func (l *logReader) next() (next *logStream) {
	for _, s := range l.streams {
		if !s.reading && l.busy[s.job.GetNode()] < maxNodeReads && (next == nil || s.due.Before(next.due)) {
			next = s
		}
	}
	return next
}

// aside runs work in a goroutine of its own, and what it returns in that of run.
func (l *logReader) aside(ctx context.Context, work func(context.Context) func() error) {
	l.work.Go(func() {
		then := work(ctx)
		select {
		case l.done <- then:
		case <-ctx.Done():
		}
	})
}

// list lists the jobs of the operation.
func (l *logReader) list(ctx context.Context) func() error {
	ended := false
	if l.idle {
		// First: a list that is made after the end of the operation has all of its jobs.
		op, err := l.c.GetOperation(ctx, l.id)
		if err != nil {
			return func() error { return l.unlisted(err) }
		}
		ended = op.GetFinishTime() != nil
	}
	req := &apipb.ListJobsRequest{Operation: l.id, Task: l.o.Task, Limit: logListPage}
	if l.o.Failed {
		req.State = "failed"
	}
	var jobs []*apipb.Job
	for {
		page, err := l.c.ListJobs(ctx, req)
		if err != nil {
			return func() error { return l.unlisted(err) }
		}
		jobs = append(jobs, page.GetJobs()...)
		req.Offset += int32(len(page.GetJobs()))
		if len(page.GetJobs()) == 0 || req.GetOffset() >= page.GetTotal() {
			return func() error { l.take(jobs, ended); return nil }
		}
	}
}

// unlisted returns an error if jobs cannot be listed, and this has lasted too long.
func (l *logReader) unlisted(err error) error {
	outage := l.c.cfg.Outage
	if !l.o.Follow || !errors.Is(err, ErrUnreachable) || outage > 0 && time.Since(l.answered) >= outage {
		return err
	}
	l.listing, l.listDue = false, time.Now().Add(logListPause)
	return nil
}

// take begins to read the output of new jobs.
func (l *logReader) take(jobs []*apipb.Job, ended bool) {
	slices.SortStableFunc(jobs, func(a, b *apipb.Job) int {
		if by := a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime()); by != 0 {
			return by
		}
		return strings.Compare(a.GetId(), b.GetId())
	})
	first := !l.listed
	l.listed, l.listing, l.final, l.idle, l.answered = true, false, ended, true, time.Now()
	l.listDue = l.answered.Add(logListPause * time.Duration(1+len(jobs)/logListPage))
	on := make(map[string]bool, len(jobs))
	for _, job := range jobs {
		on[job.GetId()] = true
		l.idle = l.idle && job.GetFinishTime() != nil
		if known := l.known[job.GetId()]; known != nil {
			known.Job = job
		} else if l.wanted(job) {
			l.open(job, first && l.o.Tail >= 0)
		}
	}
	for id, job := range l.known {
		if !on[id] && job.open == 0 {
			// It is no longer on record, and not listed again.
			delete(l.known, id)
		}
	}
}

// wanted reports whether a job has output to be read.
func (l *logReader) wanted(job *apipb.Job) bool {
	if job.GetFinishTime() == nil {
		return !l.o.Follow || job.GetState() != "waiting"
	}
	return l.o.Since.IsZero() || !job.GetFinishTime().AsTime().Before(l.o.Since)
}

// open begins to read the output of a job.
func (l *logReader) open(job *apipb.Job, tail bool) {
	known := &logJob{Job: job, open: len(l.o.Streams)}
	l.known[job.GetId()] = known
	for _, name := range l.o.Streams {
		l.streams = append(l.streams, &logStream{job: known, name: name, tail: tail, pause: firstPoll})
	}
}
