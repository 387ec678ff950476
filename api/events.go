package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/messages/apipb"
	"weir/messages/eventpb"
	"weir/raftstore/events"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
)

// Events is the event log of this replica.
type Events interface {
	// Read returns a reader that starts at an index and a position within it. The method
	// Since returns the index of the first event at or after a time. The method Oldest
	// returns the index of the oldest event stored.
	Read(index uint64, position uint32) *events.Reader
	Since(at time.Time) (uint64, error)
	Oldest() uint64
	// WaitCovered waits until all events up to an index can be read.
	WaitCovered(ctx context.Context, index uint64) error
}

// eventLog implements EventService.
type eventLog struct{ *server }

// eventsTogether is the maximum number of events in one message: enough to read a long log
// fast, but few enough to stay below the size limit of messages.
const eventsTogether = 512

// Read streams events, beginning at an index, at a time or at the end of the log.
func (s eventLog) Read(ctx context.Context, req *connect.Request[apipb.ReadEventsRequest], stream *connect.ServerStream[apipb.ReadEventsResponse]) error {
	const what = "read events"
	wanted, err := s.wanted(req.Msg)
	if err != nil {
		return invalid("%s: %v", what, err)
	}
	if err := operations(s).barrier(ctx, what); err != nil {
		return err
	}
	now := s.cfg.Store.Applied()
	if err := s.written(ctx, now); err != nil {
		return s.unavailable(what, err)
	}
	if index := req.Msg.GetIndex(); index > now+1 {
		return invalid("%s: index %d is ahead of the log, whose last index is %d: is it from another cluster?", what, index, now)
	}
	reader, err := s.begin(req.Msg, now)
	if err != nil {
		return s.eventsFailed(what, err)
	}
	defer reader.Close()
	f := &eventFlow{server: s.server, asker: askerOf(ctx), reader: reader, wanted: wanted, send: stream.Send}
	if !req.Msg.GetFollow() {
		f.until = now
	}
	if err := f.run(ctx); err != nil {
		return s.eventsFailed(what, err)
	}
	return nil
}

// written waits until the event log of this replica covers index.
func (s eventLog) written(ctx context.Context, index uint64) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Patience)
	defer cancel()
	return s.cfg.Events.WaitCovered(ctx, index)
}

// begin opens a reader where the request says.
func (s eventLog) begin(m *apipb.ReadEventsRequest, now uint64) (*events.Reader, error) {
	switch {
	case m.GetSince() != nil:
		index, err := s.cfg.Events.Since(m.GetSince().AsTime())
		if err != nil {
			return nil, err
		}
		return s.cfg.Events.Read(index, 0), nil
	case m.GetLatest():
		return s.cfg.Events.Read(now+1, 0), nil
	case m.GetIndex() == 0:
		return s.cfg.Events.Read(s.cfg.Events.Oldest(), 0), nil
	}
	return s.cfg.Events.Read(m.GetIndex(), m.GetPosition()), nil
}

// eventsFailed returns the error for a reader that this replica cannot serve.
func (s eventLog) eventsFailed(what string, err error) error {
	var gone *events.GoneError
	var gap *events.GapError
	switch {
	case errors.As(err, &gone):
		return fail(connect.CodeOutOfRange, apipb.CodeEventsGone,
			"%s: replica %s: %v: continue from there; keep more events with --event-log-size and --event-log-age", what, s.cfg.Replica, err)
	case errors.As(err, &gap):
		return fail(connect.CodeUnavailable, apipb.CodeEventsMissing,
			"%s: replica %s: %v: ask another replica, or continue from index %d", what, s.cfg.Replica, err, gap.To+1)
	}
	return s.unavailable(what, err)
}

// eventFlow sends events to one reader.
type eventFlow struct {
	*server
	asker  *asking
	reader *events.Reader
	wanted eventFilter
	send   func(*apipb.ReadEventsResponse) error
	// until is the last index to send; 0 if there is no last one.
	until uint64

	// gathered are the events still to be sent. All wanted events before next are sent
	// or gathered.
	gathered []*eventpb.Event
	next     uint64
	// sent is the time of the last message to the client. The field told is the next index
	// that this message stated.
	sent time.Time
	told uint64
}

