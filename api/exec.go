package api

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"connectrpc.com/connect"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/raftstore/state"
	"weir/scheduling"
)

const (
	// maxCommand bounds a command with its arguments, in bytes.
	maxCommand = 16 << 10
	// maxExecInput bounds the input in one request, and maxExecWait how long an answer may wait for output.
	maxExecInput = 32 << 10
	maxExecWait  = 5 * time.Second
	// promptBytes is how much output comes at once. More is read as outputs are, of which each user has a share.
	promptBytes = 4 << 10
	// maxTerminal bounds the size of a terminal, in characters.
	maxTerminal = 10_000
)

var (
	sessionNames = regexp.MustCompile(`^[0-9A-Za-z-]{16,64}$`)
	termNames    = regexp.MustCompile(`^[0-9A-Za-z+._-]{0,64}$`)
)

// Exec runs a command as one of the processes of a running job.
func (s jobs) Exec(ctx context.Context, req *connect.Request[apipb.ExecJobRequest]) (*connect.Response[apipb.ExecJobResponse], error) {
	const what = "run a command in job"
	m := req.Msg
	length := len(strings.Join(m.GetCommand(), " "))
	switch {
	case !sessionNames.MatchString(m.GetSession()):
		return nil, invalid("%s: session: must be 16 to 64 letters, digits and dashes", what)
	case len(m.GetCommand()) == 0 || m.GetCommand()[0] == "":
		return nil, invalid("%s: command: the program is missing", what)
	case length > maxCommand:
		return nil, invalid("%s: command: has %d bytes, the limit is %d: put more into a file or its input", what, length, maxCommand)
	case strings.ContainsRune(strings.Join(m.GetCommand(), ""), 0):
		return nil, invalid("%s: command: has a zero byte", what)
	case !termNames.MatchString(m.GetTerm()):
		return nil, invalid("%s: term %q: must be letters, digits and .+_-", what, m.GetTerm())
	}
	size, err := sizeOf(what, m.GetSize())
	if err != nil {
		return nil, err
	}
	asked := &actorpb.Exec{Session: m.GetSession(), Start: &actorpb.ExecCommand{
		Argv: m.GetCommand(), Terminal: m.GetTerminal(), Term: m.GetTerm(), Size: size,
	}}
	if _, err := s.execute(ctx, what, m.GetJobId(), asked); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.ExecJobResponse{}), nil
}

// ExecIO gives input to a command that Exec has started, and reads its output. Who has lost the right to it loses the
// command too.
func (s jobs) ExecIO(ctx context.Context, req *connect.Request[apipb.ExecIORequest]) (*connect.Response[apipb.ExecIOResponse], error) {
	const what = "run a command in job"
	m := req.Msg
	wait := time.Duration(m.GetWaitMillis()) * time.Millisecond
	switch {
	case m.GetInputOffset() < 0 || m.GetOutputOffset() < 0:
		return nil, invalid("%s: an offset is negative", what)
	case wait < 0 || wait > maxExecWait:
		return nil, invalid("%s: wait_millis %d: must be 0 to %d", what, m.GetWaitMillis(), maxExecWait.Milliseconds())
	case len(m.GetInput()) > maxExecInput:
		return nil, invalid("%s: input: has %d bytes, the limit is %d", what, len(m.GetInput()), maxExecInput)
	}
	size, err := sizeOf(what, m.GetSize())
	if err != nil {
		return nil, err
	}
	asked := &actorpb.Exec{Session: m.GetSession(), Input: &actorpb.ExecInput{
		Offset: m.GetInputOffset(), Data: m.GetInput(), End: m.GetEndOfInput(), Size: size, HangUp: m.GetHangUp(),
	}}
	if m.OutputOffset != nil && !m.GetHangUp() {
		asked.Output = &actorpb.ExecOutput{Offset: m.GetOutputOffset()}
	}
	out := &apipb.ExecIOResponse{}
	for end := time.Now().Add(wait); ; asked.Input = nil {
		if asked.Output != nil {
			asked.Output.Limit, asked.Output.WaitMillis = promptBytes, max(0, min(time.Until(end), rightsChecked)).Milliseconds()
		}
		part, err := s.execute(ctx, what, m.GetJobId(), asked)
		out.InputOffset = max(out.InputOffset, part.GetInputOffset())
		if err == nil && part.GetMore() {
			// It begins where the caller does: the node forgets what is before, and this answer may be lost.
			asked.Input, asked.Output.Limit, asked.Output.WaitMillis = nil, outputBytes, 0
			part, err = s.execute(ctx, what, m.GetJobId(), asked)
		}
		if err != nil {
			return nil, err
		}
		addPart(out, part)
		if asked.Output == nil || len(out.Pieces) > 0 || out.End != nil || !time.Now().Before(end) {
			return connect.NewResponse(out), nil
		}
	}
}

