package client

import (
	"context"
	"fmt"
	"io"
	"time"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// ListJobs returns jobs of an operation.
func (c *Client) ListJobs(ctx context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	return call(ctx, c.task("list jobs"), apipbconnect.JobServiceClient.List, req)
}

// GetJob returns a job.
func (c *Client) GetJob(ctx context.Context, job string) (*apipb.Job, error) {
	res, err := call(ctx, c.task("get job"), apipbconnect.JobServiceClient.Get, &apipb.GetJobRequest{JobId: job})
	return res.GetJob(), err
}

// AbortJob ends a job; its cookie runs again.
func (c *Client) AbortJob(ctx context.Context, job, reason string) error {
	t, _ := settledBy(c.task("abort job"), c.GetJob, job, func(j *apipb.Job) bool { return j.GetStopping() != "" || j.GetState() == "aborted" })
	return do(ctx, t, apipbconnect.JobServiceClient.Abort, &apipb.AbortJobRequest{JobId: job, Reason: reason})
}

// InterruptJob asks a job to stop in good order within timeout; 0 means its
// allocation_preemption_timeout, as when it is preempted. It returns the deadline of the job,
// which may be earlier than asked for if the job was already interrupted.
func (c *Client) InterruptJob(ctx context.Context, job, reason string, timeout time.Duration) (deadline time.Time, err error) {
	t, _ := settledBy(c.task("interrupt job"), c.GetJob, job, func(j *apipb.Job) bool { return j.GetInterruption().GetReason() != "" })
	res, err := call(ctx, t, apipbconnect.JobServiceClient.Interrupt, &apipb.InterruptJobRequest{JobId: job, Reason: reason, TimeoutMillis: timeout.Milliseconds()})
	if res.GetDeadline() != nil {
		deadline = res.GetDeadline().AsTime()
	}
	return deadline, err
}

// JobOutput returns a part of a job's output.
func (c outputCalls) JobOutput(ctx context.Context, req *apipb.JobOutputRequest) (*apipb.JobOutputResponse, error) {
	t := c.task("job output")
	// The answer comes from the job's node, by way of the leader.
	t.longer = outputPatience
	return call(ctx, t, apipbconnect.JobServiceClient.Output, req)
}

// JobFile returns a part of a file of a running job, or of one that was kept, or of the list of a folder.
func (c outputCalls) JobFile(ctx context.Context, req *apipb.JobFileRequest) (*apipb.JobFileResponse, error) {
	t := c.task("job file")
	t.longer = outputPatience
	return call(ctx, t, apipbconnect.JobServiceClient.File, req)
}

// ReadFile reads a file of a running job, or one that was kept, to its end, and writes it to w; of a folder it
// returns all entries that can be listed instead. It changes the offset of the request.
func (c outputCalls) ReadFile(ctx context.Context, w io.Writer, req *apipb.JobFileRequest) (folder *apipb.JobFileResponse, err error) {
	for {
		part, err := c.JobFile(ctx, req)
		if err != nil {
			return nil, err
		}
		if part.GetFolder() {
			if folder != nil {
				part.Entries = append(folder.GetEntries(), part.GetEntries()...)
			}
			folder = part
		} else if _, err := w.Write(part.GetData()); err != nil {
			return nil, fmt.Errorf("write file %q of job %s: %w", req.GetPath(), req.GetJobId(), err)
		}
		if part.GetNextOffset() <= req.GetOffset() || part.GetNextOffset() >= part.GetSize() {
			return folder, nil
		}
		req.Offset = part.GetNextOffset()
	}
}

// outputPatience is added to the time of a try to read output, for the request to the node.
const outputPatience = 2 * time.Second

// The pauses between requests for output that is not written yet.
const (
	firstPoll = 100 * time.Millisecond
	maxPoll   = time.Second
)

// Output says which output CopyOutput copies.
type Output struct {
	JobID string
	// Stream is stdout or stderr.
	Stream string
	// Offset is the byte to begin at.
	Offset int64
	// Follow makes CopyOutput wait for further output until the job has ended.
	Follow bool
	// Note, if set, is called with the reason why there is no output, each time that
	// the reason changes.
	Note func(why string)
}

// CopyOutput writes the output of a job to w. It returns the offset at which a later call
// can continue.
func (c outputCalls) CopyOutput(ctx context.Context, w io.Writer, o Output) (next int64, err error) {
	next = o.Offset
	poll, noted := firstPoll, ""
	for {
		part, err := c.JobOutput(ctx, &apipb.JobOutputRequest{JobId: o.JobID, Stream: o.Stream, Offset: next})
		if err != nil {
			return next, err
		}
		if _, err := w.Write(part.GetData()); err != nil {
			return next, fmt.Errorf("write output of job %s: %w", o.JobID, err)
		}
		if why := part.GetNote(); why != "" && why != noted && o.Note != nil {
			o.Note(why)
			noted = why
		}
		progress := part.GetNextOffset() > next
		next = max(next, part.GetNextOffset())
		switch {
		case part.GetEnd() || !progress && !o.Follow:
			return next, nil
		case progress:
			poll = firstPoll
			continue
		}
		if err := sleep(ctx, poll); err != nil {
			return next, fmt.Errorf("follow output of job %s: %w", o.JobID, err)
		}
		poll = min(2*poll, maxPoll)
	}
}
