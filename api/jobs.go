package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/lifecycle"
)

// jobs implements JobService.
type jobs struct{ *server }

// List shows the jobs of an operation: first those that have not ended, then the
// finished ones that are still on record, latest first.
func (s jobs) List(ctx context.Context, req *connect.Request[apipb.ListJobsRequest]) (*connect.Response[apipb.ListJobsResponse], error) {
	m := req.Msg
	limit, err := page(m.GetLimit(), "list jobs")
	if err != nil {
		return nil, err
	}
	wanted, err := lifecycle.ParseJobState(m.GetState())
	if m.GetState() != "" && err != nil {
		return nil, invalid("list jobs: %v", err)
	}
	if m.GetOffset() < 0 {
		return nil, invalid("list jobs: offset %d: must not be negative", m.GetOffset())
	}
	of := jobListing{ListJobsRequest: m, wanted: wanted, from: int(m.GetOffset()), to: int(m.GetOffset()) + limit, out: &apipb.ListJobsResponse{}}
	// Only nodes know which of the other states a job has: all jobs are looked at.
	asks := m.GetState() != "" && !wanted.Terminal()
	if asks {
		of.from, of.to = 0, math.MaxInt
	}
	err = s.read(ctx, "list jobs", func(st *state.State) error { return of.list(ctx, s, st) })
	if err == nil {
		err = s.addLive(ctx, "list jobs", of.out.Jobs)
	}
	if asks {
		all := slices.DeleteFunc(of.out.Jobs, func(j *apipb.Job) bool { return j.GetState() != m.GetState() })
		from := min(int(m.GetOffset()), len(all))
		of.out.Total, of.out.Jobs = int32(len(all)), all[from:min(from+limit, len(all))]
	}
	return answer(of.out, err)
}

// placed is a job that runs or has ended.
type placed interface {
	GetTask() string
	GetNode() string
}

// jobListing is an answer to a list request in the making.
type jobListing struct {
	*apipb.ListJobsRequest
	// wanted is the state that the request names, if it names one.
	wanted lifecycle.JobState
	// from and to are which of the jobs that the request selects are shown.
	from, to int
	out      *apipb.ListJobsResponse
}

// list adds the jobs of the operation.
func (l *jobListing) list(ctx context.Context, s jobs, st *state.State) error {
	op, err := reads(ctx, st, l.GetOperation(), "see the jobs of")
	if err != nil {
		return err
	}
	if err := checkTask("list jobs", op, l.GetTask()); err != nil {
		return err
	}
	if !l.wanted.Terminal() {
		first, count := state.FirstAllocations(st, scheduling.OperationID(op.GetId()), l.to, func(a *statepb.Allocation) bool { return l.selects(a) })
		for _, a := range first[min(l.from, len(first)):] {
			l.out.Jobs = append(l.out.Jobs, s.running(st, op, a))
		}
		l.out.Total = int32(count)
	}
	for _, j := range slices.Backward(op.GetFinishedJobs()) {
		if l.GetState() != "" && l.GetState() != j.GetState() || !l.selects(j) {
			continue
		}
		if at := int(l.out.GetTotal()); at >= l.from && at < l.to {
			l.out.Jobs = append(l.out.Jobs, finishedJob(st, op, j))
		}
		l.out.Total++
	}
	return nil
}

// selects reports whether a job is of the task and on the node that are asked for.
func (l *jobListing) selects(job placed) bool {
	return (l.GetTask() == "" || l.GetTask() == job.GetTask()) && (l.GetNode() == "" || l.GetNode() == job.GetNode())
}

// running shows a job that has not ended. The reason why the job is stopping comes from the
// state, or from gossip, which may report the reason earlier.
func (s jobs) running(st *state.State, op *statepb.Operation, a *statepb.Allocation) *apipb.Job {
	job := runningJob(st, op, a)
	if order := op.StopOrderFor(a); order != nil {
		job.Stopping, job.Interruption = order.GetReason(), interruptionOf(order)
	} else if a.GetStop() != nil {
		job.Interruption = interruptionOf(a.GetStop())
	} else {
		job.Stopping = s.cfg.Signals.Stopping(a.GetJobId())
	}
	return job
}

