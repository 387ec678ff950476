package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cmd/weir/internal/figures"
	"weir/cmd/weir/internal/screen"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

func newOpWaitCommand(f *clientFlags) *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:   "wait OPERATION",
		Short: "Wait until an operation has ended, and show progress",
		Long: `Wait until an operation, given by id or alias, has ended, and show progress.

The exit code is 0 if it has completed, 4 if it has failed or was aborted, and 7 if
--timeout was over before. Ctrl-C ends the wait, not the operation.`,
		Example:           "  weir op wait '*nightly'\n  weir op wait --quiet --timeout 10m 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4a",
		ValidArgsFunction: f.suggest(true, operationNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return await(ctx, s, args[0], quiet)
		}),
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not show progress")
	return cmd
}

// abortion is what weir op abort does.
type abortion struct {
	wanted operationsWanted
	reason string
	leave  time.Duration
	yes    bool
}

func newOpAbortCommand(f *clientFlags) *cobra.Command {
	var a abortion
	cmd := &cobra.Command{
		Use:   "abort [OPERATION]",
		Short: "Abort an operation and its jobs, by id or alias, or all that flags select",
		Long: `Abort an operation and its jobs, by id or alias: at once, or with --interrupt-timeout
by interruption, which suits services: its jobs get their interruption_signal and no
more input, and have that long to stop. Jobs of a task with neither are killed at once.

With flags in place of OPERATION: abort all operations in progress that they select. They
are shown first, and just these are aborted, after you agreed or with --yes.`,
		Example: `  weir op abort '*nightly' --reason "wrong input"
  weir op abort '*search' --interrupt-timeout 5m
  weir op abort --user ann --pool ads --state pending
  weir op abort --label run=1207 --yes`,
		ValidArgsFunction: f.suggest(true, operationNames(true)),
	}
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		if len(args) == 1 {
			return s.said(s.AbortOperation(ctx, args[0], a.reason, a.leave), &apipb.AbortOperationResponse{}, "operation %s is aborted%s", args[0], a.leaving())
		}
		return a.all(ctx, s, cmd.InOrStdin())
	})
	flags := cmd.Flags()
	a.wanted.registerLive(cmd)
	selecting := flagNames(flags)
	flags.StringVar(&a.reason, "reason", "", "reason, shown with the operation")
	registerLeaving(cmd, &a.leave, "interrupt-timeout", "ask its jobs to stop within this time (default: they are killed at once)")
	flags.BoolVar(&a.yes, "yes", false, "abort what flags select without asking")
	checked(cmd, func(args []string) error {
		selects := slices.ContainsFunc(selecting, flags.Changed)
		switch {
		case len(args) == 1 && (selects || a.yes):
			return errors.New("give an OPERATION, or flags that select operations, not both")
		case len(args) == 0 && !selects:
			return fmt.Errorf("give an OPERATION, or flags that select operations: --%s", strings.Join(selecting, ", --"))
		}
		_, err := a.wanted.request(time.Now())
		return err
	})
	return cmd
}

// flagNames returns the names of flags.
func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// leaving says how long jobs have.
func (a *abortion) leaving() string {
	return when(a.leave > 0, fmt.Sprintf(": its jobs have %s to stop", a.leave))
}

// all aborts the operations in progress that the flags select, as they are when they are shown.
func (a *abortion) all(ctx context.Context, s *session, stdin io.Reader) error {
	req, err := a.wanted.request(time.Now())
	if err != nil {
		return usage(err)
	}
	req.InProgress, req.Limit = true, 1000
	frozen := &apipb.ListOperationsResponse{}
	for {
		page, err := s.ListOperations(ctx, req)
		if err != nil {
			return err
		}
		frozen.Operations = append(frozen.Operations, page.GetOperations()...)
		if !page.GetIncomplete() {
			break
		}
		req.After = page.GetNext()
	}
	count := len(frozen.GetOperations())
	if count == 0 {
		s.note("no operation in progress is selected: nothing is aborted")
		return s.show(view{message: frozen, text: func(time.Time) string { return "" }})
	}
	fmt.Fprint(s.err, operationsText(frozen, s.ids(), time.Now(), 0))
	if !a.yes {
		if err := agreed(s.err, stdin, fmt.Sprintf("abort these %s?", figures.Several(int64(count), "operation")), "nothing aborted", "give --yes"); err != nil {
			return err
		}
	}
	var failed []error
	done := &apipb.ListOperationsResponse{}
	for _, op := range frozen.GetOperations() {
		if err := s.AbortOperation(ctx, op.GetId(), a.reason, a.leave); err != nil {
			failed = append(failed, err)
			continue
		}
		done.Operations = append(done.Operations, op)
	}
	err = s.show(view{message: done, text: func(time.Time) string {
		return fmt.Sprintf("%d of %s aborted%s\n", len(done.GetOperations()), figures.Several(int64(count), "operation"), a.leaving())
	}})
	return errors.Join(append(failed, err)...)
}

