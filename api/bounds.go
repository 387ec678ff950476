package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	limits "weir/messages/bounds"
	"weir/raftstore"
	"weir/scheduling/access"
)

// bounds is an interceptor that bounds the texts of each request, sets a deadline for each call,
// adds the leader's address to its answer, and reports its end to Config.Observe.
type bounds struct{ server *server }

// maxReserve bounds the part of a client's time that is reserved for sending the answer.
const maxReserve = 100 * time.Millisecond

// limit gives a call at most Limits.Patience, and less time than the client allows, so that an error
// reaches the client before the client's own deadline. Calls that wait are bounded only by the
// client's deadline.
func (b bounds) limit(ctx context.Context, procedure string) (context.Context, context.CancelFunc) {
	limit := b.server.cfg.Limits.Patience
	deadline, stated := ctx.Deadline()
	if stated {
		left := time.Until(deadline)
		if left -= min(left/8, maxReserve); waits[procedure] || left < limit {
			limit = left
		}
	} else if waits[procedure] {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// WrapUnary implements connect.Interceptor.
func (b bounds) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (answer connect.AnyResponse, err error) {
		began := time.Now()
		defer func() { b.server.observe(req.Spec().Procedure, err, began) }()
		ctx, cancel := b.limit(ctx, req.Spec().Procedure)
		defer cancel()
		defer context.AfterFunc(b.server.closing, cancel)()
		if err := withinBounds(req.Spec().Procedure, req.Any()); err != nil {
			return nil, err
		}
		restIfSlow(ctx, req.Spec().Procedure)
		answer, err = next(ctx, req)
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled) && b.server.closing.Err() != nil:
			// The handler was not called any more.
			return nil, b.server.unavailable(strings.TrimPrefix(req.Spec().Procedure, servicePrefix), err)
		default:
			return nil, err
		}
		if err := b.server.readable(req.Spec().Procedure, answer.Any()); err != nil {
			return nil, err
		}
		b.server.hint(answer.Header().Set)
		return answer, nil
	}
}

// WrapStreamingClient implements connect.Interceptor; a server has no use for it.
func (b bounds) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (b bounds) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		began := time.Now()
		defer func() { b.server.observe(conn.Spec().Procedure, err, began) }()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(b.server.closing, cancel)()
		b.server.hint(conn.ResponseHeader().Set)
		restIfSlow(ctx, conn.Spec().Procedure)
		return next(ctx, boundedConn{conn, ctx, b.server})
	}
}

// turn is the right of a call to compute: to decode its request, to read the state, to encode its
// answer. Few calls have it at once, and users get it in turns. Whatever else a call does, waiting for
// the leader, for a change or for its client, it does at rest. A nil turn is without effect.
type turn struct {
	door *door
	of   subject
	// fewest is into how many shares the time is divided at least in which calls of this kind compute.
	fewest int
	// ctx is done when the client has gone. Parts of a call may have less time.
	ctx context.Context

	mu   sync.Mutex
	held *ticket
}

// fewestOf returns turn.fewest of a call. With places for two, a user whose calls wait and change something has one of
// them for half of the time, so that a burst of submissions goes on; if they only read, for a sixteenth. The calls of
// others take hardly longer then, also where several replicas share two processors.
func fewestOf(procedure string) int {
	switch rightTo(procedure) {
	case "", string(access.Read):
		return 32
	default:
		return 4
	}
}

// errNoTurn is raftstore.ErrOverloaded of a call that gets no turn. Such a call ends, also where it could do
// without what it has waited for.
var errNoTurn = fmt.Errorf("%w", raftstore.ErrOverloaded)

// take waits until the call may compute. It returns errNoTurn if that takes too long, or the client has gone.
func (t *turn) take() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = t.door.turns.enter(t.ctx, t.of)
	}
	switch {
	case t.held != nil:
		return nil
	case t.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errNoTurn, context.Cause(t.ctx))
	default:
		return fmt.Errorf("%w: %s", errNoTurn, t.door.crowded(t.door.turns, t.of))
	}
}

// rest lets other calls compute.
func (t *turn) rest() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held != nil {
		t.door.turns.spend(t.held, t.fewest)
		t.held = nil
	}
}

// resting lets other calls compute while `wait` runs. Its error is errNoTurn if the call may not compute
// after that, else that of wait.
func resting[T any](ctx context.Context, wait func() (T, error)) (T, error) {
	mine := askerOf(ctx).turn
	mine.rest()
	got, err := wait()
	if crowded := mine.take(); crowded != nil {
		return got, crowded
	}
	return got, err
}

// away makes a request of the call of ctx to the leader, once it has a place at `at`. Meanwhile other calls
// compute.
func away[T any](ctx context.Context, d *door, at *entrance, request func() (T, error)) (T, error) {
	return resting(ctx, func() (answer T, err error) {
		of := subjectOf(askerOf(ctx).Identity)
		t := at.enter(ctx, of)
		if t == nil {
			return answer, fmt.Errorf("%w: %s", raftstore.ErrOverloaded, d.crowded(at, of))
		}
		defer at.leave(t)
		return request()
	})
}

// restIfSlow gives the turn of a call back if it is for operators or replicas only: these are few, and wait for
// raft or read files.
func restIfSlow(ctx context.Context, procedure string) {
	if needs[procedure] == operatorsOnly || needs[procedure] == replicasOnly {
		askerOf(ctx).turn.rest()
	}
}

// boundedConn is a stream whose request is within its bounds, and whose answers are made in turns.
type boundedConn struct {
	connect.StreamingHandlerConn
	ctx    context.Context
	server *server
}

// Send implements connect.StreamingHandlerConn.
func (c boundedConn) Send(message any) error {
	if err := c.server.readable(c.Spec().Procedure, message); err != nil {
		return err
	}
	what := strings.TrimPrefix(c.Spec().Procedure, servicePrefix)
	mine := askerOf(c.ctx).turn
	if err := mine.take(); err != nil {
		return c.server.unavailable(what, err)
	}
	if err := c.StreamingHandlerConn.Send(message); err != nil || needs[c.Spec().Procedure] == operatorsOnly {
		return err
	}
	// It is at rest since the first byte was sent.
	if err := mine.take(); err != nil {
		return c.server.unavailable(what, err)
	}
	return nil
}

// Receive implements connect.StreamingHandlerConn.
func (c boundedConn) Receive(request any) error {
	if err := c.StreamingHandlerConn.Receive(request); err != nil {
		return err
	}
	return withinBounds(c.Spec().Procedure, request)
}

// readable returns an error if an answer has more bytes than clients read: a third more than
// Limits.AnswerBytes. Lists come in parts, so that none has; what has no parts is refused.
func (s *server) readable(procedure string, message any) error {
	msg, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	if size, limit := proto.Size(msg), s.cfg.Limits.AnswerBytes/3*4; size > limit {
		return fail(connect.CodeResourceExhausted, apipb.CodeAnswerTooLarge, "%s: the answer has %s, and clients read %s at most: ask for a part of it",
			strings.TrimPrefix(procedure, servicePrefix), limits.Text(int64(size)), limits.Text(int64(limit)))
	}
	return nil
}

// withinBounds returns an error if a text of a request has more bytes than package bounds allows.
func withinBounds(procedure string, request any) error {
	msg, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	if err := limits.Check(msg); err != nil {
		return invalid("%s: %v", procedure[strings.LastIndex(procedure, ".")+1:], err)
	}
	return nil
}