// addLive adds what nodes last reported about jobs that have not ended. If the leader
// cannot be reached, it adds nothing. An error ends the call.
func (s jobs) addLive(ctx context.Context, what string, all []*apipb.Job) error {
	byID := map[string]*apipb.Job{}
	var ids []string
	for _, job := range all {
		if job.GetFinishTime() == nil && job.GetState() == lifecycle.JobWaiting.String() {
			byID[job.GetId()] = job
			ids = append(ids, job.GetId())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := extra(ctx)
	defer cancel()
	for some := range slices.Chunk(ids, jobsAsked) {
		live, err := s.cfg.Leader.JobLive(ctx, some)
		if errors.Is(err, errNoTurn) {
			return s.unavailable(what, err)
		}
		if err != nil {
			s.cfg.Logger.Debug("job states from nodes unknown", "error", err)
			return nil
		}
		for _, held := range live.GetJobs() {
			if job := byID[held.GetJobId()]; job != nil {
				addHeld(job, held)
			}
		}
	}
	return nil
}

// jobsAsked is how many jobs the leader is asked about at once.
const jobsAsked = 2000

// addHeld adds what a node reported about a job.
func addHeld(job *apipb.Job, held *actorpb.HeldJob) {
	job.Pid = held.GetPid()
	job.Statistics = &apipb.JobStatistics{MaxMemory: held.GetMemory() - held.GetProxyMemory()}
	switch held.GetPhase() {
	case actorpb.PhaseRunning, actorpb.PhaseAborting:
		job.State = held.GetPhase()
	case actorpb.PhaseEnded:
		// The state does not have its result yet.
		job.State = lifecycle.JobRunning.String()
	}
}

// locate returns a job by id, running or finished. It returns an error if the caller may not see the
// job or, if the call proposes a command about it, may not manage it.
func (s jobs) locate(ctx context.Context, what, id string) (job *apipb.Job, err error) {
	if id == "" {
		return nil, invalid("%s: a job's id is needed", what)
	}
	may := func(st *state.State, op *statepb.Operation) error { return denied(askerOf(ctx).seeJob(st, op, what)) }
	err = s.read(ctx, what, func(st *state.State) error {
		if a, ok := st.Allocation(scheduling.JobID(id)); ok {
			op, _ := st.Operation(scheduling.OperationID(a.GetOperationId()))
			job = s.running(st, op, a)
			return may(st, op)
		}
		return nil
	})
	if job != nil || err != nil {
		return job, err
	}
	s.latestFirst(0, operationsSearched, false, func(st *state.State, some []*statepb.Operation) bool {
		job, err = finishedAmong(st, some, id, may)
		return job == nil
	})
	if job != nil {
		return job, err
	}
	return nil, fail(connect.CodeNotFound, apipb.CodeNoSuchJob, "%s: job %q not found: never granted, or no longer archived", what, id)
}

// jobsWith returns the jobs whose ids have a part, of operations that the caller may read, or manage if the call
// changes something. Nobody else is told that they exist.
func (s names) jobsWith(ctx context.Context, part string) (found []candidate, err error) {
	if err := operations(s).barrier(ctx, "find job"); err != nil {
		return nil, err
	}
	asker := askerOf(ctx)
	s.latestFirst(0, operationsSearched, false, func(st *state.State, some []*statepb.Operation) bool {
		seen := asker.sight(st)
		for _, op := range some {
			if !seen.reads(op) && (asker.need != subjects || !seen.Gives(seen.who, access.Manage, op)) {
				continue
			}
			add := func(id, task, node, job string, started *timestamppb.Timestamp) {
				if scheduling.HasPart(id, part) {
					found = append(found, candidate{id, fmt.Sprintf("of task %s of operation %s, %s on node %s, started %s",
						task, scheduling.ShortID(op.GetId()), job, node, clock(started))})
				}
			}
			for _, a := range st.AllocationsOfOperation(scheduling.OperationID(op.GetId())) {
				add(a.GetJobId(), a.GetTask(), a.GetNode(), "not ended", a.GetStartTime())
			}
			if !state.HasFinished(st, scheduling.OperationID(op.GetId()), func(job string) bool { return scheduling.HasPart(job, part) }) {
				continue
			}
			for _, f := range whole(st, op).GetFinishedJobs() {
				add(f.GetJobId(), f.GetTask(), f.GetNode(), f.GetState(), f.GetStartTime())
			}
		}
		return true
	})
	return found, nil
}

// operationsSearched is how many operations one View searches for a job.
const operationsSearched = 64

// finishedAmong returns a finished job, and an error if the caller may not see it; nil if none of
// the operations has it.
func finishedAmong(st *state.State, operations []*statepb.Operation, id string, may func(*state.State, *statepb.Operation) error) (*apipb.Job, error) {
	for _, op := range operations {
		if !state.HasFinished(st, scheduling.OperationID(op.GetId()), func(job string) bool { return job == id }) {
			continue
		}
		op = whole(st, op)
		for _, finished := range op.GetFinishedJobs() {
			if finished.GetJobId() == id {
				return finishedJob(st, op, finished), may(st, op)
			}
		}
	}
	return nil, nil
}

// Get shows one job.
func (s jobs) Get(ctx context.Context, req *connect.Request[apipb.GetJobRequest]) (*connect.Response[apipb.GetJobResponse], error) {
	job, err := s.locate(ctx, "get job", req.Msg.GetJobId())
	if err != nil {
		return nil, err
	}
	if err := s.addLive(ctx, "get job", []*apipb.Job{job}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.GetJobResponse{Job: job}), nil
}

// Abort ends one job; its cookie runs again.
func (s jobs) Abort(ctx context.Context, req *connect.Request[apipb.AbortJobRequest]) (*connect.Response[apipb.AbortJobResponse], error) {
	job, err := s.unfinished(ctx, "abort job", req.Msg.GetJobId())
	if err != nil {
		return nil, err
	}
	return answer(&apipb.AbortJobResponse{}, s.stop(ctx, "abort job", job, &statepb.StopOrder{
		Reason: lifecycle.AbortUserRequest.String(), Message: saying(ctx, "aborted", req.Msg.GetReason()),
	}))
}

// unfinished is like locate, but returns an error if the job has already ended.
func (s jobs) unfinished(ctx context.Context, what, id string) (*apipb.Job, error) {
	job, err := s.locate(ctx, what, id)
	if err == nil && job.GetFinishTime() != nil {
		err = fail(connect.CodeFailedPrecondition, apipb.CodeJobEnded, "%s %s: already %s", what, job.GetId(), job.GetState())
	}
	return job, err
}

// stop proposes a stop order for a job.
func (s jobs) stop(ctx context.Context, what string, job *apipb.Job, order *statepb.StopOrder) error {
	result, err := s.propose(ctx, what, &commandpb.StopJobs{
		OperationId: job.GetOperationId(), JobIds: []string{job.GetId()}, User: userOf(ctx), Order: order,
	})
	for _, stopped := range result.GetFinishJobs().GetJobs() {
		if err == nil && stopped.GetRefusal() != "" {
			// It has ended since it was looked up.
			err = fail(connect.CodeFailedPrecondition, apipb.CodeJobEnded, "%s: %s", what, stopped.GetMessage())
		}
	}
	return err
}

// saying returns a message that says which user ended a job, and why.
func saying(ctx context.Context, ended, reason string) string {
	return fmt.Sprintf("%s by user %s%s", ended, userOf(ctx), put(": ", reason))
}
