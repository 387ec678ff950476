package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// execCalls are calls about commands that are run in jobs.
type execCalls struct{ *caller }

// Exec is a command to run in a job, with where it reads and writes.
type Exec struct {
	JobID string
	// Command is a program, found by the job's PATH, and its arguments.
	Command []string
	// Terminal gives it a terminal, of the kind Term, such as xterm, and of Size. Its new sizes come on Sizes.
	Terminal bool
	Term     string
	Size     *apipb.TerminalSize
	Sizes    <-chan *apipb.TerminalSize
	// Stdin is read to its end, or until the command has ended: one more Read may then be under way. nil: its
	// standard input is empty.
	Stdin io.Reader
	// Stdout and Stderr get what it writes; at a terminal all goes to Stdout.
	Stdout, Stderr io.Writer
}

const (
	// execWait is how long a request waits for output of a command.
	execWait = 4 * time.Second
	// execInput is how much input a request has, at most.
	execInput = 32 << 10
	// execGoodbye bounds the call that ends a session.
	execGoodbye = 2 * time.Second
)

// Exec runs a command as one of the processes of a running job until it ends. When ctx is done, the command is
// killed; if it was started, the error is then that of ctx. An error means that the command was not started, or that
// it is not known how it has ended.
func (c execCalls) Exec(ctx context.Context, e Exec) (*apipb.ExecEnd, error) {
	s := &execSession{c: c, e: e, id: rand.Text()}
	start := &apipb.ExecJobRequest{JobId: e.JobID, Session: s.id, Command: e.Command, Terminal: e.Terminal, Term: e.Term, Size: e.Size}
	if err := do(ctx, s.task(0), apipbconnect.JobServiceClient.Exec, start); err != nil {
		return nil, err
	}
	// A command that has ended is forgotten sooner this way, and one that has not is killed.
	defer s.hangUp(ctx)
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := s.feed(running); err != nil {
			cancel(err)
		}
	}()
	go s.resize(running)
	end, err := s.follow(running)
	switch cause := context.Cause(running); {
	case err == nil || cause == nil:
	case ctx.Err() != nil:
		err = fmt.Errorf("command in job %s: %w", e.JobID, ctx.Err())
	default:
		err = cause
	}
	if end.GetError() != "" {
		err = fmt.Errorf("command in job %s: %s", e.JobID, end.GetError())
	}
	return end, err
}

// execSession is a command that runs.
type execSession struct {
	c  execCalls
	e  Exec
	id string
}

func (s *execSession) task(wait time.Duration) *task {
	t := s.c.task("run a command in job")
	t.longer = wait + outputPatience
	return t
}

// ask makes a call about the command.
func (s *execSession) ask(ctx context.Context, req *apipb.ExecIORequest) (*apipb.ExecIOResponse, error) {
	req.JobId, req.Session = s.e.JobID, s.id
	return call(ctx, s.task(time.Duration(req.GetWaitMillis())*time.Millisecond), apipbconnect.JobServiceClient.ExecIO, req)
}

// follow passes on the output until the command has ended.
func (s *execSession) follow(ctx context.Context) (*apipb.ExecEnd, error) {
	offset := int64(0)
	for {
		part, err := s.ask(ctx, &apipb.ExecIORequest{OutputOffset: &offset, WaitMillis: execWait.Milliseconds()})
		if err != nil {
			return nil, err
		}
		for _, piece := range part.GetPieces() {
			to := s.e.Stdout
			if piece.GetStderr() {
				to = s.e.Stderr
			}
			if _, err := to.Write(piece.GetData()); err != nil {
				return nil, fmt.Errorf("write output of a command in job %s: %w", s.e.JobID, err)
			}
		}
		if offset = part.GetNextOffset(); part.GetEnd() != nil {
			return part.GetEnd(), nil
		}
	}
}

// feed gives the command its input, and returns an error if it does not get it.
func (s *execSession) feed(ctx context.Context) error {
	buffer := make([]byte, execInput)
	offset := int64(0)
	for ends := s.e.Stdin == nil; ; {
		n := 0
		if !ends {
			var err error
			n, err = s.e.Stdin.Read(buffer)
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read input for a command in job %s: %w", s.e.JobID, err)
			}
			ends = err != nil
		}
		if err := s.give(ctx, offset, buffer[:n], ends); err != nil || ends {
			return s.unlessOver(err)
		}
		offset += int64(n)
	}
}

// give gives the command a piece of its input, which it may take a while to read.
func (s *execSession) give(ctx context.Context, offset int64, data []byte, last bool) error {
	for poll := firstPoll / 10; ; poll = min(2*poll, maxPoll) {
		took, err := s.ask(ctx, &apipb.ExecIORequest{Input: data, InputOffset: offset, EndOfInput: last})
		if err != nil {
			return err
		}
		if n := took.GetInputOffset() - offset; n > 0 {
			data, offset, poll = data[min(n, int64(len(data))):], offset+n, firstPoll/10
		}
		if len(data) == 0 {
			return nil
		}
		if err := sleep(ctx, poll); err != nil {
			return err
		}
	}
}

// unlessOver returns nil in place of the error that the session is no longer there: it is over.
func (s *execSession) unlessOver(err error) error {
	if CodeOf(err) == apipb.CodeNoSuchSession {
		return nil
	}
	return err
}

// resize tells the terminal's new sizes.
func (s *execSession) resize(ctx context.Context) {
	for {
		select {
		case size, open := <-s.e.Sizes:
			if !open {
				return
			}
			if _, err := s.ask(ctx, &apipb.ExecIORequest{Size: size}); err != nil {
				s.c.cfg.Logger.Debug("size of the terminal was not told", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// hangUp ends the session.
func (s *execSession) hangUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), execGoodbye)
	defer cancel()
	if _, err := s.ask(ctx, &apipb.ExecIORequest{HangUp: true}); s.unlessOver(err) != nil {
		s.c.cfg.Logger.Debug("a command was not ended: it ends within a minute", "job", s.e.JobID, "error", err)
	}
}
