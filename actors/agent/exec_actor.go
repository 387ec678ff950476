package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/agent/runner"
	"weir/messages/actorpb"
)

const (
	// maxExecs bounds the requests about commands of people that are handled at once: each session has one
	// that reads and one that writes.
	maxExecs = 128
	// maxExecWait bounds how long one of them waits.
	maxExecWait = 5 * time.Second
)

// exec handles a request about a command that a person runs beside a job's own.
func (a *agentActor) exec(ctx actor.Context, m *actorpb.Exec) {
	a.answer(ctx, &a.execs, maxExecs, "requests about commands of people", func() proto.Message {
		part, err := a.execute(m)
		if err != nil {
			return execRefused(err)
		}
		return part
	})
}

// execRefused returns the answer for an error.
func execRefused(err error) *actorpb.Refused {
	code := actorpb.CodeBadRequest
	switch {
	case errors.Is(err, runner.ErrNoSession):
		code = actorpb.CodeNotFound
	case errors.Is(err, runner.ErrTooManySessions):
		code = actorpb.CodeTooMany
	case errors.Is(err, runner.ErrNotRunning), errors.Is(err, runner.ErrUnreachable):
		// Asked again, the replica knows whether the job has ended.
		code = actorpb.CodeUnavailable
	}
	return &actorpb.Refused{Code: code, Reason: err.Error()}
}

// execute starts a command, or gives it input and reads its output.
func (a *agentActor) execute(m *actorpb.Exec) (*actorpb.ExecPart, error) {
	key := runner.SessionKey{Job: m.GetJobId(), Session: m.GetSession(), User: m.GetUser()}
	if c := m.GetStart(); c != nil {
		return &actorpb.ExecPart{}, a.processes.Exec(runner.Command{
			SessionKey: key, Argv: c.GetArgv(), Terminal: c.GetTerminal(), Term: c.GetTerm(), Size: sizeOf(c.GetSize()),
		})
	}
	answer := &actorpb.ExecPart{}
	if in := m.GetInput(); in != nil {
		next, err := a.processes.ExecInput(key, runner.SessionInput{
			Offset: in.GetOffset(), Data: in.GetData(), End: in.GetEnd(), Size: sizeOf(in.GetSize()), HangUp: in.GetHangUp(),
		})
		if err != nil {
			return nil, err
		}
		answer.InputOffset = next
	}
	wanted := m.GetOutput()
	if wanted == nil {
		return answer, nil
	}
	if wanted.GetLimit() <= 0 || wanted.GetLimit() > maxPart {
		return nil, fmt.Errorf("read the output of a command: limit %d", wanted.GetLimit())
	}
	ctx, cancel := context.WithTimeout(a.life, min(max(0, time.Duration(wanted.GetWaitMillis())*time.Millisecond), maxExecWait))
	defer cancel()
	part, err := a.processes.ExecOutput(ctx, key, wanted.GetOffset(), int(wanted.GetLimit()))
	if err != nil {
		return nil, err
	}
	answer.NextOffset, answer.More = part.Next, part.More
	for _, piece := range part.Pieces {
		answer.Pieces = append(answer.Pieces, &actorpb.ExecPiece{Stderr: piece.Stderr, Data: piece.Data})
	}
	if end := part.End; end != nil {
		answer.End = &actorpb.ExecEnd{Error: end.Error, ExitCode: int32(end.ExitCode), Signal: end.Signal}
	}
	return answer, nil
}

func sizeOf(s *actorpb.TerminalSize) runner.TerminalSize {
	return runner.TerminalSize{Columns: int(s.GetColumns()), Rows: int(s.GetRows())}
}
