package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
)

func newJobInterruptCommand(f *clientFlags) *cobra.Command {
	var reason string
	var leave time.Duration
	cmd := &cobra.Command{
		Use:   "interrupt JOB",
		Short: "Ask a job to stop gracefully",
		Long: `Ask a job to stop gracefully: it gets the interruption_signal of its task and no more
input, and is killed if it still runs at the deadline. A job that has been interrupted before
keeps the earlier of the two deadlines.

Its exit code decides: 0 is completed, the restart_exit_code of its task is
completed and rerun, anything else is failed. Unread input goes to
another job. Jobs of a task with neither input nor an interruption_signal can only be
stopped by weir job abort.`,
		Example: `  weir job interrupt 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b
  weir job interrupt 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b --timeout 5m --reason "new version"`,
		ValidArgsFunction: f.suggest(true, jobNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			deadline, err := s.InterruptJob(ctx, args[0], reason, leave)
			err = unknownJob(ctx, s, args[0], err)
			if deadline.IsZero() {
				return s.said(err, &apipb.InterruptJobResponse{}, "job %s has ended", args[0])
			}
			answer := &apipb.InterruptJobResponse{Deadline: timestamppb.New(deadline)}
			return s.said(err, answer, "job %s was asked to stop; it has until %s", args[0], deadline.Local().Format("15:04:05"))
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the job")
	registerLeaving(cmd, &leave, "timeout", "how long the job has to stop (default: its allocation_preemption_timeout)")
	return cmd
}

// registerLeaving adds the flag that sets how long jobs have to stop. It rejects times that
// are too short for any job.
func registerLeaving(cmd *cobra.Command, leave *time.Duration, name, usage string) {
	cmd.Flags().DurationVar(leave, name, 0, usage)
	checked(cmd, func([]string) error {
		if cmd.Flags().Changed(name) && *leave < time.Millisecond {
			return fmt.Errorf("--%s %s: must be a millisecond or more", name, *leave)
		}
		return nil
	})
}

// interruptionFacts adds why a job must stop, by when, and for which operation.
func interruptionFacts(page facts, j *apipb.Job, now time.Time) {
	in := j.GetInterruption()
	if in == nil {
		return
	}
	what, until := "ordered to stop", ""
	if in.GetReason() != "" {
		what, until = "asked to stop", ", until "+untilText(in.GetDeadline(), now)
		if in.GetHeldUntil() != nil && j.GetFinishTime() == nil {
			what, until = "to be asked to stop", ", when enough other instances are ready, or at "+untilText(in.GetHeldUntil(), now)
		}
	}
	page.add(what, cmp.Or(in.GetPreemption(), in.GetReason(), in.GetAbortReason())+until)
	page.add("to make room for", when(in.GetPreemptedForOperation() != "",
		fmt.Sprintf("operation %s, task %s", in.GetPreemptedForOperation(), in.GetPreemptedForTask())))
	page.add("because", in.GetMessage())
	page.add("saved", when(j.GetAcknowledged(), "it reported its state as saved, and was stopped before its deadline"))
}

// untilText formats a deadline, with the time left or its age.
func untilText(t *timestamppb.Timestamp, now time.Time) string {
	if left := t.AsTime().Sub(now); left > 0 {
		return fmt.Sprintf("%s (%s left)", t.AsTime().In(now.Location()).Format("2006-01-02 15:04:05"), span(left))
	}
	return moment(t, now)
}
