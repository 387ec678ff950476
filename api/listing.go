package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/spec"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/lifecycle"
)

// List shows operations, latest start first, or those in progress first.
func (s operations) List(ctx context.Context, req *connect.Request[apipb.ListOperationsRequest]) (*connect.Response[apipb.ListOperationsResponse], error) {
	m := req.Msg
	limit, err := page(m.GetLimit(), "list operations")
	if err != nil {
		return nil, err
	}
	wanted, err := filterOf(m)
	if err != nil {
		return nil, invalid("list operations: %v", err)
	}
	out := &apipb.ListOperationsResponse{}
	var from listPlace
	err = s.read(ctx, "list operations", func(st *state.State) (err error) {
		from, err = placeAfter(st, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	of := listing{wanted: wanted, limit: limit, left: s.cfg.Limits.AnswerBytes, out: out, needs: map[string]string{}}
	ended := s.inOrder(from, wanted, func(st *state.State, some []*statepb.Operation) bool {
		if gone := context.Cause(ctx); gone != nil {
			err = s.unavailable("list operations", gone)
			return false
		}
		err = of.add(askerOf(ctx).sight(st), some)
		return err == nil && !out.GetIncomplete()
	})
	if out.GetIncomplete() {
		out.Next = nextOf(out.GetOperations(), m, ended)
	}
	if err == nil {
		err = s.addShares(ctx, "list operations", out.Operations...)
	}
	return answer(out, err)
}

// latestFirst calls a function with the operations before one (state.OperationsBefore), n of them a View,
// until it returns false. View blocks changes to the state, so none should be long. What several Views find is not of
// one moment.
func (s *server) latestFirst(before uint64, n int, inProgress bool, each func(st *state.State, some []*statepb.Operation) bool) {
	for more := true; more; {
		s.cfg.Store.View(func(st *state.State) {
			var some []*statepb.Operation
			some, before = state.OperationsBefore(st, before, n, inProgress)
			more = len(some) > 0 && each(st, some)
		})
	}
}

// whole returns an operation with all that is kept of it: lists of the state have less of those that ended long ago.
func whole(st *state.State, op *statepb.Operation) *statepb.Operation {
	all, _ := st.Operation(scheduling.OperationID(op.GetId()))
	return all
}

// listPlace is a place in a list of operations.
type listPlace struct {
	// before is the number of the operation before which the list continues; 0 at its begin.
	before uint64
	// ended says that it is among those that have ended, where they come last.
	ended bool
}

// stillInProgress marks a place among the operations in progress, also when the operation has ended since.
const stillInProgress = "in_progress:"

// nextOf returns what the list continues after.
func nextOf(shown []*apipb.Operation, m *apipb.ListOperationsRequest, ended bool) string {
	last := shown[len(shown)-1]
	// Those that have ended come from a look of their own: the last one may be from that before.
	if m.GetInProgressFirst() && (!ended || last.GetFinishTime() == nil) {
		return stillInProgress + last.GetId()
	}
	return last.GetId()
}

// placeAfter returns the place from which a request continues.
func placeAfter(st *state.State, m *apipb.ListOperationsRequest) (from listPlace, err error) {
	if m.GetAfter() == "" {
		return listPlace{}, nil
	}
	id, running := strings.CutPrefix(m.GetAfter(), stillInProgress)
	before, known := state.NumberOf(st, scheduling.OperationID(id))
	if !known || running && !m.GetInProgressFirst() {
		return listPlace{}, fail(connect.CodeNotFound, state.CodeUnknownOperation,
			"list operations: no operation %q to continue after: start again without it", m.GetAfter())
	}
	if end, ended := state.EndOf(st, scheduling.OperationID(id)); ended && m.GetInProgressFirst() && !running {
		return listPlace{end, true}, nil
	}
	return listPlace{before: before}, nil
}

// inOrder calls a function with the operations from a place on that a filter may select, in the order that its request
// asks for, until it returns false. It reports whether it came to those that have ended, where they come last.
// What several Views find is not of one moment: an operation that ends meanwhile is not passed twice.
func (s *server) inOrder(from listPlace, f operationFilter, each func(st *state.State, some []*statepb.Operation) bool) (ended bool) {
	if !f.GetInProgressFirst() {
		s.latestFirst(from.before, operationsSearched, f.GetInProgress(), func(st *state.State, some []*statepb.Operation) bool {
			return each(st, some) && !f.past(some[len(some)-1])
		})
		return false
	}
	more, passed := true, map[string]bool{}
	if !from.ended {
		s.latestFirst(from.before, operationsSearched, true, func(st *state.State, some []*statepb.Operation) bool {
			for _, op := range some {
				passed[op.GetId()] = true
			}
			more = each(st, some)
			return more && !f.past(some[len(some)-1])
		})
		from.before = 0
	}
	if !more || f.GetInProgress() {
		return false
	}
	for more {
		s.cfg.Store.View(func(st *state.State) {
			var some []*statepb.Operation
			some, from.before = state.EndedBefore(st, from.before, operationsSearched)
			more = len(some) > 0 && !f.over(some[len(some)-1])
			some = slices.DeleteFunc(some, func(op *statepb.Operation) bool { return passed[op.GetId()] })
			more = each(st, some) && more
		})
	}
	return true
}

// listing is an answer to a list request in the making.
type listing struct {
	wanted operationFilter
	// limit is how many operations it may have; left, how many bytes more.
	limit, left int
	out         *apipb.ListOperationsResponse
	// needs says what it takes to see all of an operation, by its pool.
	needs map[string]string
}

// hidden returns why not all of an operation is shown. The call Get has the whole refusal.
func (l *listing) hidden(pool string) string {
	text, ok := l.needs[pool]
	if !ok {
		text = fmt.Sprintf("this needs the right %s on pool %q: weir op get says who has it", access.Read, pool)
		l.needs[pool] = text
	}
	return text
}

// add adds those of some operations that the request selects, as the caller may see them. It sets
// Incomplete if there are more than fit.
func (l *listing) add(seen sight, some []*statepb.Operation) error {
	for _, op := range some {
		if !l.wanted.selects(op, seen) {
			continue
		}
		if len(l.out.Operations) == l.limit {
			l.out.Incomplete = true
			return nil
		}
		op = whole(seen.State, op)
		shown, err := operationOf(op, false)
		if err != nil {
			return err
		}
		if !seen.Gives(seen.who, access.Read, op) {
			shown = cut(shown, l.hidden(shown.GetPool()))
		}
		if l.left -= proto.Size(shown); l.left < 0 && len(l.out.GetOperations()) > 0 {
			l.out.Incomplete = true
			return nil
		}
		l.out.Operations = append(l.out.Operations, shown)
	}
	return nil
}

// maxSelectors is how many labels a list request may select by.
const maxSelectors = 16

// The types by which lists select operations, besides those of specs.
const (
	typeService = "service"
	typeGang    = "gang"
)

// operationFilter is what a list request selects.
type operationFilter struct {
	*apipb.ListOperationsRequest
	labels []spec.LabelSelector
	// started, finished and failed are spans of time; nil if the request has none.
	started, finished, failed *span
}

// filterOf returns the filter of a request, or what is wrong with it.
func filterOf(m *apipb.ListOperationsRequest) (f operationFilter, err error) {
	f.ListOperationsRequest = m
	if _, err := lifecycle.ParseState(m.GetState()); m.GetState() != "" && err != nil {
		return f, err
	}
	if types := []string{"", lifecycle.Vanilla, lifecycle.Map, typeService, typeGang}; !slices.Contains(types, m.GetType()) {
		return f, fmt.Errorf("type %q: must be one of %s", m.GetType(), strings.Join(types[1:], ", "))
	}
	if n := len(m.GetLabels()); n > maxSelectors {
		return f, fmt.Errorf("%d labels: at most %d", n, maxSelectors)
	}
	for _, text := range m.GetLabels() {
		selector, err := spec.ParseLabelSelector(text)
		if err != nil {
			return f, err
		}
		f.labels = append(f.labels, selector)
	}
	if f.started, err = spanOf("started", m.GetStartedSince(), m.GetStartedBefore()); err != nil {
		return f, err
	}
	if f.finished, err = spanOf("finished", m.GetFinishedSince(), m.GetFinishedBefore()); err != nil {
		return f, err
	}
	f.failed, err = spanOf("failed", m.GetFailedSince(), nil)
	return f, err
}

// selects reports whether an operation matches the filter. What the caller may not see of an
// operation does not select it.
func (f operationFilter) selects(op *statepb.Operation, seen sight) bool {
	now, err := lifecycle.ParseState(op.GetState())
	switch {
	case f.GetState() != "" && f.GetState() != op.GetState(),
		f.GetPool() != "" && !inPool(op, f.GetPool()),
		f.GetUser() != "" && f.GetUser() != op.GetUser(),
		f.GetInProgress() && (err != nil || !now.InProgress()),
		!f.started.has(op.GetStartTime()), !f.finished.has(op.GetFinishTime()),
		!strings.Contains(op.GetSpec().GetTitle(), f.GetTitle()):
		return false
	}
	called := strings.Contains(op.GetSpec().GetTitle(), f.GetFilter()) || strings.Contains(op.GetSpec().GetAlias(), f.GetFilter())
	if has := strings.Contains(op.GetId(), f.GetFilter()); !has && !called || (!has || f.named()) && !seen.reads(op) {
		return false
	}
	// The rest is not known of all that have ended without reading from the disk.
	if f.failed != nil || f.GetType() == typeService || f.GetType() == typeGang || len(f.labels) > 0 {
		op = whole(seen.State, op)
	}
	if f.failed != nil && !failedIn(op, f.failed) || !isOfType(op.GetSpec(), f.GetType()) {
		return false
	}
	return !slices.ContainsFunc(f.labels, func(label spec.LabelSelector) bool { return !label.Selects(op.GetSpec()) })
}

// named reports whether the filter selects by what only those may see who may read an operation.
func (f operationFilter) named() bool {
	return f.GetTitle() != "" || len(f.labels) > 0 || f.GetType() == typeService || f.GetType() == typeGang
}

// past reports whether no operation that was accepted before this one is selected: operations start
// in the order in which they are accepted.
func (f operationFilter) past(op *statepb.Operation) bool {
	return f.started != nil && op.GetStartTime().AsTime().Before(f.started.since)
}

// over reports whether no operation that ended before this one is selected.
func (f operationFilter) over(op *statepb.Operation) bool {
	for _, wanted := range []*span{f.started, f.finished, f.failed} {
		if wanted != nil && op.GetFinishTime().AsTime().Before(wanted.since) {
			return true
		}
	}
	return false
}

// isOfType reports whether an operation is of a type by which lists select; "" is any.
func isOfType(of *statepb.OperationSpec, kind string) bool {
	switch kind {
	case typeService:
		return len(servingTasks(of)) > 0
	case typeGang:
		return of.GetIsGang() || slices.ContainsFunc(of.GetTasks(), func(t *statepb.TaskSpec) bool { return t.GetGang() != nil })
	}
	return kind == "" || kind == of.GetType()
}

// failedIn reports whether an operation failed in a span, or a job of it did. Of finished jobs, the latest that
// failed are kept longest.
func failedIn(op *statepb.Operation, in *span) bool {
	switch op.GetState() {
	case lifecycle.Failed.String():
		if in.has(op.GetFinishTime()) {
			return true
		}
	case lifecycle.Failing.String():
		if in.has(stateSince(op)) {
			return true
		}
	}
	return slices.ContainsFunc(op.GetFinishedJobs(), func(j *statepb.FinishedJob) bool {
		return j.GetState() == lifecycle.JobFailed.String() && in.has(j.GetFinishTime())
	})
}

// stateSince returns the time of the event with which an operation came to its state, or that of the
// first event after it that is kept.
func stateSince(op *statepb.Operation) (since *timestamppb.Timestamp) {
	for _, e := range slices.Backward(op.GetEvents()) {
		if e.GetState() != op.GetState() {
			break
		}
		since = e.GetTime()
	}
	return since
}

// span is a span of time, from since on and earlier than before. Without before it has no end.
type span struct{ since, before time.Time }

// spanOf returns the span between two times of a request, either of which may not be set; nil if neither is.
func spanOf(what string, since, before *timestamppb.Timestamp) (*span, error) {
	if since == nil && before == nil {
		return nil, nil
	}
	s := &span{}
	if since != nil {
		s.since = since.AsTime()
	}
	if before != nil {
		s.before = before.AsTime()
	}
	switch {
	case since.CheckValid() != nil && since != nil:
		return nil, fmt.Errorf("%s_since: not a time: %w", what, since.CheckValid())
	case before.CheckValid() != nil && before != nil:
		return nil, fmt.Errorf("%s_before: not a time: %w", what, before.CheckValid())
	case since != nil && before != nil && !s.since.Before(s.before):
		return nil, errors.New(what + "_since is not earlier than " + what + "_before: no time is between them")
	}
	return s, nil
}

// has reports whether the span has a time; nil has any, another has none that is not set.
func (s *span) has(at *timestamppb.Timestamp) bool {
	if s == nil {
		return true
	}
	return at != nil && !at.AsTime().Before(s.since) && (s.before.IsZero() || at.AsTime().Before(s.before))
}
