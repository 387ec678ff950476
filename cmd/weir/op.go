package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

func newOpCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:     "op",
		Aliases: []string{"operation"},
		Short:   "Start, follow and control operations",
		Long: `Start, follow and control operations.

An operation is work for many jobs. It is identified by its id, or by its alias if it has
one.`,
		Example: `  id=$(weir op start -f spec.yaml)
  weir op wait $id
  weir op list --in-progress`,
	}, newOpStartCommand(f), newOpRetryCommand(f), newOpListCommand(f), newOpGetCommand(f), newOpWaitCommand(f), newOpLogsCommand(f), newOpInstancesCommand(f),
		newOpStatisticsCommand(f), newOpAbortCommand(f), newOpSuspendCommand(f), newOpUpdateCommand(f), &cobra.Command{
			Use:     "events OPERATION",
			Short:   "List the state changes of an operation, by id or alias",
			Example: "  weir op events '*nightly'",
			RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
				events, err := s.OperationEvents(ctx, args[0])
				return view{
					message: &apipb.OperationEventsResponse{Events: events}, rows: true,
					empty: when(len(events) == 0, fmt.Sprintf("operation %s has no events", args[0])),
					text:  func(now time.Time) string { return eventsText(events, now.Location()) },
				}, err
			}),
		}, &cobra.Command{
			Use:               "resume OPERATION",
			Short:             "Resume a suspended operation, by id or alias",
			Example:           "  weir op resume '*nightly'",
			ValidArgsFunction: f.suggest(true, operationNames(true)),
			RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
				return s.said(s.ResumeOperation(ctx, args[0]), &apipb.ResumeOperationResponse{}, "operation %s is resumed", args[0])
			}),
		}, &cobra.Command{
			Use:   "complete OPERATION",
			Short: "Complete an operation early, with what has been done, by id or alias",
			Long: `Complete an operation early, with what has been done, by id or alias. Its running jobs
are aborted; its state is completed.`,
			Example:           "  weir op complete '*service'",
			ValidArgsFunction: f.suggest(true, operationNames(true)),
			RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
				return s.said(s.CompleteOperation(ctx, args[0]), &apipb.CompleteOperationResponse{}, "operation %s completes with what has been done", args[0])
			}),
		})
}

func newOpListCommand(f *clientFlags) *cobra.Command {
	var req apipb.ListOperationsRequest
	cmd := watchable(&cobra.Command{
		Use:   "list",
		Short: "List operations, latest start first",
		Example: `  weir op list
  weir op list --in-progress --pool ads --watch
  weir op list --state failed --user ann -o json`,
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			page, err := s.ListOperations(ctx, &req)
			return operationsView(page, &req), err
		}),
	})
	flags := cmd.Flags()
	flags.StringVar(&req.State, "state", "", "only operations in this state, such as running")
	flags.StringVar(&req.Pool, "pool", "", "only operations of this pool")
	flags.StringVar(&req.User, "user", "", "only operations of this user")
	flags.StringVar(&req.Filter, "filter", "", "only operations whose id, title or alias contains this text")
	flags.BoolVar(&req.InProgress, "in-progress", false, "only operations that have not ended")
	flags.Int32Var(&req.Limit, "limit", 100, "maximum number to list, up to 1000")
	flags.StringVar(&req.After, "after", "", "id of the operation after which to continue the list")
	must(cmd.RegisterFlagCompletionFunc("state", fixed(operationStates()...)))
	return cmd
}

func operationsView(page *apipb.ListOperationsResponse, req *apipb.ListOperationsRequest) view {
	empty := "no matching operation: weir op list without flags shows all"
	if proto.Equal(req, &apipb.ListOperationsRequest{Limit: req.GetLimit()}) {
		empty = "no operations yet: start one with weir op start"
	}
	return view{
		message: page, rows: true, empty: when(len(page.GetOperations()) == 0, empty),
		text: func(now time.Time) string { return operationsText(page, now) },
	}
}

