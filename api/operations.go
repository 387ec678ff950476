package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/api/spec"
	"weir/cluster/identity"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// operations implements OperationService.
type operations struct{ *server }

// Start submits an operation.
func (s operations) Start(ctx context.Context, req *connect.Request[apipb.StartRequest]) (*connect.Response[apipb.StartResponse], error) {
	described, secrets, mutation, err := s.described(req.Msg)
	if err != nil {
		return nil, fail(connect.CodeInvalidArgument, state.CodeInvalidSpec, "start operation: %v", err)
	}
	id := s.cfg.NewID()
	if err := s.seal("start operation", id, described, secrets); err != nil {
		return nil, err
	}
	if err := s.room(ctx, "start operation", mutation, described); err != nil {
		return nil, err
	}
	result, err := s.propose(ctx, "start operation", &commandpb.StartOperation{
		OperationId: id, User: userOf(ctx), MutationId: mutation, Spec: described, CountFailures: true,
		ByOperator: askerOf(ctx).Role == identity.Operator,
	})
	if err != nil {
		return nil, err
	}
	started := result.GetStartOperation()
	return connect.NewResponse(&apipb.StartResponse{
		OperationId: started.GetOperationId(), Repeated: started.GetRepeated(), Warnings: s.warnings(described, started.GetWarnings()),
	}), nil
}

// room refuses an operation for which the caller has no room, before it is in the log. A repeated
// request passes: it is answered with its operation.
func (s operations) room(ctx context.Context, what, mutation string, described *statepb.OperationSpec) error {
	user := scheduling.User(userOf(ctx))
	check := func(st *state.State) error {
		if _, repeated := st.OperationByMutation(user, askerOf(ctx).Role == identity.Operator, mutation); repeated {
			return nil
		}
		if err := state.CheckBytes(st, user, described); err != nil {
			return fail(connect.CodeResourceExhausted, state.CodeTooManyBytes, "%s: %v", what, err)
		}
		return nil
	}
	var err error
	if s.cfg.Store.View(func(st *state.State) { err = check(st) }); err == nil {
		return nil
	}
	// This replica may lag.
	return s.read(ctx, what, check)
}

// described returns the checked spec of a request, the secrets that it names, and its mutation id.
func (s operations) described(m *apipb.StartRequest) (described *statepb.OperationSpec, secrets map[string]string, mutation string, err error) {
	if m.GetSpec() == nil {
		return nil, nil, "", errors.New("a spec is needed")
	}
	document, err := spec.FromStruct(m.GetSpec())
	if err != nil {
		return nil, nil, "", err
	}
	described, mutation, err = document.Check()
	switch {
	case err != nil:
		return nil, nil, "", err
	case m.GetMutationId() == "":
	case mutation != "" && mutation != m.GetMutationId():
		return nil, nil, "", fmt.Errorf("mutation_id %q differs from the spec's, %q: give only one", m.GetMutationId(), mutation)
	default:
		mutation = m.GetMutationId()
	}
	return described, document.Secrets(), mutation, checkMutationID(mutation)
}

// checkMutationID returns an error for a mutation id that is too long to be stored.
func checkMutationID(id string) error {
	if len(id) > spec.MaxMutationIDBytes {
		return fmt.Errorf("mutation_id has %d bytes, the limit is %d", len(id), spec.MaxMutationIDBytes)
	}
	return nil
}

// get returns what the caller may see of an operation, from this replica's state, without a read
// barrier.
func (s operations) get(ctx context.Context, name string, full bool) (out *apipb.Operation, err error) {
	var described *statepb.OperationSpec
	s.cfg.Store.View(func(st *state.State) {
		var op *statepb.Operation
		if op, err = find(st, name); err == nil {
			out, err = operationOf(op, full)
		}
		hidden := false
		if err == nil {
			if why := askerOf(ctx).read(st, op, "see all of"); why != nil {
				out, full, hidden = cut(out, why.Error()), false, true
			}
		}
		if full && err == nil {
			out.Preempted = preempted(st, op)
			addInputOf(out, st, op)
			addGivenUp(out, st)
			out.Alerts = alertsOf(st, op)
			described = op.GetSpec()
		}
		if err == nil && out.GetPendingReason() == "" {
			out.PendingReason = deniedText(st, op)
		}
		if err == nil && out.GetPendingReason() == "" {
			stuck := misfits{names: !hidden}
			stuck.note(st, op)
			stuck.trees.survey(stuck.nodes)
			stuck.judge(st, op)
			out.PendingReason = stuck.why
		}
	})
	completed := map[string]bool{}
	for _, task := range out.GetTasks() {
		completed[task.GetName()] = task.GetCompleted() > 0
	}
	if described != nil {
		out.Alerts = append(out.Alerts, unknownUsers(described, completed)...)
	}
	return out, err
}

// Get shows one operation.
func (s operations) Get(ctx context.Context, req *connect.Request[apipb.GetOperationRequest]) (*connect.Response[apipb.GetOperationResponse], error) {
	if err := s.cfg.Log.ReadBarrier(ctx); err != nil {
		return nil, s.unavailable("get operation", err)
	}
	op, err := s.get(ctx, req.Msg.GetOperation(), true)
	if err != nil {
		return nil, err
	}
	if err := s.addShares(ctx, "get operation", op); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.GetOperationResponse{Operation: op}), nil
}

