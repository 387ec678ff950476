package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
	"weir/messages/eventpb"
	"weir/raftstore/events"
)

func newEventsCommand(f *clientFlags) *cobra.Command {
	request := &apipb.ReadEventsRequest{}
	var since string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened in the cluster, and follow what happens",
		Long: `Show what happened in the cluster, and follow what happens: leaders, nodes, pools,
operations, and each start, preemption, interruption and end of a job.

Events are complete and in order. Each has an index and a position within it,
which are the same on all replicas: --since 1234 or --since 1234.5 resumes there
on any replica. If events are no longer kept, the error names the oldest that is.
With -o json each event is an object on a line of its own.`,
		Example: `  weir events --follow
  weir events --since 5m --kind 'job_*' --pool ads
  weir events --since 120433.2 --follow -o json
  weir events --operation '*nightly' --kind job_preempted`,
		Args: takes(),
		RunE: f.verb(func(ctx context.Context, s *session, _ []string) error {
			if err := beginAt(request, since, time.Now()); err != nil {
				return &exitError{exitUsage, err}
			}
			for e, err := range s.ReadEvents(ctx, request) {
				if err != nil {
					if request.GetFollow() && errors.Is(err, context.Canceled) {
						return nil
					}
					return err
				}
				if err := s.tell(e); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&request.Follow, "follow", "f", false, "follow new events; without --since from now on")
	flags.StringVar(&since, "since", "", "where to start: INDEX, INDEX.POSITION, a time such as 2026-01-31T08:00:00Z, or how long ago, such as 5m (default: the oldest event)")
	flags.StringVar(&request.Operation, "operation", "", "only events of this operation, its jobs, and jobs preempted for it: an id or an alias")
	flags.StringVar(&request.Pool, "pool", "", "only events of this pool, and of the operations and jobs in it")
	flags.StringVar(&request.Tree, "tree", "", "only events of this pool tree")
	flags.StringVar(&request.Node, "node", "", "only events of this node, and of the jobs on it")
	flags.StringSliceVar(&request.Kinds, "kind", nil, "only events of these kinds; job_* stands for all with this prefix")
	mustComplete(cmd, "since", fixed())
	mustComplete(cmd, "operation", f.suggest(false, operationNames(false)))
	mustComplete(cmd, "pool", f.suggest(false, poolNames))
	mustComplete(cmd, "tree", f.suggest(false, treeNames))
	mustComplete(cmd, "node", f.suggest(false, nodeNames))
	mustComplete(cmd, "kind", fixed(events.Kinds()...))
	return cmd
}

// beginAt reads --since into a request.
func beginAt(m *apipb.ReadEventsRequest, since string, now time.Time) error {
	if since == "" {
		m.Latest = m.GetFollow()
		return nil
	}
	index, position, dotted := strings.Cut(since, ".")
	if !dotted {
		position = "0"
	}
	at, errIndex := strconv.ParseUint(index, 10, 64)
	within, errPosition := strconv.ParseUint(position, 10, 32)
	if errIndex == nil && errPosition == nil {
		m.Index, m.Position = at, uint32(within)
		return nil
	}
	if ago, err := time.ParseDuration(since); err == nil && ago >= 0 {
		m.Since = timestamppb.New(now.Add(-ago))
		return nil
	}
	if at, err := time.Parse(time.RFC3339Nano, since); err == nil {
		m.Since = timestamppb.New(at)
		return nil
	}
	return fmt.Errorf("--since %q: must be an index such as 1234 or 1234.5, a time such as 2026-01-31T08:00:00Z, or how long ago, such as 5m", since)
}

// tell prints an event: for programs as JSON on one line.
func (p *printer) tell(e *eventpb.Event) error {
	switch p.format {
	case formatJSON:
		line, err := eventLine(e)
		if err != nil {
			return err
		}
		return p.write(string(line))
	case formatYAML:
		return p.show(view{message: e})
	default:
		return p.write(eventText(e, time.Local) + "\n")
	}
}

// eventLine is an event as JSON: its place, its time and its kind first, then what else
// is set.
func eventLine(e *eventpb.Event) ([]byte, error) {
	rest := proto.CloneOf(e)
	rest.Index, rest.Position, rest.Time, rest.Kind = 0, 0, nil, ""
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(rest)
	if err != nil {
		return nil, fmt.Errorf("print as json: %w", err)
	}
	// protojson varies its spaces on purpose.
	var steady bytes.Buffer
	if err := json.Compact(&steady, data); err != nil {
		return nil, fmt.Errorf("print as json: %w", err)
	}
	line := fmt.Appendf(nil, `{"index":"%d","position":%d,"time":"%s","kind":%q`,
		e.GetIndex(), e.GetPosition(), e.GetTime().AsTime().Format(time.RFC3339Nano), e.GetKind())
	if more := steady.Bytes()[1:]; len(more) > 1 {
		line = append(append(line, ','), more...)
	} else {
		line = append(line, '}')
	}
	return append(line, '\n'), nil
}