func operationsText(page *apipb.ListOperationsResponse, now time.Time) string {
	g := newGrid("operation", "state", "pool", "user", "jobs", "started", "took>", "alias", "title")
	last := ""
	for _, op := range page.GetOperations() {
		last = op.GetId()
		g.row(op.GetId(), stateText(op), op.GetPool(), op.GetUser(), progressText(op.GetProgress()), age(op.GetStartTime(), now),
			lasted(op.GetStartTime(), op.GetFinishTime(), now), op.GetAlias(), cmp.Or(clip(printable(op.GetTitle()), 40), none))
	}
	return g.String() + when(page.GetIncomplete(), fmt.Sprintf("\nmore: --after %s continues, --limit shows more at once\n", last))
}

func eventsText(events []*apipb.OperationEvent, where *time.Location) string {
	g := newGrid("time", "state", "note", "attributes")
	for _, e := range events {
		g.row(e.GetTime().AsTime().In(where).Format("2006-01-02 15:04:05.000"), e.GetState(), e.GetNote(), attributes(e.GetAttributes()))
	}
	return g.String()
}

func newOpUpdateCommand(f *clientFlags) *cobra.Command {
	var tree string
	var unset []string
	cmd := &cobra.Command{
		Use:   "update OPERATION OPTION=VALUE...",
		Short: "Change the options or the pool of a running operation, by id or alias",
		Long: `Change the options or the pool of a running operation, by id or alias: only
those given. Its jobs keep running. Without --tree the change applies to all of the
operation's trees.

Options are name=value; an empty value means the default, and pool=POOL moves the operation.

` + optionsHelp[pooltree.OperationOptions](),
		Example: `  weir op update '*nightly' weight=2 pool=ads
  weir op update '*nightly' resource_limits.user_slots=20 --tree gpu
  weir op update '*nightly' --unset weight`,
		ValidArgsFunction: f.completeOptions(operationNames(true), option.Fields(pooltree.OperationOptions{}), "pool"),
	}
	var change apipb.OperationChange
	var done string
	checked(cmd, func(args []string) (err error) {
		change.Pool, change.Options, done, err = changeOf[pooltree.OperationOptions]("pool", args[1:], unset)
		return err
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		change.Tree = tree
		updated, err := s.UpdateOperation(ctx, &apipb.UpdateOperationRequest{Operation: args[0], Changes: []*apipb.OperationChange{&change}})
		s.warn(updated.GetWarnings())
		return s.said(err, updated, "changed operation %s: %s", args[0], done)
	})
	cmd.Flags().StringVar(&tree, "tree", "", "change the operation in this tree only (default: all of its trees)")
	registerUnset(cmd, &unset, pooltree.OperationOptions{})
	return cmd
}

func newOpAbortCommand(f *clientFlags) *cobra.Command {
	var reason string
	var leave time.Duration
	cmd := &cobra.Command{
		Use:   "abort OPERATION",
		Short: "Abort an operation and its jobs, by id or alias",
		Long: `Abort an operation and its jobs, by id or alias: at once, or with --interrupt-timeout
by interruption, which suits services: its jobs get their interruption_signal and no
more input, and have that long to stop. Jobs of a task with neither are killed at once.`,
		Example: `  weir op abort '*nightly' --reason "wrong input"
  weir op abort '*search' --interrupt-timeout 5m`,
		ValidArgsFunction: f.suggest(true, operationNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			said := fmt.Sprintf("operation %s is aborted", args[0])
			if leave > 0 {
				said += fmt.Sprintf(": its jobs have %s to stop", leave)
			}
			return s.said(s.AbortOperation(ctx, args[0], reason, leave), &apipb.AbortOperationResponse{}, "%s", said)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the operation")
	registerLeaving(cmd, &leave, "interrupt-timeout", "ask its jobs to stop within this time (default: they are killed at once)")
	return cmd
}

func newOpSuspendCommand(f *clientFlags) *cobra.Command {
	var abort bool
	cmd := &cobra.Command{
		Use:               "suspend OPERATION",
		Short:             "Start no more jobs of an operation, by id or alias",
		Example:           "  weir op suspend '*nightly'\n  weir op suspend '*nightly' --abort-running-jobs",
		ValidArgsFunction: f.suggest(true, operationNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			err := s.SuspendOperation(ctx, args[0], abort)
			return s.said(err, &apipb.SuspendOperationResponse{}, "operation %[1]s is suspended: weir op resume %[1]s resumes it", args[0])
		}),
	}
	cmd.Flags().BoolVar(&abort, "abort-running-jobs", false, "also abort running jobs; they are rerun later")
	return cmd
}
