package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/raftstore"
	"weir/raftstore/state"
)

// codes maps refusal codes of package state to codes of connect. Codes that are not in it
// become CodeFailedPrecondition.
var codes = map[string]connect.Code{
	state.CodeInvalidCommand:     connect.CodeInvalidArgument,
	state.CodeInvalidSpec:        connect.CodeInvalidArgument,
	state.CodeInvalidPool:        connect.CodeInvalidArgument,
	state.CodeInvalidTree:        connect.CodeInvalidArgument,
	state.CodeInvalidGroup:       connect.CodeInvalidArgument,
	state.CodeDenied:             connect.CodePermissionDenied,
	state.CodeInvalidStore:       connect.CodeInvalidArgument,
	state.CodeUnknownStore:       connect.CodeNotFound,
	state.CodeStoreDenied:        connect.CodePermissionDenied,
	state.CodeUnknownGroup:       connect.CodeNotFound,
	state.CodeUnknownRevocation:  connect.CodeNotFound,
	state.CodeInvalidRevocation:  connect.CodeInvalidArgument,
	state.CodeTooManyGroups:      connect.CodeResourceExhausted,
	state.CodeTooManyJobs:        connect.CodeInvalidArgument,
	state.CodeUnknownOperation:   connect.CodeNotFound,
	state.CodeUnknownPool:        connect.CodeNotFound,
	state.CodeUnknownTree:        connect.CodeNotFound,
	state.CodeUnknownNode:        connect.CodeNotFound,
	state.CodeUnknownTask:        connect.CodeNotFound,
	state.CodeUnknownAllocation:  connect.CodeNotFound,
	state.CodeUnknownProfile:     connect.CodeNotFound,
	state.CodeDuplicateAlias:     connect.CodeAlreadyExists,
	state.CodeDuplicateOperation: connect.CodeAlreadyExists,
	state.CodePoolExists:         connect.CodeAlreadyExists,
	state.CodeTreeExists:         connect.CodeAlreadyExists,
	state.CodeTooManyOperations:  connect.CodeResourceExhausted,
	state.CodeTooManyBytes:       connect.CodeResourceExhausted,
	state.CodeTooManyPools:       connect.CodeResourceExhausted,
	state.CodePoolFull:           connect.CodeResourceExhausted,
	state.CodeRevisionMismatch:   connect.CodeAborted,
	state.CodeStaleTerm:          connect.CodeUnavailable,
	state.CodeStaleEpoch:         connect.CodeUnavailable,
}

// fail returns an error for clients with a stable code.
func fail(kind connect.Code, code, format string, args ...any) *connect.Error {
	err := connect.NewError(kind, fmt.Errorf(format, args...))
	err.Meta().Set(apipb.HeaderCode, code)
	return err
}

// invalid returns the error for an invalid request.
func invalid(format string, args ...any) *connect.Error {
	return fail(connect.CodeInvalidArgument, apipb.CodeInvalidArgument, format, args...)
}

// refused returns the error of a refused command; nil if the command was applied.
func refused(result *commandpb.Result) error {
	refusal := result.GetRefusal()
	if refusal == nil {
		return nil
	}
	kind, ok := codes[refusal.GetCode()]
	if !ok {
		kind = connect.CodeFailedPrecondition
	}
	return fail(kind, refusal.GetCode(), "%s", refusal.GetMessage())
}

// overloaded returns the error for a call that a limit rejects, and counts it for Status.
func (s *server) overloaded(what string) *connect.Error {
	s.refusals.add(time.Now())
	err := fail(connect.CodeResourceExhausted, apipb.CodeOverloaded, "%s", what)
	suggest(err, s.cfg.Limits.RetryAfter)
	return err
}

// suggest says in an error when to come again.
func suggest(err *connect.Error, after time.Duration) {
	err.Meta().Set(apipb.HeaderRetry, strconv.FormatInt(after.Milliseconds(), 10))
}

// unavailable returns the error for a call that this replica could not complete. Its code
// says whether a requested change may still have been applied (CodeOutcomeUnknown).
func (s *server) unavailable(what string, err error) error {
	var known *connect.Error
	// A broken stream between replicas is a *connect.Error too; with an unknown outcome,
	// the client must get CodeOutcomeUnknown instead.
	if errors.As(err, &known) && !errors.Is(err, raftstore.ErrOutcomeUnknown) {
		return known
	}
	var failure *connect.Error
	switch {
	case s.closing.Err() != nil:
		failure = fail(connect.CodeUnavailable, apipb.CodeStopping, "%s: replica %s is stopping: use another one", what, s.cfg.Replica)
	case errors.Is(err, raftstore.ErrOverloaded) && !errors.Is(err, context.Canceled):
		failure = s.overloaded(what + ": " + err.Error())
	case errors.Is(err, raftstore.ErrOutcomeUnknown):
		failure = fail(connect.CodeUnavailable, apipb.CodeOutcomeUnknown, "%s: %v", what, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		failure = fail(connect.CodeUnavailable, apipb.CodeNoQuorum, "%s: %v", what, err)
	default:
		failure = fail(connect.CodeUnavailable, apipb.CodeUnavailable, "%s: %v", what, err)
	}
	s.hint(failure.Meta().Set)
	return failure
}

// hint sets the header with the leader's address, if it is known.
func (s *server) hint(set func(key, value string)) {
	if current, _ := s.cfg.Store.Leadership(); current.LeaderAddress != "" {
		set(apipb.HeaderLeader, current.LeaderAddress)
	}
}
