package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
)

// errStopped ends a watch that its reader has left.
var errStopped = errors.New("stopped")

// WatchOperation yields the operation now and whenever it has changed, until it
// has ended. It goes on at another replica when one is lost, as WaitOperation does;
// states that it had meanwhile are left out. An error is the last thing that it yields.
func (c *Client) WatchOperation(ctx context.Context, operation string) iter.Seq2[*apipb.Operation, error] {
	return func(yield func(*apipb.Operation, error) bool) {
		w := &watch{c: c, operation: operation, yield: yield}
		switch err := w.run(ctx); {
		case err == nil, errors.Is(err, errStopped):
		default:
			yield(nil, err)
		}
	}
}

type watch struct {
	c         *Client
	operation string
	yield     func(*apipb.Operation, error) bool
	last      *apipb.Operation
}

func (w *watch) task() *task {
	t := w.c.task("watch operation")
	t.lasting = true
	return t
}

// run watches at one replica after the other.
func (w *watch) run(ctx context.Context) error {
	t, last := w.task(), ""
	for {
		address := w.c.book.next(last, false)
		last = address
		heard, err := w.at(ctx, address, t.patience())
		switch {
		case errors.Is(err, errStopped) || err == nil && w.last != nil && ended(w.last):
			return err
		case err == nil:
			err = connect.NewError(connect.CodeUnavailable, errors.New("the replica closed the stream"))
		}
		if heard {
			t = w.task()
		}
		if done, err := t.failed(ctx, ctx, address, err); done {
			return err
		}
	}
}

// at watches at one replica, until the stream ends. What is there at first must be
// heard within patience; after that nothing may happen for long, and it is the
// connection's pings that find a dead peer.
func (w *watch) at(ctx context.Context, address string, patience time.Duration) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(context.DeadlineExceeded) })
	defer silence.Stop()
	stream, err := w.c.at(address).operations.Watch(ctx, connect.NewRequest(&apipb.WatchOperationRequest{Operation: w.operation}))
	if err != nil {
		return false, overdue(ctx, err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		if !heard {
			silence.Stop()
			w.c.book.answered(address)
			w.c.book.leads(stream.ResponseHeader().Get(apipb.HeaderLeader))
		}
		op := stream.Msg().GetOperation()
		heard = true
		// An alias may go on to another operation.
		w.operation = op.GetId()
		if w.last == nil || !proto.Equal(w.last, op) {
			w.last = proto.CloneOf(op)
			if !w.yield(op, nil) {
				return true, errStopped
			}
		}
		if ended(op) {
			return true, nil
		}
	}
	return heard, overdue(ctx, stream.Err())
}

// overdue returns the error of a stream whose patience ran out, which looks like a
// cancellation by the caller.
func overdue(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	}
	return err
}
