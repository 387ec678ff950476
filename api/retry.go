package api

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/api/spec"
	"weir/cluster/identity"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
)

// The values of the jobs field of a request: which jobs run again.
const (
	retryFailed     = "failed"
	retryUnfinished = "unfinished"
)

// Retry starts a copy of an ended operation that runs only the jobs that failed, or did not
// complete.
func (s operations) Retry(ctx context.Context, req *connect.Request[apipb.RetryOperationRequest]) (*connect.Response[apipb.RetryOperationResponse], error) {
	const what = "retry operation"
	m := req.Msg
	if m.GetJobs() != retryFailed && m.GetJobs() != retryUnfinished {
		return nil, invalid("%s: jobs %q: write %s or %s", what, m.GetJobs(), retryFailed, retryUnfinished)
	}
	if err := checkMutationID(m.GetMutationId()); err != nil {
		return nil, invalid("%s: %v", what, err)
	}
	var again *statepb.OperationSpec
	var bounded []string
	out := &apipb.RetryOperationResponse{}
	err := s.read(ctx, what, func(st *state.State) error {
		// Look up a repeated request first: the retry may have taken over the alias.
		if started, ok := st.OperationByMutation(scheduling.User(userOf(ctx)), askerOf(ctx).Role == identity.Operator, m.GetMutationId()); ok {
			out.OperationId, out.RetryOf, out.Repeated = started.GetId(), started.GetRetryOf(), true
			again, bounded = started.GetSpec(), st.Bounded(started)
			return nil
		}
		op, err := find(st, m.GetOperation())
		if err == nil {
			err = denied(askerOf(ctx).read(st, op, "retry"))
		}
		if err != nil {
			return err
		}
		out.RetryOf = op.GetId()
		again, err = retried(st, op, m.GetJobs())
		return err
	})
	if err != nil {
		return nil, err
	}
	if !out.GetRepeated() {
		id := s.cfg.NewID()
		if err := spec.CheckSecrets(again.GetVault().GetNames(), m.GetSecureVault()); err != nil {
			return nil, fail(connect.CodeFailedPrecondition, apipb.CodeSecretsGone, "%s %s: %v", what, out.GetRetryOf(), err)
		}
		if err := s.seal(what, id, again, m.GetSecureVault()); err != nil {
			return nil, err
		}
		if err := s.room(ctx, what, m.GetMutationId(), again); err != nil {
			return nil, err
		}
		result, err := s.propose(ctx, what, &commandpb.StartOperation{
			OperationId: id, User: userOf(ctx), MutationId: m.GetMutationId(), Spec: again, RetryOf: out.GetRetryOf(), CountFailures: true,
			ByOperator: askerOf(ctx).Role == identity.Operator,
		})
		if err != nil {
			return nil, err
		}
		started := result.GetStartOperation()
		out.OperationId, out.Repeated, bounded = started.GetOperationId(), started.GetRepeated(), started.GetWarnings()
	}
	out.JobCount = jobsOf(again)
	out.Warnings = s.warnings(again, bounded)
	return connect.NewResponse(out), nil
}

// jobsOf returns how many jobs an operation of this spec has.
func jobsOf(described *statepb.OperationSpec) (jobs int64) {
	for _, task := range described.GetTasks() {
		if len(task.GetCookies()) == 0 {
			jobs += int64(task.GetJobCount())
		}
		jobs += countOf(task.GetCookies())
	}
	return jobs
}

