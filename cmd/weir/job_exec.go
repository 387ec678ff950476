package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"weir/api/client"
	"weir/messages/apipb"
)

// execFlags are the flags of weir job exec.
type execFlags struct{ stdin, terminal bool }

func newJobExecCommand(f *clientFlags) *cobra.Command {
	var flags execFlags
	cmd := &cobra.Command{
		Use:   "exec JOB [COMMAND...]",
		Short: "Run a command in a running job",
		Long: `Run a command in a running job, as one of its processes: as its user, in its workspace,
namespaces and control group, with its environment without the secure_vault, and with no
more rights. What the command uses counts as the job's. It is killed when the job ends,
weir ends, the agent of the node restarts, or weir has not been heard for a minute. Its
exit code becomes that of weir, and a signal 128 more than its number; where weir itself
fails it says so and ends with a code of its own.

At a terminal the command gets a terminal and the input, and is sh if none is given.
Elsewhere -i passes the input on. Write -- before a command that has flags.

It needs the right to manage the operation, the grants of accounts that its jobs needed,
and, if the operation has a secure_vault, to be its user. It is audited.`,
		Example: `  weir job exec 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b
  weir job exec 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b -- ps aux
  weir job exec -i 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b -- tar x < files.tar`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return &exitError{exitUsage, fmt.Errorf("JOB is missing: %s", cmd.UseLine())}
			}
			return nil
		},
		ValidArgsFunction: f.suggest(true, jobNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return unknownJob(ctx, s, args[0], s.exec(ctx, args[0], args[1:], flags))
		}),
	}
	cmd.Flags().BoolVarP(&flags.stdin, "stdin", "i", false, "pass the input on to the command (default: at a terminal)")
	cmd.Flags().BoolVarP(&flags.terminal, "terminal", "t", false, "give the command a terminal (default: at a terminal)")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w: write -- before a command that has flags", err))
	})
	return cmd
}

// exec runs a command in a job with the input and output of this process.
func (s *session) exec(ctx context.Context, job string, command []string, flags execFlags) error {
	in, isFile := s.cmd.InOrStdin().(*os.File)
	interactive := isFile && term.IsTerminal(int(in.Fd())) && isTerminal(s.out)
	given := s.cmd.Flags().Changed
	if !given("terminal") {
		flags.terminal = interactive && (flags.stdin || !given("stdin"))
	}
	switch {
	case flags.terminal && !interactive:
		return usage(errors.New("--terminal needs a terminal as standard input and output: use -i alone to pass the input on"))
	case flags.terminal && given("stdin") && !flags.stdin:
		return usage(errors.New("--terminal needs the input: leave --stdin=false out"))
	case len(command) == 0 && !flags.terminal:
		return usage(fmt.Errorf("COMMAND is missing; it may be left out only at a terminal: %s", s.cmd.UseLine()))
	case len(command) == 0:
		command = []string{"sh"}
	}
	e := client.Exec{JobID: job, Command: command, Terminal: flags.terminal, Stdout: s.out, Stderr: s.cmd.ErrOrStderr()}
	if flags.stdin || flags.terminal {
		e.Stdin = s.cmd.InOrStdin()
	}
	if flags.terminal {
		leave, err := enterTerminal(&e, in)
		if err != nil {
			return err
		}
		defer leave()
	}
	// Neither a terminal that is closed nor a reader that has gone kills this process before it has ended the command.
	ctx, stop := signal.NotifyContext(ctx, unix.SIGHUP)
	defer stop()
	signal.Ignore(unix.SIGPIPE)
	end, err := s.Exec(ctx, e)
	switch {
	case errors.Is(err, unix.EPIPE):
		return &exitError{128 + int(unix.SIGPIPE), nil}
	case errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitTimedOut, fmt.Errorf("not ended within --timeout: the command in job %s is killed", job)}
	case err != nil:
		return err
	case end.GetSignal() != "":
		if j, err := s.GetJob(ctx, job); err == nil && (j.GetFinishTime() != nil || j.GetStopping() != "" || j.GetState() == "aborting") {
			s.note("job %s ends, and the command with it", job)
		}
		return &exitError{128 + int(unix.SignalNum(end.GetSignal())), nil}
	case end.GetExitCode() != 0:
		return &exitError{int(end.GetExitCode()), nil}
	}
	return nil
}

// enterTerminal has the terminal of this process pass everything on, keys such as Ctrl-C too, and tell its sizes.
// leave gives it back.
func enterTerminal(e *client.Exec, terminal *os.File) (leave func(), err error) {
	before, err := term.MakeRaw(int(terminal.Fd()))
	if err != nil {
		return nil, fmt.Errorf("use the terminal: %w", err)
	}
	e.Term, e.Size = os.Getenv("TERM"), terminalSize(terminal)
	changed, sizes := make(chan os.Signal, 1), make(chan *apipb.TerminalSize)
	signal.Notify(changed, unix.SIGWINCH)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-changed:
			case <-ended:
				return
			}
			select {
			case sizes <- terminalSize(terminal):
			case <-ended:
				return
			}
		}
	}()
	e.Sizes = sizes
	return func() {
		signal.Stop(changed)
		close(ended)
		_ = term.Restore(int(terminal.Fd()), before) // a terminal that is gone has nothing to restore
	}, nil
}

// terminalSize returns the size of a terminal; nil: it is not known.
func terminalSize(terminal *os.File) *apipb.TerminalSize {
	columns, rows, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		return nil
	}
	return &apipb.TerminalSize{Columns: int32(columns), Rows: int32(rows)}
}
