package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/explainpb"
	"weir/messages/statepb"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// The codes of facts that follow from the replicated state. Those from the scheduler are
// in package engine. Clients depend on them: never change one.
const (
	factRunningLimit   = "running_limit_reached"
	factOperationLimit = "operation_limit_reached"
	factPlaceInPool    = "place_in_pool"
	factAdmission      = "admission_under_way"
	factNoController   = "no_controller"
	factPreparing      = "preparing"
	factSuspended      = "suspended"
	factAccountDenied  = "account_denied"
	factFinishing      = "finishing"
	factEnded          = "ended"
	factLastMoved      = "last_change"
	factNoScheduler    = "scheduler_not_reached"
	factJobWaiting     = "job_waiting"
	factJobRunning     = "job_running"
	factJobPreempted   = "job_preempted"
	factJobInterrupted = "job_interrupted"
	factJobStopping    = "job_stopping"
	factJobCompleted   = "job_completed"
	factJobFailed      = "job_failed"
	factJobAborted     = "job_aborted"
	factBeneficiary    = "preempted_for"
	factReason         = "reason"
	factMemoryReserve  = "memory_reserve"
	factMayNotUse      = "may_not_use"
	factMayNotRead     = "may_not_read"
	factMayNotManage   = "may_not_manage"

	factMayNotAdminister = "may_not_administer"
)

// explanations implements ExplainService.
type explanations struct{ *server }

// Explain says why an operation, a job or a pool is as it is.
func (s explanations) Explain(ctx context.Context, req *connect.Request[apipb.ExplainRequest]) (*connect.Response[apipb.ExplainResponse], error) {
	m := req.Msg
	given := 0
	for _, name := range []string{m.GetOperation(), m.GetJob(), m.GetPool()} {
		if name != "" {
			given++
		}
	}
	if given != 1 {
		return nil, invalid("explain: give exactly one of operation, job and pool")
	}
	var all []*explainpb.Explanation
	var err error
	switch {
	case m.GetOperation() != "":
		all, err = s.operation(ctx, m)
	case m.GetJob() != "":
		all, err = s.job(ctx, m)
	default:
		all, err = s.pool(ctx, m)
	}
	for _, x := range all {
		explainpb.Bound(x)
	}
	return answer(&apipb.ExplainResponse{Explanations: all}, err)
}

// tell appends a fact; the first one is the verdict.
func tell(x *explainpb.Explanation, f *explainpb.Fact) {
	if x.GetVerdict() == "" {
		x.Verdict, x.Text = f.GetCode(), f.GetText()
	}
	x.Facts = append(x.Facts, f)
}

// under adds the scheduler's explanation to x, after the facts of x. A fact with the code of x's
// verdict is left out.
func under(x, said *explainpb.Explanation) {
	known := x.GetVerdict()
	for _, f := range said.GetFacts() {
		if known == "" || f.GetCode() != known {
			tell(x, f)
		}
	}
	x.Tasks, x.Position, x.Waiting, x.EstimatedStart = said.GetTasks(), said.GetPosition(), said.GetWaiting(), said.GetEstimatedStart()
	x.EstimatedEarliest, x.EstimatedLatest, x.EstimatedBy = said.GetEstimatedEarliest(), said.GetEstimatedLatest(), said.GetEstimatedBy()
	x.LikelyVictims, x.Share = said.GetLikelyVictims(), said.GetShare()
	x.Waits = append(x.Waits, said.GetWaits()...)
	x.TasksLeftOut, x.FactsLeftOut = said.GetTasksLeftOut(), said.GetFactsLeftOut()
}

