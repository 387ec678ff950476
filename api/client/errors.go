package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
)

// ErrUnreachable is returned when no replica answered in time, or none that could
// act: the cluster may have no leader. A change may have been made all the same.
var ErrUnreachable = errors.New("cluster unreachable")

// Error is what a replica refused.
type Error struct {
	// What was asked for, such as "start operation".
	What string
	// Code tells refusals apart, such as unknown_pool. It never changes.
	Code string
	// Kind is the class of the refusal.
	Kind connect.Code
	// Message is for people, in the replica's words.
	Message string
	// Replica is the address of the replica that refused.
	Replica string
}

// Error implements error.
func (e *Error) Error() string {
	if strings.HasPrefix(e.Message, e.What) {
		return e.Message
	}
	return e.What + ": " + e.Message
}

// CodeOf returns the code of a refusal, empty if err is none.
func CodeOf(err error) string {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// refusal returns the error of an answer that is not worth another try.
func refusal(what, address string, err *connect.Error) *Error {
	code := err.Meta().Get(apipb.HeaderCode)
	if code == "" {
		code = err.Code().String()
	}
	return &Error{What: what, Code: code, Kind: err.Code(), Message: err.Message(), Replica: address}
}

// Try is what became of the tries at one replica.
type Try struct {
	Address string
	// Count is how many there were.
	Count int
	// Err is why the last one failed.
	Err error
}

// UnreachableError says who was asked in vain. errors.Is finds ErrUnreachable in
// it, and what each replica failed with.
type UnreachableError struct {
	// What was asked for, such as "start operation".
	What string
	// Tried are the replicas, in the order in which each was first asked.
	Tried   []Try
	Elapsed time.Duration
	// Unsure: a change may have been made all the same.
	Unsure bool
}

// Error implements error.
func (e *UnreachableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v after %s", e.What, ErrUnreachable, e.Elapsed.Round(time.Millisecond))
	for _, try := range e.Tried {
		fmt.Fprintf(&b, "; %s: %s", try.Address, reason(try.Err))
		if try.Count > 1 {
			fmt.Fprintf(&b, " (%d tries)", try.Count)
		}
	}
	if e.Unsure {
		b.WriteString("; it may have taken effect anyway")
	}
	b.WriteString("; " + e.advice())
	return b.String()
}

// advice says what to check.
func (e *UnreachableError) advice() string {
	answered, hopeless, cut := false, len(e.Tried) > 0, len(e.Tried) > 0
	for _, try := range e.Tried {
		var answer *connect.Error
		answered = answered || errors.As(try.Err, &answer) && connect.IsWireError(answer)
		hopeless, cut = hopeless && isHopeless(try.Err), cut && isCutOff(try.Err)
	}
	switch {
	case hopeless:
		return "check that the credentials are valid and for this cluster, and that both sides use certificates or neither"
	case answered:
		return "check with weir status that a majority of the replicas is up and connected"
	case cut:
		// A replica that expects certificates hangs up on who has none.
		return "connection closed: check that both sides use certificates or neither (--insecure-plaintext)"
	default:
		return "check that the replicas are running, that the addresses are right, and that no firewall blocks them"
	}
}

// isCutOff reports whether the other side was there, and hung up.
func isCutOff(err error) bool {
	// What waits for a connection that ends early is told so by net/http, in words alone.
	if strings.HasSuffix(err.Error(), "http2: client conn could not be established") {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// Unwrap returns ErrUnreachable and why each replica failed.
func (e *UnreachableError) Unwrap() []error {
	out := []error{ErrUnreachable}
	for _, try := range e.Tried {
		out = append(out, try.Err)
	}
	return out
}

// reason returns an error without the address, which is said already, and what
// libraries put in front.
func reason(err error) string {
	var answer *connect.Error
	if errors.As(err, &answer) {
		if connect.IsWireError(answer) {
			return answer.Message()
		}
		err = answer.Unwrap()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var network *net.OpError
	if errors.As(err, &network) {
		err = network.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	return err.Error()
}
