package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
)

// errStopped ends a watch that its reader has left.
var errStopped = errors.New("stopped")

// WatchOperation yields the operation now and whenever it has changed, until it
// has ended. It goes on at another replica when one is lost; states that it had
// meanwhile are left out. An error is the last thing that it yields.
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

// run watches at one replica after the other. The deadline of the client counts
// from the last thing that was heard.
func (w *watch) run(ctx context.Context) error {
	t := w.c.task("watch operation")
	for {
		address := w.c.book.next()
		heard, err := w.at(ctx, w.c.at(address))
		switch {
		case errors.Is(err, errStopped) || err == nil && w.last != nil && ended(w.last):
			return err
		case err == nil:
			err = connect.NewError(connect.CodeUnavailable, errors.New("the replica closed the stream"))
		}
		if heard {
			t = w.c.task("watch operation")
		}
		limited, cancel := context.WithDeadline(ctx, t.began.Add(w.c.cfg.Deadline))
		done, err := t.failed(ctx, limited, address, err)
		cancel()
		if done {
			return err
		}
	}
}

// at watches at one replica, until the stream ends or is silent for too long.
func (w *watch) at(ctx context.Context, r *replica) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(streamSilence, func() { cancel(fmt.Errorf("nothing was heard for %s", streamSilence)) })
	defer silence.Stop()
	stream, err := r.operations.Watch(ctx, connect.NewRequest(&apipb.WatchOperationRequest{Operation: w.operation}))
	if err != nil {
		return false, err
	}
	defer stream.Close()
	for stream.Receive() {
		silence.Reset(streamSilence)
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
	return heard, stream.Err()
}
