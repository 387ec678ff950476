package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/explainpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// pool explains a pool. Its limits, and what its operations wait for before they run, come from the
// state. Its share, and what its running operations wait for, come from the scheduler.
func (s explanations) pool(ctx context.Context, m *apipb.ExplainRequest) ([]*explainpb.Explanation, error) {
	x := &explainpb.Explanation{Subject: "pool", Id: m.GetPool(), Pool: m.GetPool(), Time: timestamppb.New(s.cfg.Now())}
	var missing []*explainpb.Fact
	var t treeIn
	err := s.read(ctx, "explain pool", func(st *state.State) (err error) {
		if t, err = findTree(st, "explain pool", m.GetTree()); err != nil {
			return err
		}
		name := scheduling.PoolName(m.GetPool())
		if !t.pools.Has(name) {
			return fail(connect.CodeNotFound, state.CodeUnknownPool, "explain pool: there is no pool %q in tree %q%s", name, t.name, elsewhere(st, name))
		}
		x.Tree = string(t.name)
		var limit *pooltree.LimitError
		if errors.As(t.pools.AdmitStart(name, "", t.counts), &limit) {
			tell(x, limitFact(factOperationLimit, limit, x.GetTree(), m.GetPool()))
		}
		if errors.As(t.pools.AdmitRun(name, "", t.counts), &limit) {
			tell(x, limitFact(factRunningLimit, limit, x.GetTree(), m.GetPool()))
		}
		missing = missingRights(askerOf(ctx).sight(st), t.name, name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.inProgress(func(_ *state.State, op *statepb.Operation) { addWait(x, t, op) })
	all := []*explainpb.Explanation{x}
	if err := s.addScheduler(ctx, all, &actorpb.SchedulerViewRequest{Tree: x.GetTree(), Pool: x.GetPool()}); err != nil {
		return nil, err
	}
	for _, f := range missing {
		tell(x, f)
	}
	s.cfg.Store.View(func(st *state.State) { askerOf(ctx).sight(st).cutWaits(x.GetWaits()) })
	slices.SortStableFunc(x.GetWaits(), func(a, b *explainpb.Wait) int { return cmp.Compare(b.GetOperations(), a.GetOperations()) })
	return all, nil
}

// missingRights says which rights on a pool the caller lacks, who has them, and how they are given.
func missingRights(seen sight, tree scheduling.TreeName, pool scheduling.PoolName) (facts []*explainpb.Fact) {
	for _, lacks := range []struct {
		code, what string
		right      access.Right
	}{
		{factMayNotUse, "use pool %q", access.Use},
		{factMayNotRead, "read all of the operations of others in pool %q", access.Read},
		{factMayNotManage, "manage operations of others in pool %q", access.Manage},
		{factMayNotAdminister, "administer the pools below pool %q", access.Administer},
	} {
		if missing := seen.Pool(seen.who, lacks.right, tree, pool, fmt.Sprintf(lacks.what, pool)); missing != nil {
			facts = append(facts, &explainpb.Fact{Code: lacks.code, Pool: string(pool), Setting: string(lacks.right), Text: missing.Error()})
		}
	}
	return facts
}

// elsewhere names another tree that has a pool of this name; empty if none has.
func elsewhere(st *state.State, name scheduling.PoolName) string {
	for _, other := range st.Trees() {
		if pools, _, ok := st.Pools(scheduling.TreeName(other.GetName())); ok && pools.Has(name) {
			return fmt.Sprintf("; tree %q has one: --tree %s", other.GetName(), other.GetName())
		}
	}
	return ""
}

// addWait counts an operation below the pool that x explains, if it does not run yet, by what it waits for. The
// scheduler counts the operations that run. The last one counted is named as the first.
func addWait(x *explainpb.Explanation, t treeIn, op *statepb.Operation) {
	in := op.In(string(t.name))
	if in == nil || !below(t.pools, in.GetPool(), x.GetPool()) {
		return
	}
	fact := waitOf(t, op, in)
	if fact == nil {
		return
	}
	at := slices.IndexFunc(x.GetWaits(), func(w *explainpb.Wait) bool { return w.GetVerdict() == fact.GetCode() })
	if at < 0 {
		at = len(x.GetWaits())
		x.Waits = append(x.Waits, &explainpb.Wait{Verdict: fact.GetCode()})
	}
	wait := x.GetWaits()[at]
	wait.First, wait.Text = op.GetId(), fact.GetText()
	wait.Operations++
}

// waitOf says what an operation waits for before it runs in a tree; nil if it runs there or
// has ended.
func waitOf(t treeIn, op *statepb.Operation, in *statepb.OperationTree) *explainpb.Fact {
	now, err := lifecycle.ParseState(op.GetState())
	switch {
	case err != nil || now.Terminal():
		return nil
	case now.Finishing():
		return &explainpb.Fact{Code: factFinishing, Text: fmt.Sprintf("it is %s, and waits for its last jobs", op.GetState())}
	case now != lifecycle.Pending && now != lifecycle.Running:
		return notReady(op, now)
	case in.GetAdmitted():
		return nil
	}
	fact, _ := admissionFact(t.pools, t.counts, in)
	return fact
}
