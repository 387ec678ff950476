package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
)

func newJobInterruptCommand(f *clientFlags) *cobra.Command {
	var reason string
	var leave leaving
	cmd := &cobra.Command{
		Use:   "interrupt JOB",
		Short: "Ask a job to stop gracefully",
		Long: `Ask a job to stop gracefully: it gets no more input and the interruption_signal of its
task, and is killed if it still runs at the deadline. A job that has been interrupted before
keeps the earlier of the two deadlines.

Its exit code decides: 0 is completed, the restart_exit_code of its task is
completed and rerun, anything else is failed. Unread input goes to
another job. Jobs of a task with neither input nor an interruption_signal can only be
stopped by weir job abort.`,
		Example: `  weir job interrupt 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b
  weir job interrupt 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b --timeout 5m --reason "new version"`,
		Args:              takes("JOB"),
		ValidArgsFunction: f.suggest(true, jobNames(true)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := leave.check(cmd); err != nil {
				return err
			}
			return f.verb(func(ctx context.Context, s *session, args []string) error {
				deadline, err := s.InterruptJob(ctx, args[0], reason, leave.time)
				if err != nil {
					return unknownJob(ctx, s, args[0], err)
				}
				answer := &apipb.InterruptJobResponse{}
				if deadline.IsZero() {
					return s.said(answer, "job %s has ended", args[0])
				}
				answer.Deadline = timestamppb.New(deadline)
				return s.said(answer, "job %s is asked to stop, until %s at the latest", args[0], deadline.Local().Format("15:04:05"))
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the job")
	mustComplete(cmd, "reason", fixed())
	leave.register(cmd, "timeout", "how long the job has to stop (default: its allocation_preemption_timeout)")
	return cmd
}

// leaving is the flag that gives jobs time to leave.
type leaving struct {
	name string
	time time.Duration
}

func (l *leaving) register(cmd *cobra.Command, name, usage string) {
	l.name = name
	cmd.Flags().DurationVar(&l.time, name, 0, usage)
}

// check refuses times that no job could use.
func (l *leaving) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed(l.name) && l.time < time.Millisecond {
		return &exitError{exitUsage, fmt.Errorf("--%s %s: must be a millisecond or more", l.name, l.time)}
	}
	return nil
}

// interruptionFacts says why a job had to leave, until when, and for whom.
func interruptionFacts(page facts, j *apipb.Job, now time.Time) {
	in := j.GetInterruption()
	if in == nil {
		return
	}
	what, when := "ordered to stop", ""
	if in.GetReason() != "" {
		what, when = "asked to stop", ", until "+untilText(in.GetDeadline(), now)
		if in.GetHeldUntil() != nil && j.GetFinishTime() == nil {
			what, when = "to be asked to stop", ", when others can do without it, or at "+untilText(in.GetHeldUntil(), now)
		}
	}
	why := in.GetReason()
	if in.GetPreemption() != "" {
		why = in.GetPreemption()
	}
	if why == "" {
		why = in.GetAbortReason()
	}
	page.add(what, why+when)
	if in.GetPreemptedForOperation() != "" {
		page.add("to make room for", fmt.Sprintf("operation %s, task %s", in.GetPreemptedForOperation(), in.GetPreemptedForTask()))
	}
	if in.GetMessage() != "" {
		page.add("because", printable(in.GetMessage()))
	}
	if j.GetAcknowledged() {
		page.add("saved", "it reported its state as saved, and was stopped before its deadline")
	}
}

// untilText says when a time is, or was, by the clock and by how far it is.
func untilText(t *timestamppb.Timestamp, now time.Time) string {
	if left := t.AsTime().Sub(now); left > 0 {
		return fmt.Sprintf("%s (%s left)", t.AsTime().In(now.Location()).Format("2006-01-02 15:04:05"), span(left))
	}
	return moment(t, now)
}

func portsText(ports []int32) string {
	words := make([]string, len(ports))
	for i, port := range ports {
		words[i] = fmt.Sprint(port)
	}
	return strings.Join(words, " ")
}