// addPart adds what a node has answered.
func addPart(out *apipb.ExecIOResponse, part *actorpb.ExecPart) {
	for _, piece := range part.GetPieces() {
		out.Pieces = append(out.Pieces, &apipb.ExecPiece{Stderr: piece.GetStderr(), Data: piece.GetData()})
	}
	out.NextOffset = part.GetNextOffset()
	if end := part.GetEnd(); end != nil {
		out.End = &apipb.ExecEnd{Error: end.GetError(), ExitCode: end.GetExitCode(), Signal: end.GetSignal()}
	}
}

// execute sends a request about a command to the job's node, if the caller has the right to run commands in the job.
func (s jobs) execute(ctx context.Context, what, id string, asked *actorpb.Exec) (*actorpb.ExecPart, error) {
	job, err := s.locate(ctx, what, id)
	if err == nil {
		err = s.mayEnter(ctx, job)
	}
	asker := askerOf(ctx)
	asked.JobId, asked.Node, asked.User = job.GetId(), job.GetNode(), subjectOf(asker.Identity).String()
	if connect.CodeOf(err) == connect.CodePermissionDenied && job != nil && asked.GetStart() == nil {
		// What the caller has started does not go on without the right.
		asked.Input, asked.Output = &actorpb.ExecInput{HangUp: true}, nil
		if _, failed := s.cfg.Leader.Exec(ctx, asked); failed != nil {
			s.cfg.Logger.Debug("a command of a user without the right to it was not ended", "job", job.GetId(), "user", asker.Name, "error", failed)
		}
	}
	if err != nil {
		return nil, err
	}
	if asked.GetStart() != nil && job.GetFinishTime() != nil {
		return nil, fail(connect.CodeFailedPrecondition, apipb.CodeJobEnded, "%s %s: already %s", what, job.GetId(), job.GetState())
	}
	part, err := s.cfg.Leader.Exec(ctx, asked)
	if err != nil {
		return nil, s.noSession(what, job, err)
	}
	return part, nil
}

// mayEnter returns an error unless the caller may run commands in a job that it may manage.
func (s jobs) mayEnter(ctx context.Context, job *apipb.Job) (err error) {
	s.cfg.Store.View(func(st *state.State) {
		if op, ok := st.Operation(scheduling.OperationID(job.GetOperationId())); ok {
			rights := state.RightsIn(st)
			err = denied(rights.MayEnter(rights.Who(askerOf(ctx).subject()), op))
		}
	})
	return err
}

// noSession returns the error for a command that a node does not run.
func (s jobs) noSession(what string, job *apipb.Job, err error) error {
	var refused *actorpb.Refused
	if errors.As(err, &refused) {
		switch refused.GetCode() {
		case actorpb.CodeNotFound:
			return fail(connect.CodeNotFound, apipb.CodeNoSuchSession, "%s: %s", what, refused.GetReason())
		case actorpb.CodeTooMany:
			return fail(connect.CodeResourceExhausted, apipb.CodeTooManySessions, "%s: %s: end one, or wait", what, refused.GetReason())
		case actorpb.CodeBadRequest:
			return invalid("%s: %s", what, refused.GetReason())
		}
	}
	return s.unreached(what, job, err)
}

// sizeOf returns the size of a terminal; nil: not known.
func sizeOf(what string, size *apipb.TerminalSize) (*actorpb.TerminalSize, error) {
	if c, r := size.GetColumns(), size.GetRows(); c < 0 || r < 0 || c > maxTerminal || r > maxTerminal {
		return nil, invalid("%s: size: %d columns and %d rows: must be 0 to %d", what, c, r, maxTerminal)
	}
	if size == nil {
		return nil, nil
	}
	return &actorpb.TerminalSize{Columns: size.GetColumns(), Rows: size.GetRows()}, nil
}