// run sends events until f.until is reached, ctx is done, or reading or sending fails.
func (f *eventFlow) run(ctx context.Context) error {
	for {
		told, through, more, err := f.reader.Next()
		if err != nil {
			if len(f.gathered) > 0 || f.next > f.told {
				// The events before the error are complete.
				err = errors.Join(f.flush(false), err)
			}
			return err
		}
		f.next = max(f.next, through+1)
		past := f.until != 0 && through >= f.until
		for _, e := range told {
			if f.until != 0 && e.GetIndex() > f.until {
				break
			}
			if f.wanted.takes(e) {
				f.gathered = append(f.gathered, e)
			}
		}
		switch {
		case past:
			f.next = f.until + 1
			return f.flush(true)
		case more != nil:
			if err := f.wait(ctx, more); err != nil {
				return err
			}
		case len(f.gathered) >= eventsTogether || time.Since(f.sent) >= f.cfg.Limits.KeepAlive:
			if err := f.flush(false); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// wait sends the gathered events and returns when there may be more. Without new events it
// sends a keepalive after Limits.KeepAlive.
func (f *eventFlow) wait(ctx context.Context, more <-chan struct{}) error {
	if len(f.gathered) > 0 || f.sent.IsZero() || time.Since(f.sent) >= f.cfg.Limits.KeepAlive {
		if err := f.flush(false); err != nil {
			return err
		}
	}
	quiet := time.NewTimer(max(f.cfg.Limits.KeepAlive-time.Since(f.sent), 0))
	defer quiet.Stop()
	f.asker.turn.rest()
	select {
	case <-more:
		return f.asker.turn.take()
	case <-quiet.C:
		if err := f.asker.turn.take(); err != nil {
			return err
		}
		return f.flush(false)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush sends the gathered events, or a message with only the next index if there are none.
func (f *eventFlow) flush(end bool) error {
	for {
		n := min(len(f.gathered), eventsTogether)
		next := f.next
		rest := f.gathered[n:]
		if len(rest) > 0 {
			next = rest[0].GetIndex()
		}
		shown, hidden := f.cut(f.gathered[:n])
		part := &apipb.ReadEventsResponse{Events: shown, Hidden: hidden, NextIndex: next, Replica: f.cfg.Replica, End: end && len(rest) == 0}
		if err := f.send(part); err != nil {
			return fmt.Errorf("the client has not read events for %v or is gone; it can continue from index %d: %w", f.cfg.Limits.Stall, next, err)
		}
		f.gathered = rest
		if len(rest) == 0 {
			break
		}
	}
	f.gathered, f.sent, f.told = nil, time.Now(), f.next
	return nil
}

// cut returns events as the caller may see them, and how many are not shown in full: events of
// operations that the caller may not read.
func (f *eventFlow) cut(told []*eventpb.Event) (shown []*eventpb.Event, hidden int32) {
	readable := make(map[string]bool)
	f.cfg.Store.View(func(st *state.State) {
		seen := f.asker.sight(st)
		for _, e := range told {
			if _, known := readable[e.GetOperation()]; known || e.GetOperation() == "" {
				continue
			}
			if op, ok := state.Head(st, scheduling.OperationID(e.GetOperation())); ok {
				readable[e.GetOperation()] = seen.reads(op)
				continue
			}
			// It is not archived any more, its tree may be gone too, and somebody else may have made a pool
			// with the name of its own since.
			_, _, known := st.Pools(scheduling.TreeName(e.GetTree()))
			missing := seen.Pool(seen.who, access.Read, scheduling.TreeName(e.GetTree()), scheduling.RootPool, "see the events")
			readable[e.GetOperation()] = seen.who.Operator || known && missing == nil
		}
	})
	shown = slices.Clone(told)
	for i, e := range shown {
		if profile := e.GetAttributes()["profile"]; e.GetKind() == events.ProfileRemoved && !f.asker.ownsProfile(profile) {
			hidden++
			shown[i] = &eventpb.Event{Index: e.GetIndex(), Position: e.GetPosition(), Time: e.GetTime(), Kind: e.GetKind(), User: e.GetUser()}
		}
		if e.GetOperation() != "" && !readable[e.GetOperation()] {
			hidden++
			shown[i] = &eventpb.Event{
				Index: e.GetIndex(), Position: e.GetPosition(), Time: e.GetTime(), Kind: e.GetKind(), Operation: e.GetOperation(), Tree: e.GetTree(), Pool: e.GetPool(),
				Places: e.GetPlaces(), Node: e.GetNode(), Resources: e.GetResources(), From: e.GetFrom(), To: e.GetTo(), Reason: e.GetReason(),
				User: e.GetUser(), Interruption: e.GetInterruption(), Preemption: e.GetPreemption(), PreemptedFor: beneficiaryOf(e), RunSeconds: e.GetRunSeconds(),
				Replica: e.GetReplica(), Term: e.GetTerm(), Epoch: e.GetEpoch(),
			}
		}
	}
	return shown, hidden
}

// ownsProfile reports whether a memory profile is one of the caller's, or the caller is an operator.
func (a *asking) ownsProfile(key string) bool {
	return a.Role == identity.Operator || strings.HasPrefix(key, a.Name+":")
}

// beneficiaryOf returns for which operation a job is preempted, without the name of its task.
func beneficiaryOf(e *eventpb.Event) *eventpb.Beneficiary {
	if e.GetPreemptedFor() == nil {
		return nil
	}
	return &eventpb.Beneficiary{Operation: e.GetPreemptedFor().GetOperation(), Resources: e.GetPreemptedFor().GetResources()}
}

// eventFilter selects events; an empty field matches all.
type eventFilter struct {
	operation, tree, pool, node string
	// kinds are names of kinds, or prefixes followed by *.
	kinds []string
}

// wanted reads the filter of a request.
func (s eventLog) wanted(m *apipb.ReadEventsRequest) (eventFilter, error) {
	f := eventFilter{operation: m.GetOperation(), tree: m.GetTree(), pool: m.GetPool(), node: m.GetNode(), kinds: m.GetKinds()}
	places := 0
	for _, given := range []bool{m.GetIndex() != 0 || m.GetPosition() != 0, m.GetSince() != nil, m.GetLatest()} {
		if given {
			places++
		}
	}
	if places > 1 {
		return f, errors.New("give only one of index, since and latest")
	}
	if m.GetSince() != nil && m.GetSince().CheckValid() != nil {
		return f, errors.New("since: not a time")
	}
	known := events.Kinds()
	for _, kind := range m.GetKinds() {
		if !slices.ContainsFunc(known, func(k string) bool { return isKind(k, kind) }) {
			return f, fmt.Errorf("kind %q: unknown: must be one of %s, or a prefix followed by *", kind, strings.Join(known, ", "))
		}
	}
	s.cfg.Store.View(func(st *state.State) {
		// An id that the state no longer has may still have events.
		if op, ok := st.OperationByAlias(f.operation); ok {
			f.operation = op.GetId()
		}
	})
	return f, nil
}

// takes reports whether an event is wanted. The events of an operation include those of its
// jobs and of the jobs that were preempted for it.
func (f eventFilter) takes(e *eventpb.Event) bool {
	if f.operation != "" && e.GetOperation() != f.operation && e.GetPreemptedFor().GetOperation() != f.operation {
		return false
	}
	if f.node != "" && e.GetNode() != f.node {
		return false
	}
	if (f.tree != "" || f.pool != "") && !f.takesPlace(e) {
		return false
	}
	return len(f.kinds) == 0 || slices.ContainsFunc(f.kinds, func(wanted string) bool { return isKind(e.GetKind(), wanted) })
}

// isKind reports whether a kind equals wanted. If wanted ends in *, any kind that begins with the
// text before the * matches.
func isKind(kind, wanted string) bool {
	prefix, isPrefix := strings.CutSuffix(wanted, "*")
	return kind == wanted || isPrefix && strings.HasPrefix(kind, prefix)
}

func (f eventFilter) takesPlace(e *eventpb.Event) bool {
	is := func(tree, pool string) bool {
		return (f.tree == "" || tree == f.tree) && (f.pool == "" || pool == f.pool)
	}
	return is(e.GetTree(), e.GetPool()) || slices.ContainsFunc(e.GetPlaces(), func(p *eventpb.Place) bool { return is(p.GetTree(), p.GetPool()) })
}
