package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"connectrpc.com/connect"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

const (
	// outputBytes bounds the output in one answer, so that sending is shared among readers.
	outputBytes = 128 << 10
	// maxOutputBytes is the largest part that may be asked for.
	maxOutputBytes = 1 << 20
)

// Output reads a part of a job's stdout or stderr from its node.
func (s jobs) Output(ctx context.Context, req *connect.Request[apipb.JobOutputRequest]) (*connect.Response[apipb.JobOutputResponse], error) {
	m := req.Msg
	limit := cmp.Or(m.GetLimit(), outputBytes)
	switch {
	case m.GetStream() != "stdout" && m.GetStream() != "stderr":
		return nil, invalid("job output: stream %q: must be stdout or stderr", m.GetStream())
	case limit < 0 || limit > maxOutputBytes:
		return nil, invalid("job output: limit %d: must be 1 to %d", limit, maxOutputBytes)
	}
	job, err := s.locate(ctx, "job output", m.GetJobId())
	if err != nil {
		return nil, err
	}
	part, err := s.cfg.Leader.ReadOutput(ctx, &actorpb.ReadOutput{
		JobId: job.GetId(), Node: job.GetNode(), Stream: m.GetStream(), Offset: m.GetOffset(), Limit: min(limit, outputBytes),
	})
	var absent *actorpb.Refused
	switch {
	case errors.As(err, &absent) && absent.GetCode() == actorpb.CodeNotFound && job.GetFinishTime() == nil:
		// The job has not started, or its node has just reported its end.
		part = &actorpb.OutputPart{NextOffset: max(m.GetOffset(), 0)}
	case errors.As(err, &absent) && absent.GetCode() == actorpb.CodeNotFound:
		return nil, gone(job)
	case err != nil:
		return nil, s.noOutput(job, err)
	}
	out := &apipb.JobOutputResponse{Data: part.GetData(), NextOffset: part.GetNextOffset(), End: part.GetEnd()}
	if utf8.Valid(part.GetData()) {
		out.Text = string(part.GetData())
	}
	if part.GetNextOffset() == 0 {
		if err := s.addLive(ctx, "job output", []*apipb.Job{job}); err != nil {
			return nil, err
		}
		out.Note = silence(job, m.GetStream())
	}
	return connect.NewResponse(out), nil
}

// neverStarted reports whether a job ended without a process, as its node reported. It is false if
// the node reported nothing, because then it is unknown.
func neverStarted(job *apipb.Job) bool {
	return job.GetFinishTime() != nil && job.GetPid() == 0 && job.GetStatistics() != nil
}

// ending says in which state a job is, and why.
func ending(job *apipb.Job) string {
	text := job.GetState()
	if job.GetState() == lifecycle.JobAborted.String() {
		text += " for " + job.GetAbortReason()
	}
	if job.GetError().GetMessage() != "" {
		text += ": " + job.GetError().GetMessage()
	}
	return text
}

// silence says why nothing has been read of a job's output so far.
func silence(job *apipb.Job, stream string) string {
	switch {
	case neverStarted(job):
		return fmt.Sprintf("job %s never started: it is %s", job.GetId(), ending(job))
	case job.GetState() == lifecycle.JobWaiting.String():
		return fmt.Sprintf("job %s has not started yet: node %q is preparing it", job.GetId(), job.GetNode())
	case job.GetFinishTime() == nil:
		return fmt.Sprintf("job %s, which is %s on node %q, has written nothing to its %s so far", job.GetId(), job.GetState(), job.GetNode(), stream)
	default:
		return fmt.Sprintf("job %s, which is %s, has written nothing to its %s", job.GetId(), job.GetState(), stream)
	}
}

// gone returns the error for a finished job whose node has no output of it.
func gone(job *apipb.Job) error {
	code, why := apipb.CodeOutputGone, fmt.Sprintf("node %q no longer has the output of job %s (state: %s)", job.GetNode(), job.GetId(), job.GetState())
	switch {
	case neverStarted(job):
		code, why = apipb.CodeNeverStarted, fmt.Sprintf("job %s has no output, it never started: it is %s", job.GetId(), ending(job))
	case job.GetStatistics() == nil:
		why = fmt.Sprintf("node %q has no output of job %s, which ended without confirmation that it had started: it is %s", job.GetNode(), job.GetId(), ending(job))
	}
	return fail(connect.CodeNotFound, code, "job output: %s", why)
}

// noOutput returns the error for output that could not be read. If the node is online the
// error lets the client retry: the node may be reconnecting to a new leader.
func (s jobs) noOutput(job *apipb.Job, err error) error {
	var node *statepb.Node
	s.cfg.Store.View(func(st *state.State) { node, _ = st.Node(scheduling.NodeID(job.GetNode())) })
	switch {
	case neverStarted(job):
		return gone(job)
	case node == nil:
		return fail(connect.CodeNotFound, apipb.CodeOutputGone,
			"job output: node %q, which had the output of job %s, was removed (weir node remove): it is available only if the node's agent comes back with its folder (the job is %s)", job.GetNode(), job.GetId(), ending(job))
	case node.GetState() == statepb.NodeOnline:
		return s.unavailable("job output", err)
	}
	return fail(connect.CodeFailedPrecondition, state.CodeNodeOffline,
		"job output: node %q, which may have output of job %s, is offline: retry when it is back (the job is %s)", job.GetNode(), job.GetId(), ending(job))
}
