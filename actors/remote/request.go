package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/messages/remotepb"
)

// Send sends message, a proto.Message, to the actor that peer has published by
// name. It returns nil once the message is queued; it may still be lost.
func (r *Remote) Send(peer, name string, message any) error {
	s, payload, err := r.prepare(peer, name, message)
	if err == nil {
		err = s.enqueue(&remotepb.Frame{Kind: &remotepb.Frame_Send{Send: &remotepb.Send{To: name, Payload: payload}}}, payload)
	}
	if err != nil {
		r.counters.drop(reasonOf(err), 1)
		return fmt.Errorf("send to %s of %s: %w", name, peer, err)
	}
	return nil
}

// Request sends message to the actor that peer has published by name and waits
// for the reply. An actor must not call it in Receive, which it would block.
func (r *Remote) Request(ctx context.Context, peer, name string, message proto.Message) (proto.Message, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(r.limits.RequestTimeout)
	}
	type outcome struct {
		reply proto.Message
		err   error
	}
	answered := make(chan outcome, 1)
	giveUp, err := r.request(peer, name, message, deadline, func(reply proto.Message, err error) { answered <- outcome{reply, err} })
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { giveUp(causeOf(ctx)) })
	defer stop()
	got := <-answered
	return got.reply, got.err
}

// causeOf returns why ctx is done, as an error of this package if it timed out.
func causeOf(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrTimeout
	}
	return ctx.Err()
}

// RequestAsync sends message to the actor that peer has published by name and
// calls done once, with the reply or an error, after timeout at the latest.
// done may be called before RequestAsync returns, and from any goroutine. It
// must not block; in an actor it should just send the actor a message.
func (r *Remote) RequestAsync(peer, name string, message proto.Message, timeout time.Duration, done func(reply proto.Message, err error)) {
	if _, err := r.request(peer, name, message, time.Now().Add(timeout), done); err != nil {
		done(nil, err)
	}
}

// request calls done once, unless it returns an error. giveUp calls done with an error at once,
// unless done has already been called.
func (r *Remote) request(peer, name string, message proto.Message, deadline time.Time, done func(proto.Message, error)) (giveUp func(error), err error) {
	failed := func(err error) error { return fmt.Errorf("request to %s of %s: %w", name, peer, err) }
	s, payload, err := r.prepare(peer, name, message)
	var id uint64
	if err == nil {
		id, err = s.request(name, payload, deadline, func(reply proto.Message, err error) {
			if err != nil {
				err = failed(err)
			}
			done(reply, err)
		})
	}
	if err != nil {
		r.counters.drop(reasonOf(err), 1)
		return nil, failed(err)
	}
	return func(err error) { s.answer(id, nil, err) }, nil
}

// prepare finds the stream to peer and encodes message for it.
func (r *Remote) prepare(peer, name string, message any) (*session, *anypb.Any, error) {
	s := r.stream(peer)
	if s == nil {
		return nil, nil, r.noStream(peer)
	}
	if len(name) > maxName {
		return nil, nil, fmt.Errorf("%w: the limit of a name is %d bytes, but this one has %d", ErrNotFound, maxName, len(name))
	}
	payload, err := encode(message, min(s.peer.maxMessageBytes, r.limits.MaxMessageBytes))
	return s, payload, err
}

// noStream returns why there is no stream to peer.
func (r *Remote) noStream(peer string) error {
	if peer == r.self {
		return fmt.Errorf("%w: %s is this process: use the actor's own PID", ErrNotConnected, peer)
	}
	if _, _, err := ParsePeer(peer); err != nil {
		return fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	return ErrNotConnected
}

// reasonOf returns the reason under which an error of this side is counted.
func reasonOf(err error) dropped {
	switch k := kindOf(err); {
	case errors.Is(err, ErrNotConnected):
		return notConnected
	case k.err == nil || errors.Is(err, ErrMalformed):
		return notSendable
	default:
		return k.counted
	}
}
