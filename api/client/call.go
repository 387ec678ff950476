package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
)

// task is one call on its way through the replicas.
type task struct {
	c    *caller
	what string
	// longer is what a try is given besides its share: the call waits for
	// something.
	longer time.Duration
	// settled reports, after a refusal, whether an earlier try has done what was
	// asked for; nil: it never can have.
	settled func(ctx context.Context) bool

	// lasting: only the caller's context ends the call, and too long an outage.
	lasting bool
	// anyone: no replica is better than another.
	anyone bool

	began, warned time.Time
	tries         int
	unsure        bool
	tried         []Try
	hopeless      map[string]bool
}

func (c *caller) task(what string) *task {
	now := time.Now()
	return &task{c: c, what: what, began: now, warned: now, hopeless: make(map[string]bool)}
}

// run tries until there is an answer, or none can be had.
func (t *task) run(ctx context.Context, try func(ctx context.Context, r replica) error) error {
	limited, cancel := t.limit(ctx)
	defer cancel()
	last := ""
	for {
		address := t.c.book.next(last, t.anyone)
		last = address
		attempt, cancel := context.WithTimeout(limited, t.patience())
		err := try(attempt, t.c.at(address))
		cancel()
		if err == nil {
			t.c.book.answered(address)
			return nil
		}
		if done, err := t.failed(ctx, limited, address, err); done {
			return err
		}
	}
}

// limit returns the context that bounds the call with all its tries.
func (t *task) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.lasting {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, t.began.Add(t.c.cfg.Deadline))
}

// patience returns how long the next try may take.
func (t *task) patience() time.Duration {
	round := t.tries / max(len(t.c.book.all()), 1)
	return t.longer + min(t.c.cfg.Try<<min(round, 10), t.c.cfg.MaxTry)
}

// failed decides about a try without success: it returns done and the call's
// error, or returns when it is time for the next try.
func (t *task) failed(ctx, limited context.Context, address string, err error) (done bool, _ error) {
	t.tries++
	if errors.Is(ctx.Err(), context.Canceled) {
		return true, fmt.Errorf("%s: %w", t.what, context.Cause(ctx))
	}
	v := judge(err)
	if v.again && t.lasting && ctx.Err() != nil && len(t.tried) == 0 {
		// The cluster was there, what was waited for was not.
		return true, fmt.Errorf("%s: %w", t.what, context.Cause(ctx))
	}
	if !v.again {
		t.c.book.answered(address)
		return true, t.refused(ctx, address, err)
	}
	t.unsure = t.unsure || v.unsure
	t.note(address, err, limited.Err() != nil)
	if v.hopeless {
		t.hopeless[address] = true
	} else {
		delete(t.hopeless, address)
	}
	t.c.cfg.Logger.Debug("no answer", "call", t.what, "replica", address, "try", t.tries, "error", err)
	t.c.book.failed(address, v.leader, v.silent)
	replicas := len(t.c.book.all())
	if len(t.hopeless) == replicas {
		if metaCode(err) == apipb.CodeEventsMissing {
			return true, t.refused(ctx, address, err)
		}
		return true, t.unreached()
	}
	if t.c.cfg.Trying != nil && limited.Err() == nil && time.Since(t.began) >= t.c.cfg.TryingAfter {
		t.c.told.Do(func() { t.c.cfg.Trying(address + ": " + reason(err)) })
	}
	if t.lasting && t.c.cfg.Outage > 0 && time.Since(t.began) >= t.c.cfg.Outage {
		return true, t.unreached()
	}
	if t.lasting && time.Since(t.warned) >= t.c.cfg.Deadline {
		t.warned = time.Now()
		t.c.cfg.Logger.Warn("no replica responding; retrying", "error", t.unreached())
	}
	if err := sleep(limited, pauseBefore(t.tries, replicas, v.after)); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return true, fmt.Errorf("%s: %w", t.what, context.Cause(ctx))
		}
		return true, t.unreached()
	}
	return false, nil
}

// note keeps why a try failed. When it was cut short by the end of the call, what
// was known before says more.
func (t *task) note(address string, err error, cut bool) {
	i := slices.IndexFunc(t.tried, func(try Try) bool { return try.Address == address })
	switch {
	case i < 0:
		t.tried = append(t.tried, Try{Address: address, Count: 1, Err: err})
	case cut:
	default:
		t.tried[i].Count++
		t.tried[i].Err = err
	}
}

// refused returns the refusal, unless an earlier try has brought it about.
func (t *task) refused(ctx context.Context, address string, err error) error {
	if t.unsure && t.settled != nil && t.settled(ctx) {
		return nil
	}
	var answer *connect.Error
	if errors.As(err, &answer) {
		return refusal(t.what, address, answer)
	}
	return fmt.Errorf("%s: %w", t.what, err)
}

// settledBy has a call count as done when, after a refusal, what get returns of a name is as
// wanted. That is what is seen then.
func settledBy[T any](t *task, get func(context.Context, string) (T, error), name string, wanted func(T) bool) (_ *task, seen *T) {
	seen = new(T)
	t.settled = func(ctx context.Context) bool {
		now, err := get(ctx, name)
		if err != nil || !wanted(now) {
			return false
		}
		*seen = now
		return true
	}
	return t, seen
}

func (t *task) unreached() error {
	return &UnreachableError{What: t.what, Tried: t.tried, Elapsed: time.Since(t.began), Unsure: t.unsure && t.settled != nil}
}

// method is a unary method of a service.
type method[S, Req, Res any] func(S, context.Context, *connect.Request[Req]) (*connect.Response[Res], error)

// do is call for an answer that says nothing.
func do[S, Req, Res any](ctx context.Context, t *task, of method[S, Req, Res], req *Req) error {
	_, err := call(ctx, t, of, req)
	return err
}

// call sends req to a method of one replica after the other. The answer is empty
// when the call was settled by an earlier try.
func call[S, Req, Res any](ctx context.Context, t *task, of method[S, Req, Res], req *Req) (*Res, error) {
	if message, ok := any(req).(proto.Message); ok {
		// What cannot be sent would look like a broken connection.
		if _, err := proto.Marshal(message); err != nil {
			return nil, &Error{What: t.what, Code: apipb.CodeInvalidArgument, Kind: connect.CodeInvalidArgument, Message: err.Error()}
		}
	}
	answer := new(Res)
	err := t.run(ctx, func(ctx context.Context, r replica) error {
		res, err := of(service[S](r), ctx, connect.NewRequest(req))
		if err != nil {
			return err
		}
		t.c.book.leads(res.Header().Get(apipb.HeaderLeader))
		answer = res.Msg
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}
