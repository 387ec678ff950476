package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// mostSessions, mostOfUser and mostOfJob bound the commands of people that run at once, on a node, of one user
	// there and beside one job: each holds up to outputWindow and inputWindow bytes.
	mostSessions = 32
	mostOfUser   = mostSessions / 2
	mostOfJob    = 8
	// sessionIdle is how long a session is kept of which nobody asks.
	sessionIdle = time.Minute
	// mostArguments bounds the bytes of a command, so that it fits into a message to the proxy.
	mostArguments = 16 << 10
)

var (
	// ErrNoSession is returned for a session that is not there, or is another user's.
	ErrNoSession = errors.New("no such session")
	// ErrTooManySessions is returned for a session beyond a limit.
	ErrTooManySessions = errors.New("too many commands run beside jobs")
	// ErrNotRunning is returned for a command in a job that this node does not run: not yet, no longer, or
	// not so that a command could join it.
	ErrNotRunning = errors.New("its node does not run the job at the moment")
)

// SessionKey says which session of a user is meant.
type SessionKey struct {
	Job, Session string
	// User is who has started it: nobody else gets at it.
	User string
}

// Command is a command that a person has run beside a job's own.
type Command struct {
	SessionKey
	Argv []string
	// Terminal gives it one, of the kind Term; otherwise it has three pipes.
	Terminal bool
	Term     string
	Size     TerminalSize
}

// TerminalSize is in characters; zero: not known.
type TerminalSize struct{ Columns, Rows int }

// SessionEnd is how a session has ended.
type SessionEnd struct {
	// Error is why the command was not started, or what became of it; empty: it has ended by itself, or by
	// Signal.
	Error    string
	ExitCode int
	Signal   string
}

// sessions are those of all jobs.
type sessions struct {
	mu  sync.Mutex
	all map[SessionKey]*session
}

// Exec runs a command as one of the job's processes: as the job's user, in its workspace, groups and namespaces,
// with its environment without its secrets, and with no more rights. What it uses counts as the job's, and it
// ends with the job at the latest. A session that is there already is left as it is. ExecInput and ExecOutput
// are what the command reads and writes. It is killed when neither has been called for sessionIdle, and when
// the agent ends.
func (r *Runner) Exec(c Command) error {
	fail := func(err error) error { return fmt.Errorf("job %.60s: %w", c.Job, err) }
	length := 0
	for _, argument := range c.Argv {
		length += len(argument)
	}
	if len(c.Argv) == 0 || length > mostArguments || slices.ContainsFunc(append(c.Argv, c.Term), hasZero) {
		return fail(fmt.Errorf("a command has 1 to %d bytes, none of them zero", mostArguments))
	}
	if err := checkName("job", c.Job); err != nil {
		return fail(err)
	}
	job := r.Job(c.Job)
	if job == nil {
		return fail(ErrNotRunning)
	}
	s, err := r.sessions.enter(c.SessionKey, job)
	switch {
	case errors.Is(err, ErrNotRunning):
		return fail(err)
	case s == nil || err != nil:
		return err
	}
	if err := s.open(c); err != nil {
		r.sessions.leave(s)
		return fail(err)
	}
	return nil
}

func hasZero(s string) bool { return slices.Contains([]byte(s), 0) }

// enter makes a session; nil: it is there already.
func (all *sessions) enter(key SessionKey, job *Job) (*session, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	ofJob, ofUser := 0, 0
	for of := range all.all {
		if of.Job == key.Job {
			ofJob++
		}
		if of.User == key.User {
			ofUser++
		}
	}
	switch {
	case all.all[key] != nil:
		return nil, nil
	case job.Result() != nil:
		// The sessions of the job have been ended, or will be: see Job.run.
		return nil, ErrNotRunning
	case ofJob >= mostOfJob:
		return nil, fmt.Errorf("%w: %d beside job %s, the limit", ErrTooManySessions, ofJob, key.Job)
	case ofUser >= mostOfUser:
		return nil, fmt.Errorf("%w: %d of %s on this node, the limit", ErrTooManySessions, ofUser, key.User)
	case len(all.all) >= mostSessions:
		return nil, fmt.Errorf("%w: %d on this node, the limit", ErrTooManySessions, len(all.all))
	case all.all == nil:
		all.all = map[SessionKey]*session{}
	}
	s := newSession(key, job)
	s.idle = time.AfterFunc(sessionIdle, func() { all.leave(s) })
	all.all[key] = s
	return s, nil
}