// operation explains an operation in each of its trees, or in one.
func (s explanations) operation(ctx context.Context, m *apipb.ExplainRequest) ([]*explainpb.Explanation, error) {
	var all []*explainpb.Explanation
	var last *explainpb.Fact
	id, running, hidden := "", false, false
	var reserves map[string]*explainpb.Fact
	err := s.read(ctx, "explain operation", func(st *state.State) error {
		op, err := find(st, m.GetOperation())
		if err != nil {
			return err
		}
		hidden = askerOf(ctx).read(st, op, "see all of") != nil
		id, last, running = op.GetId(), lastChange(op), op.GetState() == lifecycle.Running.String()
		if !hidden {
			reserves = reserveFacts(op)
		}
		for _, in := range op.GetTrees() {
			if m.GetTree() == "" || m.GetTree() == in.GetTree() {
				all = append(all, s.operationIn(st, op, in, hidden))
			}
		}
		if len(all) == 0 {
			return fail(connect.CodeNotFound, state.CodeUnknownTree, "explain operation: %s is not in pool tree %q", id, m.GetTree())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if running {
		if err := s.addScheduler(ctx, all, &actorpb.SchedulerViewRequest{Tree: m.GetTree(), Operation: id}); err != nil {
			return nil, err
		}
	}
	for _, x := range all {
		addReserves(x, reserves)
		if last != nil {
			tell(x, last)
		}
	}
	s.cutAll(ctx, all, hidden)
	return all, nil
}

// cutAll removes from explanations what the caller may not see.
func (s explanations) cutAll(ctx context.Context, all []*explainpb.Explanation, hidden bool) {
	s.cfg.Store.View(func(st *state.State) {
		seen := askerOf(ctx).sight(st)
		for _, x := range all {
			seen.cutExplanation(x, hidden)
		}
	})
}

// addScheduler adds the explanations of the leader's schedulers, or the fact that they are
// unreachable. It returns an error only if they are overloaded, so that the client retries.
func (s explanations) addScheduler(ctx context.Context, all []*explainpb.Explanation, of *actorpb.SchedulerViewRequest) error {
	of.Explain = true
	view, err := s.cfg.Leader.SchedulerView(ctx, of)
	if err != nil {
		s.cfg.Logger.Debug("scheduler state unknown", "error", err)
	}
	if errors.Is(err, raftstore.ErrOverloaded) {
		return s.unavailable("explain", err)
	}
	for _, x := range all {
		if err != nil {
			tell(x, &explainpb.Fact{Code: factNoScheduler, Text: fmt.Sprintf("the leader's scheduler is unreachable, so nothing more is known: %v", err)})
		}
		for _, said := range view.GetExplanations() {
			if said.GetTree() == x.GetTree() {
				// The scheduler gives one answer to all who ask the same, and each sees another part of it.
				under(x, proto.CloneOf(said))
			}
		}
		if x.GetVerdict() == "" {
			tell(x, &explainpb.Fact{Code: factNoScheduler, Text: "the leader's scheduler does not know it yet: the leader or the operation is new"})
		}
	}
	return nil
}

// lastChange returns the last event of an operation's record; nil if it has none.
func lastChange(op *statepb.Operation) *explainpb.Fact {
	events := op.GetEvents()
	if len(events) == 0 {
		return nil
	}
	last := events[len(events)-1]
	return &explainpb.Fact{Code: factLastMoved, Setting: cmp.Or(last.GetNote(), last.GetState()), Time: last.GetTime(),
		Text: fmt.Sprintf("last event: %s at %s", cmp.Or(last.GetNote(), last.GetState()), clock(last.GetTime()))}
}

// clock formats a time as RFC 3339 in UTC, which clients can parse and show as local time.
func clock(t *timestamppb.Timestamp) string { return t.AsTime().UTC().Format(time.RFC3339) }

// finishingText says how many jobs an operation waits for before it ends, and until when
// they may run if they were asked to stop.
func finishingText(op *statepb.Operation, jobs int) string {
	text := fmt.Sprintf("it is %s, waiting for its last jobs: %d", op.GetState(), jobs)
	if stop := op.GetStop(); stop.GetGraceMillis() > 0 && jobs > 0 {
		until := stop.GetTime().AsTime().Add(time.Duration(stop.GetGraceMillis()) * time.Millisecond)
		text += ", which were asked to stop and have until " + clock(timestamppb.New(until))
	}
	return text
}

// operationIn explains, from the state alone, why an operation does not run in a tree.
// If `hidden` is set, it leaves out what only those may see who may read the operation.
func (s explanations) operationIn(st *state.State, op *statepb.Operation, in *statepb.OperationTree, hidden bool) *explainpb.Explanation {
	x := &explainpb.Explanation{
		Subject: "operation", Id: op.GetId(), Tree: in.GetTree(), Pool: in.GetPool(), State: op.GetState(), Time: timestamppb.New(s.cfg.Now()),
	}
	now, err := lifecycle.ParseState(op.GetState())
	jobs := st.AllocationCount(scheduling.OperationID(op.GetId()))
	result := op.GetResult().GetMessage()
	if hidden {
		result = ""
	}
	switch {
	case err != nil:
	case now.Terminal():
		tell(x, &explainpb.Fact{Code: factEnded, Setting: op.GetState(), Time: op.GetFinishTime(), Text: endedText(now) + put(": ", result)})
	case now.Finishing():
		tell(x, &explainpb.Fact{Code: factFinishing, Setting: op.GetState(), Count: int64(jobs), Text: finishingText(op, jobs)})
	case now == lifecycle.Pending:
		s.admission(st, x, op, in)
	case now != lifecycle.Running:
		tell(x, notReady(op, now))
	default:
		if op.GetSuspended() {
			tell(x, &explainpb.Fact{Code: factSuspended, Text: "it is suspended: its jobs do not start until weir op resume"})
		}
		if why := deniedText(st, op); why != "" {
			tell(x, &explainpb.Fact{Code: factAccountDenied, Text: why})
		}
		if !in.GetAdmitted() {
			s.admission(st, x, op, in)
		}
	}
	s.controllerGone(x, op, now)
	return x
}

// endedText says how an operation has ended.
func endedText(in lifecycle.State) string {
	if in == lifecycle.Aborted {
		return "it was aborted"
	}
	return "it " + in.String()
}

// deniedText says that jobs wait for a grant that the operation's user has lost; empty if none does.
func deniedText(st *state.State, op *statepb.Operation) string {
	return put("jobs that have not started wait, and those that run go on: ", state.RightsIn(st).Ungranted(op))
}

// notReady says which step an operation is at before it can run.
func notReady(op *statepb.Operation, now lifecycle.State) *explainpb.Fact {
	if now == lifecycle.Starting || now == lifecycle.WaitingForAgent {
		return &explainpb.Fact{Code: factNoController, Setting: op.GetState(), Text: fmt.Sprintf("it is %s: no replica controls it yet; the leader is choosing one", op.GetState())}
	}
	does := "is preparing it"
	if op.GetSpec().GetMap() != nil {
		does = "is listing its input and splitting it into jobs"
	}
	text := fmt.Sprintf("it is %s: its controller, replica %s, %s", op.GetState(), op.GetAssignment().GetReplica(), does)
	return &explainpb.Fact{Code: factPreparing, Setting: op.GetState(), Text: text}
}

// admissionFact says which limit keeps an operation from running in a tree; limit is nil if none
// does.
func admissionFact(pools pooltree.Tree, counts pooltree.Counts, in *statepb.OperationTree) (fact *explainpb.Fact, limit *pooltree.LimitError) {
	if errors.As(pools.AdmitRun(scheduling.PoolName(in.GetPool()), "", counts), &limit) {
		return limitFact(factRunningLimit, limit, in.GetTree(), in.GetPool()), limit
	}
	text := cmp.Or(in.GetPendingReason(), "its pools have room: the leader is about to start it")
	return &explainpb.Fact{Code: factAdmission, Pool: in.GetPool(), Text: text}, nil
}

// controllerGone adds a fact if the replica that controls an operation is down.
func (s explanations) controllerGone(x *explainpb.Explanation, op *statepb.Operation, now lifecycle.State) {
	replica := op.GetAssignment().GetReplica()
	if replica == "" || !now.InProgress() {
		return
	}
	if known, ok := s.cfg.Directory.View().Replica(scheduling.ReplicaID(replica)); ok && known.Live {
		return
	}
	tell(x, &explainpb.Fact{Code: factNoController, Setting: replica,
		Text: fmt.Sprintf("its controller, replica %s, is down: its jobs keep running, and their results are counted once another replica takes over", replica)})
}

// admission adds which pool limit an operation waits for, and how many earlier operations wait for
// the same pool.
func (s explanations) admission(st *state.State, x *explainpb.Explanation, op *statepb.Operation, in *statepb.OperationTree) {
	pools, counts, ok := st.Pools(scheduling.TreeName(in.GetTree()))
	if !ok {
		return
	}
	fact, limit := admissionFact(pools, counts, in)
	if tell(x, fact); limit == nil {
		return
	}
	before := int64(0)
	for other := range st.InProgress() {
		if other.GetId() == op.GetId() {
			break
		}
		if there := other.In(in.GetTree()); there != nil && !there.GetAdmitted() && other.GetState() == lifecycle.Pending.String() && below(pools, there.GetPool(), string(limit.Pool)) {
			before++
		}
	}
	tell(x, &explainpb.Fact{Code: factPlaceInPool, Pool: string(limit.Pool), Count: before + 1,
		Text: fmt.Sprintf("earlier operations waiting for the same pool: %d", before)})
}

// below reports whether the first pool is the second one, or is anywhere below it.
func below(pools pooltree.Tree, name, above string) bool {
	path, err := pools.Path(scheduling.PoolName(name))
	return err == nil && slices.Contains(path, scheduling.PoolName(above))
}

// limitFact says which limit of which pool of a tree is reached, and how it is raised.
func limitFact(code string, limit *pooltree.LimitError, tree, pool string) *explainpb.Fact {
	who := fmt.Sprintf("pool %q", limit.Pool)
	switch {
	case limit.Pool == scheduling.RootPool:
		who = "the pool tree"
	case string(limit.Pool) != pool:
		who += fmt.Sprintf(", above pool %q,", pool)
	}
	text := fmt.Sprintf("%s has %d of at most %d operations (%s): no more can be started unless the limit is raised: %s", who, limit.Now, limit.Limit, limit.Option, limit.Raise(scheduling.TreeName(tree)))
	if code == factRunningLimit {
		text = fmt.Sprintf("%s runs %d of at most %d operations (%s): one of them must end before another one runs, or the limit has to be raised: %s", who, limit.Now, limit.Limit, limit.Option, limit.Raise(scheduling.TreeName(tree)))
	}
	return &explainpb.Fact{Code: code, Pool: string(limit.Pool), Setting: limit.Option, Count: limit.Now, Of: limit.Limit, Text: text}
}

// put returns value with the prefix `before`, or an empty text if value is empty.
func put(before, value string) string {
	if value == "" {
		return ""
	}
	return before + value
}