// await waits until an operation has ended. Unless it has completed, the error says what
// went wrong.
func await(ctx context.Context, s *session, name string, quiet bool) error {
	var last *apipb.Operation
	meter := newMeter(screen.New(s.err), quiet)
	defer meter.close()
	for op, err := range s.WatchOperation(ctx, name) {
		if err != nil {
			meter.close()
			return waitEnded(ctx, err, last)
		}
		last = op
		meter.update(op)
	}
	meter.close()
	if !s.format.forPeople() || !quiet {
		if err := s.show(view{message: last, text: func(now time.Time) string { return summary(last, now) + "\n" }}); err != nil {
			return err
		}
	}
	if last.GetState() == lifecycle.Completed.String() {
		return nil
	}
	return &exitError{exitOperationEnded, endedBadly(last)}
}

// waitEnded returns the error of a wait that ended before the operation did. last is the
// last known state of the operation; nil if none.
func waitEnded(ctx context.Context, err error, last *apipb.Operation) error {
	if last == nil || ctx.Err() == nil {
		return err
	}
	code, why := exitTimedOut, "not ended within --timeout"
	if errors.Is(ctx.Err(), context.Canceled) {
		code, why = exitInterrupted, "interrupted"
	}
	id := last.GetId()
	return &exitError{code, fmt.Errorf("%s: operation %s is still running\n  weir op wait %s waits again\n  weir op abort %s aborts it", why, id, id, id)}
}

// endedBadly returns the error of an operation that has ended without completing,
// with all its causes.
func endedBadly(op *apipb.Operation) error {
	text := fmt.Sprintf("operation %s %s", op.GetId(), op.GetState())
	if op.GetResult() != nil {
		text += ": " + strings.TrimSpace(errorText(op.GetResult(), ""))
	}
	return errors.New(text)
}

// summary returns how an operation ended, on one line.
func summary(op *apipb.Operation, now time.Time) string {
	p := op.GetProgress()
	line := fmt.Sprintf("operation %s %s after %s: %s jobs completed, %d failed, %d aborted%s", op.GetId(), op.GetState(),
		lasted(op.GetStartTime(), op.GetFinishTime(), now), limited(p.GetCompleted(), p.GetTotal()), p.GetFailed(), p.GetAborted(),
		when(p.GetGivenUp() > 0, fmt.Sprintf(", %d given up", p.GetGivenUp())))
	if op.GetState() != lifecycle.Completed.String() {
		return line
	}
	reruns := p.GetFailed() + p.GetAborted() + p.GetRestarted() - p.GetAbortedByReason()[lifecycle.AbortOperationCompleted.String()]
	line = fmt.Sprintf("%s, %d reruns", line, reruns)
	if out := op.GetOutput(); out != nil {
		line += fmt.Sprintf("; %s read, %s written to %s", several(p.GetInput().GetRows(), "row"), several(out.GetRows(), "row"), out.GetPath())
	}
	return line
}

// meter shows the progress of an operation: a line for each state, then a bar once it runs
// and the number of its jobs is known.
type meter struct {
	screen *screen.Screen
	quiet  bool
	bar    *screen.Bar
	state  string
}

func newMeter(s *screen.Screen, quiet bool) *meter { return &meter{screen: s, quiet: quiet} }

func (m *meter) update(op *apipb.Operation) {
	if m.quiet {
		return
	}
	state := stateText(op) + when(op.GetPendingReason() != "", ": "+printable(op.GetPendingReason()))
	total := op.GetProgress().GetTotal()
	switch {
	case m.bar != nil:
	case total > 0 && op.GetState() == lifecycle.Running.String():
		m.bar = m.screen.Bar("jobs", total)
	case state != m.state && !terminal(op):
		m.screen.Say(state)
	}
	if m.bar != nil && state != m.state && op.GetPendingReason() != "" {
		m.screen.Say(state)
	}
	m.state = state
	odd := op.GetState() != lifecycle.Running.String() || op.GetSuspended()
	m.bar.Update(op.GetProgress().GetCompleted(), progressText(op.GetProgress())+when(odd, " ("+stateText(op)+")"))
}

// close ends the bar and leaves it on the screen. It may be called again.
func (m *meter) close() { m.bar.Close() }

// terminal reports whether an operation has ended.
func terminal(op *apipb.Operation) bool {
	state, err := lifecycle.ParseState(op.GetState())
	return err == nil && state.Terminal()
}

// stateText returns an operation's state in words.
func stateText(op *apipb.Operation) string {
	return op.GetState() + when(op.GetSuspended() && !terminal(op), " (suspended)")
}
