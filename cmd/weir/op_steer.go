package main

import (
	"context"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
)

func newOpAbortCommand(f *clientFlags) *cobra.Command {
	var reason string
	var leave leaving
	cmd := &cobra.Command{
		Use:   "abort OPERATION",
		Short: "Abort an operation and its jobs, by id or alias",
		Long: `Abort an operation and its jobs, by id or alias: at once, or with --interrupt-timeout
by interruption, which suits services: its jobs get their signal, no
more input, and that time to stop; jobs of tasks with neither are killed at once.`,
		Example: `  weir op abort '*nightly' --reason "wrong input"
  weir op abort '*search' --interrupt-timeout 5m`,
		Args:              takes("OPERATION"),
		ValidArgsFunction: f.suggest(true, operationNames(true)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := leave.check(cmd); err != nil {
				return err
			}
			return f.verb(func(ctx context.Context, s *session, args []string) error {
				if err := s.AbortOperation(ctx, args[0], reason, leave.time); err != nil {
					return err
				}
				if leave.time > 0 {
					return s.said(&apipb.AbortOperationResponse{}, "operation %s is aborted: its jobs have %s to stop", args[0], leave.time)
				}
				return s.said(&apipb.AbortOperationResponse{}, "operation %s is aborted", args[0])
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the operation")
	mustComplete(cmd, "reason", fixed())
	leave.register(cmd, "interrupt-timeout", "ask its jobs to stop within this time (default: they are killed at once)")
	return cmd
}

func newOpSuspendCommand(f *clientFlags) *cobra.Command {
	var abort bool
	cmd := &cobra.Command{
		Use:               "suspend OPERATION",
		Short:             "Start no more jobs of an operation, by id or alias",
		Example:           "  weir op suspend '*nightly'\n  weir op suspend '*nightly' --abort-running-jobs",
		Args:              takes("OPERATION"),
		ValidArgsFunction: f.suggest(true, operationNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if err := s.SuspendOperation(ctx, args[0], abort); err != nil {
				return err
			}
			return s.said(&apipb.SuspendOperationResponse{}, "operation %[1]s is suspended: weir op resume %[1]s resumes it", args[0])
		}),
	}
	cmd.Flags().BoolVar(&abort, "abort-running-jobs", false, "also abort running jobs; they are rerun later")
	return cmd
}

func newOpResumeCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "resume OPERATION",
		Short:             "Resume a suspended operation, by id or alias",
		Example:           "  weir op resume '*nightly'",
		Args:              takes("OPERATION"),
		ValidArgsFunction: f.suggest(true, operationNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if err := s.ResumeOperation(ctx, args[0]); err != nil {
				return err
			}
			return s.said(&apipb.ResumeOperationResponse{}, "operation %s is resumed", args[0])
		}),
	}
}

func newOpCompleteCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "complete OPERATION",
		Short: "Complete an operation early, with what has been done, by id or alias",
		Long: `Complete an operation early, with what has been done, by id or alias. Its running jobs
are aborted; its state is completed.`,
		Example:           "  weir op complete '*service'",
		Args:              takes("OPERATION"),
		ValidArgsFunction: f.suggest(true, operationNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if err := s.CompleteOperation(ctx, args[0]); err != nil {
				return err
			}
			return s.said(&apipb.CompleteOperationResponse{}, "operation %s completes with what has been done", args[0])
		}),
	}
}
