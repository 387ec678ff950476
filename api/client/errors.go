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

// ErrUnreachable is returned when no replica carried out the call in time, for example
// because there is no leader. A change may have been made anyway.
var ErrUnreachable = errors.New("cluster unreachable")

// Error is a refusal by a replica.
type Error struct {
	// What names the request, such as "start operation".
	What string
	// Code is the stable code of the refusal, such as unknown_pool.
	Code string
	// Kind is the class of the refusal.
	Kind connect.Code
	// Message is the replica's message, for people.
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

// CodeOf returns the code of a refusal; empty if err is not one.
func CodeOf(err error) string {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// refusal converts an error that is not worth another try.
func refusal(what, address string, err *connect.Error) *Error {
	code := err.Meta().Get(apipb.HeaderCode)
	if code == "" {
		code = err.Code().String()
	}
	return &Error{What: what, Code: code, Kind: err.Code(), Message: err.Message(), Replica: address}
}

// Try sums up the failed tries at one replica.
type Try struct {
	Address string
	// Count is the number of tries.
	Count int
	// Err is why the last one failed.
	Err error
}

// UnreachableError says which replicas were tried, and why each failed. errors.Is finds
// ErrUnreachable in it, and the last error of each replica.
type UnreachableError struct {
	// What names the request, such as "start operation".
	What string
	// Tried are the replicas, in the order in which each was first asked.
	Tried   []Try
	Elapsed time.Duration
	// Unsure says that the change may have been made anyway.
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
		// A replica that requires certificates closes connections without one.
		return "connection closed: check that both sides use certificates or neither (--insecure-plaintext)"
	default:
		return "check that the replicas are running, that the addresses are right, and that no firewall blocks them"
	}
}

// isCutOff reports whether the other side accepted the connection and then closed it.
func isCutOff(err error) bool {
	// net/http has no error value for a connection that closes before it is set up.
	if strings.HasSuffix(err.Error(), "http2: client conn could not be established") {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// Unwrap returns ErrUnreachable and the last error of each replica.
func (e *UnreachableError) Unwrap() []error {
	out := []error{ErrUnreachable}
	for _, try := range e.Tried {
		out = append(out, try.Err)
	}
	return out
}

// reason returns the text of an error without the address, which the caller prints itself,
// and without the prefixes of libraries.
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