// leave ends a session and forgets it.
func (all *sessions) leave(s *session) {
	all.mu.Lock()
	if all.all[s.key] == s {
		delete(all.all, s.key)
	}
	all.mu.Unlock()
	s.hangUp()
}

// find returns a session that somebody asks of.
func (all *sessions) find(key SessionKey) (*session, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.all[key]
	if s == nil || !s.idle.Stop() {
		return nil, fmt.Errorf("%w of job %.60s: it has ended, or nobody has used it for %v, or the agent was restarted", ErrNoSession, key.Job, sessionIdle)
	}
	s.idle.Reset(sessionIdle)
	return s, nil
}

// of returns the sessions of a job; of all jobs: nil.
func (all *sessions) of(job *Job) []*session {
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(all.all)), func(s *session) bool { return job != nil && s.job != job })
}

// executed takes the end of a command from the job's proxy.
func (all *sessions) executed(job *Job, m proxyproto.Executed) {
	for _, s := range all.of(job) {
		if s.name == m.Session {
			s.finish(SessionEnd{Error: m.Error, ExitCode: m.ExitCode, Signal: m.Signal})
		}
	}
}

// end ends the sessions of a job whose proxy tells nothing any more.
func (all *sessions) end(job *Job, why string) {
	for _, s := range all.of(job) {
		s.finish(SessionEnd{Error: why})
	}
}

// endSessions ends the sessions of all jobs.
func (r *Runner) endSessions() {
	for _, s := range r.sessions.of(nil) {
		r.sessions.leave(s)
	}
}

// SessionInput is what a person has typed, or the end of it.
type SessionInput struct {
	// Offset is where Data belongs in the input.
	Offset int64
	Data   []byte
	// End says that nothing comes after Data.
	End bool
	// Size, if not zero, is the new size of the terminal. HangUp ends the command.
	Size   TerminalSize
	HangUp bool
}

// ExecInput gives input to the command of a session, and returns the offset up to which it has taken it: the
// rest has to be given again later. Input that it has already is skipped.
func (r *Runner) ExecInput(key SessionKey, in SessionInput) (next int64, err error) {
	s, err := r.sessions.find(key)
	if err != nil {
		return 0, err
	}
	if in.HangUp {
		r.sessions.leave(s)
		return in.Offset, nil
	}
	return s.give(in)
}

// SessionOutput is a part of what a command has written.
type SessionOutput struct {
	Pieces []OutputPiece
	// Next is the offset after the pieces. More: there is more already.
	Next int64
	More bool
	// End is set once the command has ended, and nothing comes after the pieces.
	End *SessionEnd
}

// OutputPiece is written to one stream.
type OutputPiece struct {
	Stderr bool
	Data   []byte
}

// ExecOutput returns at most limit bytes of what the command of a session has written from offset on, and forgets
// what was before. It waits for output or the end until ctx is done, and then returns none.
func (r *Runner) ExecOutput(ctx context.Context, key SessionKey, offset int64, limit int) (SessionOutput, error) {
	s, err := r.sessions.find(key)
	if err != nil {
		return SessionOutput{}, err
	}
	return s.take(ctx, offset, limit)
}

// understandsExec reports whether a job's proxy, if it is connected, can start commands beside the job's own.
func understandsExec(j *Job) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.conn == nil || j.execs
}
