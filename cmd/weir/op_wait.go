package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
