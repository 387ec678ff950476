package simulate

import (
	"context"
	"errors"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/scheduling/statistics"
)

// Cluster is what is read of a live cluster.
type Cluster interface {
	ListNodes(ctx context.Context, state string) ([]*apipb.Node, error)
	ListOperations(ctx context.Context, r *apipb.ListOperationsRequest) (*apipb.ListOperationsResponse, error)
	OperationStatistics(ctx context.Context, r *apipb.OperationStatisticsRequest) (*apipb.OperationStatisticsResponse, error)
}

// LivePeriod is of how long the operations of a live cluster come again, and after how long.
const LivePeriod = day

const (
	// mostLive bounds the operations that are read of a live cluster: those in progress, and those of the last day.
	mostLive = 2000
	// shortestLive is the least time that comes again: a cluster may be younger than a day.
	shortestLive = 10 * time.Minute
)

// Read reads the nodes, and the operations that are in progress or were started in the last day. `note` is told what
// is left out.
func (l *Live) Read(ctx context.Context, from Cluster, note func(line string, args ...any)) (err error) {
	if l.Nodes, err = from.ListNodes(ctx, ""); err != nil {
		return err
	}
	inProgress, more, err := list(ctx, from, &apipb.ListOperationsRequest{InProgress: true})
	if err != nil {
		return err
	}
	if more {
		note("only the latest %d operations in progress are simulated", len(inProgress))
	}
	recent, more, err := list(ctx, from, &apipb.ListOperationsRequest{StartedSince: timestamppb.New(l.Now.Add(-LivePeriod))})
	if err != nil {
		return err
	}
	if l.Period, err = l.period(ctx, from, recent, more); err != nil {
		return err
	}
	if more {
		note("only the latest %d operations of the last day are simulated: those of the last %v, which come again as often", len(recent), l.Period.Round(time.Second))
	}
	known := map[string]bool{}
	for _, op := range slices.Concat(inProgress, recent) {
		if !known[op.GetId()] {
			known[op.GetId()] = true
			l.Operations = append(l.Operations, op)
		}
	}
	l.RunTimes = map[string]map[string]RunTimes{}
	for _, op := range l.Operations {
		if op.GetHidden() != "" || op.GetProgress().GetCompleted() == 0 {
			continue
		}
		if l.RunTimes[op.GetId()], err = runTimes(ctx, from, op.GetId()); err != nil {
			return err
		}
	}
	return nil
}

// list lists operations, the latest start first, until it has mostLive, and says whether there are more.
func list(ctx context.Context, from Cluster, req *apipb.ListOperationsRequest) (all []*apipb.Operation, more bool, err error) {
	for req.Limit = 500; ; {
		page, err := from.ListOperations(ctx, req)
		if err != nil {
			return nil, false, err
		}
		all = append(all, page.GetOperations()...)
		if more = page.GetIncomplete(); !more || len(all) >= mostLive {
			return all, more, nil
		}
		req.After = page.GetNext()
	}
}

// period returns after how long recent operations come again: a day, or the time since the first of them if there were
// none before, or if there are more than were read.
func (l *Live) period(ctx context.Context, from Cluster, recent []*apipb.Operation, more bool) (time.Duration, error) {
	if len(recent) == 0 {
		return LivePeriod, nil
	}
	first := l.Now.Sub(recent[len(recent)-1].GetStartTime().AsTime())
	if more {
		return max(first, time.Second), nil
	}
	before, err := from.ListOperations(ctx, &apipb.ListOperationsRequest{StartedBefore: timestamppb.New(l.Now.Add(-LivePeriod)), Limit: 1})
	if err != nil || len(before.GetOperations()) > 0 {
		return LivePeriod, err
	}
	return max(first, shortestLive), nil
}

// runTimes returns what is known of the run times of an operation's jobs, by task; nothing if its record has gone.
func runTimes(ctx context.Context, from Cluster, operation string) (map[string]RunTimes, error) {
	measured, err := from.OperationStatistics(ctx, &apipb.OperationStatisticsRequest{Operation: operation, State: "completed"})
	var refused *client.Error
	if errors.As(err, &refused) && refused.Kind == connect.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	millis := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	tasks := map[string]RunTimes{}
	for _, m := range measured.GetStatistics() {
		if m.GetName() == statistics.TimeTotal && m.GetCount() > 0 {
			tasks[m.GetTask()] = RunTimes{
				Jobs: m.GetCount(), Mean: millis(m.GetSum() / m.GetCount()), P50: millis(m.GetP50()), P95: millis(m.GetP95()), Greatest: millis(m.GetMax()),
			}
		}
	}
	return tasks, nil
}
