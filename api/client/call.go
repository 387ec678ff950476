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

// task is one call with all its tries.
type task struct {
	c    *caller
	what string
	// longer is added to the time of each try, for calls that wait for something.
	longer time.Duration
	// settled reports, after a refusal, whether an earlier try has already made the
	// change; nil for calls without such a check.
	settled func(ctx context.Context) bool

	// lasting says that only the caller's context and Config.Outage bound the call.
	lasting bool
	// anyone says that any replica will do; the leader is not preferred.
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

// run tries replicas until one answers, or the call fails.
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

// failed handles a failed try. If the call is over it returns true and the call's result, which is
// nil if an earlier try had succeeded. If not, it waits until the next try is due.
func (t *task) failed(ctx, limited context.Context, address string, err error) (done bool, _ error) {
	t.tries++
	if errors.Is(ctx.Err(), context.Canceled) {
		return true, fmt.Errorf("%s: %w", t.what, context.Cause(ctx))
	}
	v := judge(err)
	if v.again && t.lasting && ctx.Err() != nil && len(t.tried) == 0 {
		// The cluster answered; the event that the call waits for did not happen in time.
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
		if metaCode(err) == apipb.CodeEventsMissing || connect.CodeOf(err) == connect.CodeUnimplemented {
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

// note records why a try failed. The parameter cut says that the try failed only because the call
// ended. Its error then does not replace an earlier error of the same replica, which says more.
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

// refused returns the refusal as an error, or nil if an earlier try has made the change.
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

// settledBy sets t.settled: after a refusal, the call counts as done if `get` returns an object for
// which `wanted` is true. *seen is then that object; before that it is the zero value.
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

// do is like call, but returns no answer.
func do[S, Req, Res any](ctx context.Context, t *task, of method[S, Req, Res], req *Req) error {
	_, err := call(ctx, t, of, req)
	return err
}

// call sends req to one replica after the other until one answers. The answer is empty if the last
// try was refused because an earlier one had already made the change.
func call[S, Req, Res any](ctx context.Context, t *task, of method[S, Req, Res], req *Req) (*Res, error) {
	if message, ok := any(req).(proto.Message); ok {
		// A message that cannot be encoded would look like a broken connection.
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
