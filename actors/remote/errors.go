package remote

import (
	"errors"
	"fmt"

	"weir/messages/remotepb"
)

var (
	// ErrNotConnected is returned when there is no stream to the peer now.
	ErrNotConnected = errors.New("not connected")
	// ErrNotFound is returned when the peer has no live actor of that name.
	ErrNotFound = errors.New("no such actor")
	// ErrQueueFull is returned when the queue to the peer, the table of open
	// requests, or the inbox of the peer's actor is at its limit.
	ErrQueueFull = errors.New("queue full")
	// ErrTimeout is returned when a reply did not come in time.
	ErrTimeout = errors.New("no reply in time")
	// ErrPeerGone is returned when the stream to the peer ended before the reply
	// came. Whether the peer received the request is not known.
	ErrPeerGone = errors.New("peer gone")
	// ErrTooLarge is returned when a message or its reply is larger than
	// Limits.MaxMessageBytes of the side that would receive it.
	ErrTooLarge = errors.New("message too large")
	// ErrUnknownType is returned when a side does not know a message's type.
	ErrUnknownType = errors.New("unknown message type")
	// ErrMalformed is returned when a side cannot decode a message.
	ErrMalformed = errors.New("malformed message")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("remote is closed")
)

// ErrRefused is returned when either side rejects a stream, when the addressed actor is not
// published for the sender's role, and when an actor responds with an error.
type ErrRefused struct {
	// Reason is for people.
	Reason string
	byPeer bool
}

// Error implements error.
func (e *ErrRefused) Error() string { return "refused: " + e.Reason }

func refusef(format string, args ...any) *ErrRefused {
	return &ErrRefused{Reason: fmt.Sprintf(format, args...)}
}

// kinds maps the code of a Failure to the error that the requesting side returns, and
// to the reason that the failing side counts.
var kinds = []kind{
	{ErrNotFound, remotepb.Failure_CODE_NOT_FOUND, notFound},
	{ErrUnknownType, remotepb.Failure_CODE_UNKNOWN_TYPE, unknownType},
	{ErrMalformed, remotepb.Failure_CODE_MALFORMED, malformed},
	{ErrTooLarge, remotepb.Failure_CODE_TOO_LARGE, tooLarge},
	{ErrQueueFull, remotepb.Failure_CODE_QUEUE_FULL, queueFull},
}

type kind struct {
	err     error
	code    remotepb.Failure_Code
	counted dropped
}

// kindOf returns the kind of err, which is a refusal if no other kind fits.
func kindOf(err error) kind {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k
		}
	}
	return kind{code: remotepb.Failure_CODE_REFUSED, counted: roleRefused}
}

// errorOf converts f to an error. An unknown code, from a newer peer, becomes a refusal.
func errorOf(f *remotepb.Failure) error {
	for _, k := range kinds {
		if k.code == f.GetCode() {
			return fmt.Errorf("%w: %s", k.err, f.GetDetail())
		}
	}
	return &ErrRefused{Reason: f.GetDetail()}
}
