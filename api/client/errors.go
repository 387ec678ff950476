package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// ErrUnreachable is returned when no replica answered in time, or none that could
// act: the cluster may have no leader. A change may have been made all the same.
var ErrUnreachable = errors.New("cluster not reached")

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
func refusal(what string, err *connect.Error) *Error {
	code := err.Meta().Get(headerCode)
	if code == "" {
		code = err.Code().String()
	}
	return &Error{What: what, Code: code, Kind: err.Code(), Message: err.Message()}
}

// unreached tells of tries without an answer.
type unreached struct {
	what  string
	took  time.Duration
	tries int
	// last is the last error of each address.
	last map[string]error
	// cause ended the tries.
	cause error
}

// Error implements error.
func (u *unreached) Error() string {
	var said []string
	for address, err := range u.last {
		said = append(said, address+": "+reason(err))
	}
	slices.Sort(said)
	tries := "1 try"
	if u.tries != 1 {
		tries = fmt.Sprintf("%d tries", u.tries)
	}
	return fmt.Sprintf("%s: %v in %s and %s; %s", u.what, ErrUnreachable, u.took.Round(time.Millisecond), tries, strings.Join(said, "; "))
}

// Unwrap makes errors.Is(err, ErrUnreachable) hold.
func (u *unreached) Unwrap() []error { return []error{ErrUnreachable, u.cause} }

// reason returns an error without what the library puts in front.
func reason(err error) string {
	var answer *connect.Error
	if errors.As(err, &answer) {
		return answer.Message()
	}
	return err.Error()
}
