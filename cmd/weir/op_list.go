package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
)

func newOpListCommand(f *clientFlags) *cobra.Command {
	var req apipb.ListOperationsRequest
	var watch bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List operations, latest start first",
		Example: `  weir op list
  weir op list --in-progress --pool ads --watch
  weir op list --state failed --user ann -o json`,
		Args: takes(),
		RunE: f.verb(func(ctx context.Context, s *session, _ []string) error {
			return s.repeat(ctx, watch, func(ctx context.Context) (view, error) {
				page, err := s.ListOperations(ctx, &req)
				if err != nil {
					return view{}, err
				}
				return operationsView(page, &req), nil
			})
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&req.State, "state", "", "only operations in this state, such as running")
	flags.StringVar(&req.Pool, "pool", "", "only operations of this pool")
	flags.StringVar(&req.User, "user", "", "only operations of this user")
	flags.StringVar(&req.Filter, "filter", "", "only operations with this in their id, title or alias")
	flags.BoolVar(&req.InProgress, "in-progress", false, "only operations that have not ended")
	flags.Int32Var(&req.Limit, "limit", 100, "maximum number to list, up to 1000")
	flags.StringVar(&req.After, "after", "", "id of the operation after which to continue the list")
	flags.BoolVar(&watch, "watch", false, watchUsage)
	mustComplete(cmd, "user", f.suggest(false, userNames))
	mustComplete(cmd, "filter", fixed())
	mustComplete(cmd, "after", fixed())
	mustComplete(cmd, "state", fixed(operationStates()...))
	mustComplete(cmd, "pool", f.suggest(false, poolNames))
	return cmd
}

func operationsView(page *apipb.ListOperationsResponse, req *apipb.ListOperationsRequest) view {
	v := view{message: page, rows: true, text: func(now time.Time) string { return operationsText(page, now) }}
	switch {
	case len(page.GetOperations()) > 0:
	case proto.Equal(req, &apipb.ListOperationsRequest{Limit: req.GetLimit()}):
		v.empty = "no operations yet: start one with weir op start"
	default:
		v.empty = "no matching operation: weir op list without flags shows all"
	}
	return v
}

func operationsText(page *apipb.ListOperationsResponse, now time.Time) string {
	g := newGrid("operation", "state", "pool", "user", "jobs", "started", "took>", "alias", "title")
	last := ""
	for _, op := range page.GetOperations() {
		last = op.GetId()
		g.row(op.GetId(), stateText(op), op.GetPool(), op.GetUser(), progressText(op.GetProgress()), age(op.GetStartTime(), now),
			lasted(op.GetStartTime(), op.GetFinishTime(), now), op.GetAlias(), cmp.Or(clip(printable(op.GetTitle()), 40), none))
	}
	if !page.GetIncomplete() {
		return g.String()
	}
	return g.String() + fmt.Sprintf("\nmore: --after %s continues, --limit shows more at once\n", last)
}
