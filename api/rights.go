package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/explainpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/resource"
)

// decisions withholds answers about an operation that were given without a check of the right to
// read it. It makes a call that forgets the check fail for everybody instead of leak.
type decisions struct{}

// WrapUnary implements connect.Interceptor.
func (decisions) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		answer, err := next(ctx, req)
		if err == nil {
			err = undecided(ctx, req.Spec().Procedure)
		}
		if err != nil {
			return nil, err
		}
		return answer, nil
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (decisions) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (decisions) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, decidedConn{conn, ctx})
	}
}

type decidedConn struct {
	connect.StreamingHandlerConn
	ctx context.Context
}

// Send implements connect.StreamingHandlerConn.
func (c decidedConn) Send(msg any) error {
	if err := undecided(c.ctx, c.Spec().Procedure); err != nil {
		return err
	}
	return c.StreamingHandlerConn.Send(msg)
}

// undecided returns an error if the call needs the right to read an operation, which was not
// checked.
func undecided(ctx context.Context, procedure string) error {
	if a := askerOf(ctx); a.need != readers || a.decided {
		return nil
	}
	return fail(connect.CodeInternal, apipb.CodeInternal, "%s: the right to read the operation was not checked", procedure)
}

// denied returns the error for clients of a right that is missing; nil if none is.
func denied(err error) error {
	var missing *access.Denied
	if errors.As(err, &missing) {
		return fail(connect.CodePermissionDenied, state.CodeDenied, "%w", missing)
	}
	return err
}

// read returns an error unless the caller may read an operation.
func (a *asking) read(st *state.State, op *statepb.Operation, verb string) error {
	rights := state.RightsIn(st)
	a.decided = true
	return rights.Operation(rights.Who(a.subject()), access.Read, op, verb)
}

// sight tells which operations a caller may read in a state.
type sight struct {
	state.Rights
	who access.Who
}

func (a *asking) sight(st *state.State) sight {
	rights := state.RightsIn(st)
	return sight{rights, rights.Who(a.subject())}
}

// reads reports whether the caller may read an operation.
func (s sight) reads(op *statepb.Operation) bool { return s.Gives(s.who, access.Read, op) }

// readsID reports whether the caller may read an operation by its id. Only operators may read one that
// is gone.
func (s sight) readsID(id string) bool {
	op, ok := state.Head(s.State, scheduling.OperationID(id))
	return s.who.Operator || ok && s.reads(op)
}

// cutExplanation removes what only those may see who may read an operation: names of its tasks and
// ids of its jobs. An explanation may also name operations of others.
func (s sight) cutExplanation(x *explainpb.Explanation, hidden bool) {
	for _, f := range x.GetFacts() {
		of := cmp.Or(f.GetOperation(), x.GetId())
		if !hidden && (of == x.GetId() || s.readsID(of)) {
			continue
		}
		if f.GetTask() != "" {
			f.Text, f.Task = strings.ReplaceAll(f.GetText(), "task "+f.GetTask(), "a task"), ""
		}
		if f.GetJob() != "" {
			f.Text, f.Job = strings.ReplaceAll(f.GetText(), "job "+f.GetJob(), "a job"), ""
		}
	}
	if facts := x.GetFacts(); len(facts) > 0 {
		x.Text = facts[0].GetText()
	}
	for _, victim := range x.GetLikelyVictims() {
		if !s.readsID(victim.GetOperation()) {
			victim.Job = ""
		}
	}
	for i, task := range x.GetTasks() {
		if hidden {
			task.Name = fmt.Sprint(i + 1)
		}
	}
}

// cutWaits removes from what operations wait for the names of tasks of operations that the caller may not
// read.
func (s sight) cutWaits(waits []*explainpb.Wait) {
	for _, w := range waits {
		if s.readsID(w.GetFirst()) {
			continue
		}
		op, ok := s.State.Operation(scheduling.OperationID(w.GetFirst()))
		names := mapped(op.GetTasks(), (*statepb.Task).GetName)
		// A name may begin with another one.
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
		for _, name := range names {
			w.Text = strings.ReplaceAll(w.GetText(), "task "+name, "a task")
		}
		if !ok {
			w.Text = ""
		}
	}
}

