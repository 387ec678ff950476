package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// WatchOperation yields the operation now and at every change, until it has ended. If a
// replica fails it continues at another one, as WaitOperation does; it may then skip
// changes. An error is the last thing that it yields.
func (c *Client) WatchOperation(ctx context.Context, operation string) iter.Seq2[*apipb.Operation, error] {
	return func(yield func(*apipb.Operation, error) bool) {
		var last *apipb.Operation
		w := &watch[apipb.WatchOperationResponse]{c: c, what: "watch operation"}
		w.open = func(ctx context.Context, r replica) (*connect.ServerStreamForClient[apipb.WatchOperationResponse], error) {
			return service[apipbconnect.OperationServiceClient](r).Watch(ctx, connect.NewRequest(&apipb.WatchOperationRequest{Operation: operation}))
		}
		w.take = func(m *apipb.WatchOperationResponse) (over bool, err error) {
			op := m.GetOperation()
			// Continue by id: the alias may pass to another operation.
			operation = op.GetId()
			if last != nil && proto.Equal(last, op) {
				return ended(op), nil
			}
			last = proto.CloneOf(op)
			return !yield(op, nil) || ended(op), nil
		}
		if err := w.run(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// watch reads a stream of changes, at one replica after another.
type watch[T any] struct {
	c    *Client
	what string
	// open starts the stream at a replica. The function take handles a message and reports whether
	// the watch is over. If it is not over, an error from take ends only the stream.
	open func(ctx context.Context, r replica) (*connect.ServerStreamForClient[T], error)
	take func(*T) (over bool, err error)
}

func (w *watch[T]) task() *task {
	t := w.c.task(w.what)
	t.lasting = true
	return t
}

// run reads streams from one replica after another, until the watch is over.
func (w *watch[T]) run(ctx context.Context) error {
	t, last := w.task(), ""
	for {
		address := w.c.book.next(last, false)
		last = address
		heard, over, err := w.at(ctx, address, t.patience())
		switch {
		case over:
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

// at reads the stream of one replica until the stream ends. The first message must arrive within
// patience. After that the stream may be silent for long; the pings of the connection detect
// a dead replica.
func (w *watch[T]) at(ctx context.Context, address string, patience time.Duration) (heard, over bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(context.DeadlineExceeded) })
	defer silence.Stop()
	stream, err := w.open(ctx, w.c.at(address))
	if err != nil {
		return false, false, overdue(ctx, err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		if !heard {
			if !silence.Stop() { // Patience ran out; the next replica takes over.
				return false, false, connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
			}
			w.c.book.answered(address)
			w.c.book.leads(stream.ResponseHeader().Get(apipb.HeaderLeader))
		}
		heard = true
		if over, err = w.take(stream.Msg()); over || err != nil {
			return true, over, err
		}
	}
	return heard, false, overdue(ctx, stream.Err())
}

// overdue returns the error of a stream whose patience ran out, which looks like a
// cancellation by the caller.
func overdue(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	}
	return err
}