// retried returns the spec of an ended operation, reduced to the jobs that are to run again. It
// returns an error if there are none, or the operation cannot be retried.
func retried(st *state.State, op *statepb.Operation, which string) (again *statepb.OperationSpec, err error) {
	refuse := func(format string, args ...any) error {
		return fail(connect.CodeFailedPrecondition, apipb.CodeNothingToRetry, "retry operation %s: "+format, append([]any{op.GetId()}, args...)...)
	}
	switch now, err := lifecycle.ParseState(op.GetState()); {
	case err != nil:
		return nil, err
	case !now.Terminal():
		return nil, fail(connect.CodeFailedPrecondition, state.CodeInvalidOperationState,
			"retry operation %s: it is %s: wait until it has ended, or end it first", op.GetId(), op.GetState())
	case op.GetSpecCut():
		return nil, refuse("its description is no longer kept whole, because it is large and other operations have ended since: start it again as it was")
	case len(op.GetTasks()) == 0:
		return nil, refuse("it ended before it had jobs: start it again as it was")
	case op.GetSpec().GetType() != lifecycle.Vanilla:
		return nil, refuse("all jobs of an operation of type %s write one output: start it again as it was", op.GetSpec().GetType())
	}
	earlier := retriesOf(st, op)
	for _, retry := range earlier {
		if now, _ := lifecycle.ParseState(retry.GetState()); !now.Terminal() {
			return nil, fail(connect.CodeFailedPrecondition, state.CodeInvalidOperationState,
				"retry operation %s: its retry %s is %s: wait until it has ended, or end it first", op.GetId(), retry.GetId(), retry.GetState())
		}
	}
	again = proto.CloneOf(op.GetSpec())
	again.Tasks = nil
	var unfinished int64
	service := ""
	for i, task := range op.GetTasks() {
		described := op.GetSpec().GetTasks()[i]
		left := unfinishedOf(st, op, described)
		without(&left, st, earlier, task.GetName())
		why := state.SweepObstacle(op.GetSpec(), described)
		if why == "" {
			unfinished += left.Len()
		}
		if which == retryFailed {
			left = st.Failed(scheduling.OperationID(op.GetId()), scheduling.TaskName(task.GetName()))
			without(&left, st, earlier, task.GetName())
		}
		switch {
		case left.Len() == 0 && described.GetRestartCompletedJobs():
			// A service never completes, so it has no unfinished jobs.
			service = task.GetName()
		case finishedGang(task) || left.Len() == 0 && (why == "" || task.GetCounters().GetFailed() == 0):
		case why != "":
			return nil, refuse("the jobs of task %q cannot be run again one by one (%s): start the operation again as it was", task.GetName(), why)
		default:
			again.Tasks = append(again.GetTasks(), withCookies(described, left))
		}
	}
	switch {
	case len(again.GetTasks()) > 0:
		return again, nil
	case service != "":
		return nil, refuse("the jobs of task %q are never done (restart_completed_jobs): start the operation again as it was", service)
	case unfinished > 0 && !op.GetCountFailures() && op.GetFailedJobCount() > 0:
		return nil, refuse("an earlier version started it and did not record which of its jobs failed; %d have not completed: retry those that are unfinished", unfinished)
	case unfinished > 0:
		return nil, refuse("none of its jobs failed, but %d have not completed: retry those that are unfinished", unfinished)
	}
	return nil, refuse("all of its jobs have completed")
}

// retriesOf returns the retries of an operation, and the retries of those retries, that are still on
// record.
func retriesOf(st *state.State, op *statepb.Operation) (retries []*statepb.Operation) {
	of := map[string]bool{op.GetId(): true}
	for other := range st.Operations() {
		if of[other.GetRetryOf()] {
			of[other.GetId()] = true
			retries = append(retries, other)
		}
	}
	return retries
}

// without removes from the set `left` each cookie of a task that has completed in one of the retries.
func without(left *cookies.IntervalSet, st *state.State, retries []*statepb.Operation, task string) {
	for _, retry := range retries {
		_, completed, _ := st.Cookies(scheduling.OperationID(retry.GetId()), scheduling.TaskName(task))
		for cookie := range completed.All() {
			left.Remove(cookie)
		}
	}
}

// unfinishedOf returns the cookies of a task that have not completed, including those given up.
func unfinishedOf(st *state.State, op *statepb.Operation, task *statepb.TaskSpec) cookies.IntervalSet {
	id, name := scheduling.OperationID(op.GetId()), scheduling.TaskName(task.GetName())
	left, _, _ := st.Cookies(id, name)
	givenUp := st.GivenUp(id, name)
	for _, interval := range givenUp.Intervals() {
		left.AddInterval(interval)
	}
	return left
}

// finishedGang reports whether a task is a gang of which all ranks have completed. Its spare
// jobs need not run.
func finishedGang(task *statepb.Task) bool {
	return task.GetGang() != nil && countOf(task.GetGang().GetCompleted()) == int64(task.GetGang().GetSize())
}

// countOf returns how many cookies or ranks the intervals cover.
func countOf(intervals []*statepb.Interval) (n int64) {
	for _, i := range intervals {
		n += int64(i.GetEnd() - i.GetBegin())
	}
	return n
}

// withCookies returns a copy of a task that runs only these cookies.
func withCookies(task *statepb.TaskSpec, left cookies.IntervalSet) *statepb.TaskSpec {
	task = proto.CloneOf(task)
	task.Cookies = nil
	if left.Len() == int64(task.GetJobCount()) {
		return task
	}
	task.Cookies = mapped(left.Intervals(), func(i cookies.Interval) *statepb.Interval {
		return &statepb.Interval{Begin: int32(i.Begin), End: int32(i.End)}
	})
	return task
}

// addGivenUp adds the cookies that were given up after max_attempts failures.
func addGivenUp(out *apipb.Operation, st *state.State) {
	for _, task := range out.GetTasks() {
		givenUp := st.GivenUp(scheduling.OperationID(out.GetId()), scheduling.TaskName(task.GetName()))
		task.GivenUpCookies = mapped(givenUp.Intervals(), func(i cookies.Interval) *apipb.CookieRange {
			return &apipb.CookieRange{First: int32(i.Begin), Last: int32(i.End - 1)}
		})
	}
}
