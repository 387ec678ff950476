package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/spec"
	"weir/cmd/weir/internal/figures"
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

An operation is work for many jobs. It is identified by its id, by the first or the last
digits of its id (6 or more), or by its alias if it has one.`,
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
	var wanted operationsWanted
	cmd := watchable(&cobra.Command{
		Use:   "list",
		Short: "List operations, those in progress first",
		Long: `List operations: those in progress first, latest start first, and then those that have
ended, latest end first. All that are kept are listed, or those that all flags given select.

--failed selects operations that failed, and those of which a job failed, whatever
became of them.`,
		Example: `  weir op list
  weir op list --in-progress --pool ads --watch
  weir op list --failed --since 1h
  weir op list --label team=ads --type service
  weir op list --state failed --user ann -o json`,
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			req, err := wanted.request(time.Now())
			if err != nil {
				return view{}, usage(err)
			}
			req.InProgressFirst = true
			page, err := s.ListOperations(ctx, req)
			return operationsView(page, req, s.ids()), err
		}),
	})
	checked(cmd, func([]string) error {
		_, err := wanted.request(time.Now())
		return err
	})
	wanted.register(cmd)
	return cmd
}

// operationTypes are those by which lists select.
var operationTypes = []string{"vanilla", "map", "service", "gang"}

// operationsWanted are the flags of weir op list: a request, and its times as they are written.
type operationsWanted struct {
	req                                                 apipb.ListOperationsRequest
	failed                                              bool
	since, startedBefore, finishedSince, finishedBefore string
}

// registerLive defines the flags that select among operations that have not ended.
func (w *operationsWanted) registerLive(cmd *cobra.Command) {
	flags, req := cmd.Flags(), &w.req
	flags.StringVar(&req.State, "state", "", "only operations in this state, such as running")
	flags.StringVar(&req.Pool, "pool", "", "only operations of this pool")
	flags.StringVar(&req.User, "user", "", "only operations of this user")
	flags.StringVar(&req.Type, "type", "", "only operations of this type: vanilla, map, service or gang")
	flags.StringArrayVar(&req.Labels, "label", nil, "only operations with this label: NAME=VALUE, NAME!=VALUE, or NAME for any value; repeat it to narrow the list")
	flags.StringVar(&req.Title, "title", "", "only operations whose title contains this text")
	flags.StringVar(&req.Filter, "filter", "", "only operations whose id, title or alias contains this text")
	flags.StringVar(&w.since, "since", "", "only operations that started since then: how long ago, such as 1h or 7d, or a time such as 2026-01-31T08:00:00Z")
	flags.StringVar(&w.startedBefore, "started-before", "", "only operations that started before then")
	must(cmd.RegisterFlagCompletionFunc("state", fixed(operationStates()...)))
	must(cmd.RegisterFlagCompletionFunc("type", fixed(operationTypes...)))
}

// register defines the flags.
func (w *operationsWanted) register(cmd *cobra.Command) {
	w.registerLive(cmd)
	flags, req := cmd.Flags(), &w.req
	flags.BoolVar(&req.InProgress, "in-progress", false, "only operations that have not ended")
	flags.BoolVar(&w.failed, "failed", false, "only operations that failed or had a failed job; with --since, that did since then")
	flags.Lookup("since").Usage = "only operations that started since then (with --failed: that failed): how long ago, such as 1h or 7d, or a time such as 2026-01-31T08:00:00Z"
	flags.StringVar(&w.finishedSince, "finished-since", "", "only operations that ended since then")
	flags.StringVar(&w.finishedBefore, "finished-before", "", "only operations that ended before then")
	flags.Int32Var(&req.Limit, "limit", 100, "maximum number to list, up to 1000")
	flags.StringVar(&req.After, "after", "", "where to continue: what the list before says at its end")
}

// request returns the request at a time, or what is wrong with the flags.
func (w *operationsWanted) request(now time.Time) (*apipb.ListOperationsRequest, error) {
	req := proto.CloneOf(&w.req)
	if req.GetType() != "" && !slices.Contains(operationTypes, req.GetType()) {
		return nil, fmt.Errorf("--type %q: must be one of %s", req.GetType(), strings.Join(operationTypes, ", "))
	}
	for _, label := range req.GetLabels() {
		if _, err := spec.ParseLabelSelector(label); err != nil {
			return nil, fmt.Errorf("--label: %w", err)
		}
	}
	since := &req.StartedSince
	if w.failed {
		since, req.FailedSince = &req.FailedSince, &timestamppb.Timestamp{}
	}
	for _, flag := range []struct {
		name, text string
		at         **timestamppb.Timestamp
	}{
		{"since", w.since, since}, {"started-before", w.startedBefore, &req.StartedBefore},
		{"finished-since", w.finishedSince, &req.FinishedSince}, {"finished-before", w.finishedBefore, &req.FinishedBefore},
	} {
		if flag.text == "" {
			continue
		}
		at, err := instant(flag.name, flag.text, now)
		if err != nil {
			return nil, err
		}
		*flag.at = timestamppb.New(at)
	}
	for _, span := range []struct {
		since, before string
		from, to      *timestamppb.Timestamp
	}{
		{"since", "started-before", req.GetStartedSince(), req.GetStartedBefore()},
		{"finished-since", "finished-before", req.GetFinishedSince(), req.GetFinishedBefore()},
	} {
		if span.from != nil && span.to != nil && !span.from.AsTime().Before(span.to.AsTime()) {
			return nil, fmt.Errorf("--%s is not earlier than --%s: no time is between them", span.since, span.before)
		}
	}
	return req, nil
}

// instant reads the time that a flag names: how long before now, or the time itself.
func instant(flag, text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	ago, err := longAgo(text)
	if err != nil {
		return now, fmt.Errorf("--%s %q: must be how long ago, such as 90s, 1h or 7d, or a time such as 2026-01-31T08:00:00Z", flag, text)
	}
	return now.Add(-ago), nil
}

func operationsView(page *apipb.ListOperationsResponse, req *apipb.ListOperationsRequest, ids figures.IDs) view {
	empty := "no matching operation: weir op list without flags shows all"
	if proto.Equal(req, &apipb.ListOperationsRequest{Limit: req.GetLimit(), InProgressFirst: true}) {
		empty = "no operations yet: start one with weir op start"
	}
	return view{
		message: page, rows: true, empty: when(len(page.GetOperations()) == 0, empty),
		fit: func(now time.Time, screen int) string { return operationsText(page, ids, now, screen) },
	}
}

func operationsText(page *apipb.ListOperationsResponse, ids figures.IDs, now time.Time, screen int) string {
	g := newGrid("operation", "state", "jobs>?2", "running>?5", "failed>?4", "pool?1", "user?3", "started?6", "title")
	if ids.Full {
		g = newGrid("operation", "state", "pool", "user", "jobs", "started", "took>", "alias", "title")
	}
	for _, op := range page.GetOperations() {
		p := op.GetProgress()
		if ids.Full {
			g.row(op.GetId(), stateCell(stateText(op)), op.GetPool(), op.GetUser(), progressText(p), age(op.GetStartTime(), now),
				lasted(op.GetStartTime(), op.GetFinishTime(), now), op.GetAlias(), op.GetTitle())
			continue
		}
		g.row(ids.ID(op.GetId()), stateCell(stateText(op)), limited(p.GetCompleted(), p.GetTotal()), p.GetRunning(), p.GetFailed(), op.GetPool(), op.GetUser(),
			age(op.GetStartTime(), now), figures.Title(op.GetAlias(), op.GetTitle()))
	}
	return g.within(screen) + when(page.GetIncomplete(), fmt.Sprintf("\nmore: --after %s continues, --limit shows more at once\n", page.GetNext()))
}

func eventsText(events []*apipb.OperationEvent, where *time.Location) string {
	g := newGrid("time", "state", "note", "attributes")
	for _, e := range events {
		g.row(e.GetTime().AsTime().In(where).Format("2006-01-02 15:04:05.000"), stateCell(e.GetState()), e.GetNote(), attributes(e.GetAttributes()))
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