// seeJob returns an error unless the caller may read the operation of a job. If the call proposes a
// command about the job, the caller must be allowed to manage the operation instead.
func (a *asking) seeJob(st *state.State, op *statepb.Operation, verb string) error {
	if a.need != subjects {
		return a.read(st, op, verb+" of")
	}
	rights := state.RightsIn(st)
	return rights.Operation(rights.Who(a.subject()), access.Manage, op, verb+" of")
}

// reads returns an operation by id or alias, if the call may show the operation to its caller.
func reads(ctx context.Context, st *state.State, name, verb string) (*statepb.Operation, error) {
	op, err := find(st, name)
	if err != nil {
		return nil, err
	}
	if a := askerOf(ctx); a.need == readers {
		err = denied(a.read(st, op, verb))
	}
	return op, err
}

// cut returns what everyone may see of an operation, and says what it needs to see more.
func cut(op *apipb.Operation, why string) *apipb.Operation {
	shown := &apipb.Operation{
		Id: op.GetId(), Type: op.GetType(), State: op.GetState(), Suspended: op.GetSuspended(), User: op.GetUser(), Pool: op.GetPool(), Weight: op.GetWeight(),
		StartTime: op.GetStartTime(), FinishTime: op.GetFinishTime(), Controller: op.GetController(), ControllerEpoch: op.GetControllerEpoch(),
		PendingReason: op.GetPendingReason(), Progress: op.GetProgress(), Hidden: why, StateSince: op.GetStateSince(),
	}
	for _, in := range op.GetTrees() {
		shown.Trees = append(shown.Trees, &apipb.OperationTree{Tree: in.GetTree(), Pool: in.GetPool(), Admitted: in.GetAdmitted(), PendingReason: in.GetPendingReason()})
	}
	return shown
}

// Grants shows what agents of nodes may claim.
func (s nodes) Grants(ctx context.Context, _ *connect.Request[apipb.NodeGrantsRequest]) (*connect.Response[apipb.NodeGrantsResponse], error) {
	out := &apipb.NodeGrantsResponse{}
	err := s.read(ctx, "show grants of nodes", func(st *state.State) error {
		out.Grants = mapped(state.RightsIn(st).NodeGrants(), nodeGrantOf)
		return nil
	})
	return answer(out, err)
}

func nodeGrantOf(g *statepb.NodeGrant) *apipb.NodeGrant {
	out := &apipb.NodeGrant{Pattern: g.GetPattern(), Tags: g.GetTags(), ModifiedTime: g.GetModifiedTime()}
	for name, most := range g.GetMax() {
		if kind, err := resource.ParseKind(name); err == nil {
			if out.Max == nil {
				out.Max = map[string]float64{}
			}
			out.Max[name] = resource.Amounts{}.With(kind, most).Map()[name]
		}
	}
	return out
}

// EditGrant sets what agents of nodes may claim, or takes it away.
func (s nodes) EditGrant(ctx context.Context, req *connect.Request[apipb.EditNodeGrantRequest]) (*connect.Response[apipb.EditNodeGrantResponse], error) {
	const what = "change grant of nodes"
	m := req.Msg
	grant := &statepb.NodeGrant{Pattern: m.GetGrant().GetPattern(), Tags: m.GetGrant().GetTags()}
	for name, most := range m.GetGrant().GetMax() {
		kind, err := resource.ParseKind(name)
		if err != nil {
			return nil, invalid("%s: max: %v", what, err)
		}
		amounts, err := resource.FromMap(map[string]float64{name: most})
		if err != nil {
			return nil, invalid("%s: max: %v", what, err)
		}
		if grant.Max == nil {
			grant.Max = map[string]int64{}
		}
		grant.Max[name] = amounts.Of(kind)
	}
	_, err := s.propose(ctx, what, &commandpb.EditNodeGrant{
		Grant: grant, Disallow: m.GetDisallow(), Force: m.GetForce(), User: userOf(ctx),
	})
	return answer(&apipb.EditNodeGrantResponse{}, err)
}