// Wait answers when the operation has ended, or after the timeout.
func (s operations) Wait(ctx context.Context, req *connect.Request[apipb.WaitOperationRequest]) (*connect.Response[apipb.WaitOperationResponse], error) {
	timeout := time.Duration(req.Msg.GetTimeoutMillis()) * time.Millisecond
	switch {
	case timeout == 0:
		timeout = 30 * time.Second
	case timeout < 0 || timeout > s.cfg.Limits.MaxWait:
		return nil, invalid("wait for operation: timeout_millis %d: must be 1 to %d", req.Msg.GetTimeoutMillis(), s.cfg.Limits.MaxWait.Milliseconds())
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.barrier(ctx, "wait for operation"); err != nil {
		return nil, err
	}
	out := &apipb.WaitOperationResponse{}
	err := s.follow(waiting, req.Msg.GetOperation(), func(string) error { return nil }, func(op *apipb.Operation, ended bool) error {
		out.Operation, out.Done = op, ended
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) && out.GetOperation() != nil {
		// The timeout is not an error: the answer says that the operation has not ended.
		err = nil
	}
	if err != nil {
		return nil, s.unavailable("wait for operation", err)
	}
	return connect.NewResponse(out), nil
}

// Watch streams the operation at every change, and every Limits.KeepAlive without one. If the caller could
// read the operation and no longer can, the stream ends.
func (s operations) Watch(ctx context.Context, req *connect.Request[apipb.WatchOperationRequest], stream *connect.ServerStream[apipb.WatchOperationResponse]) error {
	if err := s.barrier(ctx, "watch operation"); err != nil {
		return err
	}
	asker, could := askerOf(ctx), false
	guard := func(id string) error {
		read := func(st *state.State) error {
			if op, ok := st.Operation(scheduling.OperationID(id)); ok {
				return asker.read(st, op, "watch all of")
			}
			return nil
		}
		var missing error
		if s.cfg.Store.View(func(st *state.State) { missing = read(st) }); missing == nil {
			could = true
		}
		if !could || missing == nil {
			return nil
		}
		return denied(s.judge(ctx, "watch operation", read))
	}
	err := s.follow(ctx, req.Msg.GetOperation(), guard, func(op *apipb.Operation, _ bool) error {
		return stream.Send(&apipb.WatchOperationResponse{Operation: op})
	})
	if err != nil {
		return s.unavailable("watch operation", err)
	}
	return nil
}

// barrier is ReadBarrier for calls without a deadline; Limits.Patience bounds it.
func (s operations) barrier(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Patience)
	defer cancel()
	if err := s.cfg.Log.ReadBarrier(ctx); err != nil {
		return s.unavailable(what, err)
	}
	return nil
}

// changesTogether is how long follow collects changes before it shows them: a busy
// operation changes with every batch of jobs, too fast for any reader.
const changesTogether = 20 * time.Millisecond

// follow shows an operation now, after each change, and after KeepAlive without
// one, until it has ended or ctx is done. It calls guard every rightsChecked, and before it shows the operation; an
// error of guard ends it.
func (s operations) follow(ctx context.Context, name string, guard func(id string) error, show func(op *apipb.Operation, ended bool) error) error {
	op, err := s.get(ctx, name, false)
	if err != nil {
		return err
	}
	// Follow the id: the alias may pass to another operation.
	name = op.GetId()
	followed := s.changes.follow(scheduling.OperationID(name))
	defer followed.leave()
	var last *apipb.Operation
	var shown time.Time
	for {
		changed := followed.next()
		if err := guard(name); err != nil {
			return err
		}
		if op, err = s.get(ctx, name, false); err != nil {
			return err
		}
		now, err := lifecycle.ParseState(op.GetState())
		if err != nil {
			return err
		}
		if last == nil || time.Since(shown) >= s.cfg.Limits.KeepAlive || !proto.Equal(last, op) {
			if err := show(op, now.Terminal()); err != nil {
				return err
			}
			last, shown = op, time.Now()
		}
		if now.Terminal() {
			return nil
		}
		for waits := true; waits; {
			left := s.cfg.Limits.KeepAlive - time.Since(shown)
			if err := s.pause(ctx, changed, min(left, rightsChecked)); err != nil {
				return err
			}
			if err := guard(name); err != nil {
				return err
			}
			select {
			case <-changed:
				waits = false
			default:
				waits = left > rightsChecked
			}
		}
		// Collect further changes, but show the end at once.
		if err := s.pause(ctx, followed.ended, changesTogether); err != nil {
			return err
		}
	}
}

// pause waits until the channel `happened` is closed, but no longer than `longest`. Meanwhile other calls
// compute. It returns an error if ctx is done, no more changes will be reported, or the call gets no turn after that.
func (s operations) pause(ctx context.Context, happened <-chan struct{}, longest time.Duration) error {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	askerOf(ctx).turn.rest()
	select {
	case <-happened:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.changes.over:
		return s.changes.err
	}
	return askerOf(ctx).turn.take()
}

// Events shows the events on an operation's record.
func (s operations) Events(ctx context.Context, req *connect.Request[apipb.OperationEventsRequest]) (*connect.Response[apipb.OperationEventsResponse], error) {
	out := &apipb.OperationEventsResponse{}
	err := s.read(ctx, "operation events", func(st *state.State) error {
		op, err := reads(ctx, st, req.Msg.GetOperation(), "see the events of")
		out.Events = mapped(op.GetEvents(), func(e *statepb.OperationEvent) *apipb.OperationEvent {
			return &apipb.OperationEvent{Time: e.GetTime(), State: e.GetState(), Note: e.GetNote(), Attributes: e.GetAttributes(), Index: e.GetIndex()}
		})
		return err
	})
	return answer(out, err)
}
