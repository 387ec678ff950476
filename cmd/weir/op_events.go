package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
)

func newOpEventsCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "events OPERATION",
		Short:             "List the state changes of an operation, by id or alias",
		Example:           "  weir op events '*nightly'",
		Args:              takes("OPERATION"),
		ValidArgsFunction: f.suggest(true, operationNames(false)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			events, err := s.OperationEvents(ctx, args[0])
			if err != nil {
				return err
			}
			v := view{
				message: &apipb.OperationEventsResponse{Events: events}, rows: true,
				text: func(now time.Time) string { return eventsText(events, now.Location()) },
			}
			if len(events) == 0 {
				v.empty = fmt.Sprintf("operation %s has no events", args[0])
			}
			return s.show(v)
		}),
	}
}

func eventsText(events []*apipb.OperationEvent, where *time.Location) string {
	g := newGrid("time", "state", "note", "attributes")
	for _, e := range events {
		g.row(e.GetTime().AsTime().In(where).Format("2006-01-02 15:04:05.000"), e.GetState(), e.GetNote(), attributes(e.GetAttributes()))
	}
	return g.String()
}
