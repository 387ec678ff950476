package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
)

// task is one call on its way through the replicas.
type task struct {
	c    *Client
	what string
	// longer is what a try is given besides its share: the call waits for
	// something.
	longer time.Duration
	// settled reports, after a refusal, whether an earlier try has done what was
	// asked for; nil: it never can have.
	settled func(ctx context.Context) bool

	began    time.Time
	tries    int
	unsure   bool
	last     map[string]error
	hopeless map[string]bool
}

func (c *Client) task(what string) *task {
	return &task{c: c, what: what, began: time.Now(), last: make(map[string]error), hopeless: make(map[string]bool)}
}

// run tries until there is an answer, or none can be had.
func (t *task) run(ctx context.Context, try func(ctx context.Context, r *replica) error) error {
	limited, cancel := context.WithTimeout(ctx, t.c.cfg.Deadline)
	defer cancel()
	for {
		address := t.c.book.next()
		attempt, cancel := context.WithTimeout(limited, t.patience())
		err := try(attempt, t.c.at(address))
		cancel()
		if err == nil {
			return nil
		}
		if done, err := t.failed(ctx, limited, address, err); done {
			return err
		}
	}
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
	if !v.again {
		return true, t.refused(ctx, err)
	}
	t.unsure = t.unsure || v.unsure
	t.last[address] = err
	if v.hopeless {
		t.hopeless[address] = true
	} else {
		delete(t.hopeless, address)
	}
	t.c.cfg.Logger.Debug("no answer", "call", t.what, "replica", address, "try", t.tries, "error", err)
	t.c.book.failed(address, v.leader)
	replicas := len(t.c.book.all())
	if len(t.hopeless) == replicas {
		return true, t.unreached(err)
	}
	if err := sleep(limited, pauseBefore(t.tries, replicas, v.after)); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return true, fmt.Errorf("%s: %w", t.what, context.Cause(ctx))
		}
		return true, t.unreached(err)
	}
	return false, nil
}

// refused returns the refusal, unless an earlier try has brought it about.
func (t *task) refused(ctx context.Context, err error) error {
	if t.unsure && t.settled != nil && t.settled(ctx) {
		return nil
	}
	var answer *connect.Error
	if errors.As(err, &answer) {
		return refusal(t.what, answer)
	}
	return fmt.Errorf("%s: %w", t.what, err)
}

func (t *task) unreached(cause error) error {
	return &unreached{what: t.what, took: time.Since(t.began), tries: t.tries, last: t.last, cause: cause}
}

// method is a unary method of a replica.
type method[Req, Res any] func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error)

// call sends req to a method of one replica after the other. The answer is empty
// when the call was settled by an earlier try.
func call[Req, Res any](ctx context.Context, t *task, pick func(*replica) method[Req, Res], req *Req) (*Res, error) {
	answer := new(Res)
	err := t.run(ctx, func(ctx context.Context, r *replica) error {
		res, err := pick(r)(ctx, connect.NewRequest(req))
		if err == nil {
			answer = res.Msg
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}
