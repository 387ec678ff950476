package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
	"weir/messages/eventpb"
	"weir/messages/statepb"
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

// workHappened says what happened to the memory, the input or the gang of a task; false:
// it is about something else.
func workHappened(e *eventpb.Event) (said string, ok bool) {
	of := e.GetAttributes()
	task := fmt.Sprintf("task %s of operation %s", e.GetTask(), e.GetOperation())
	switch e.GetKind() {
	case events.ReserveMoved:
		return fmt.Sprintf("%s reserves %s for a job instead of %s (samples: %s)", task, sizeOf(of["memory"]), sizeOf(of["memory_before"]), of["samples"]), true
	case events.GangIncarnation:
		return fmt.Sprintf("gang %s restarts as incarnation %s: %s", task, of["incarnation"], e.GetMessage()), true
	case events.RecordSkipped:
		return fmt.Sprintf("%s skips a record on which every job failed: %s, bytes %s to %s: %s", task, of["path"], of["begin"], of["end"], of["head"]), true
	case events.OutputPublished:
		return fmt.Sprintf("operation %s has published %s: %s rows, %s", e.GetOperation(), of["path"], of["rows"], sizeOf(of["bytes"])), true
	case events.ProfileSaved:
		return fmt.Sprintf("%s leaves memory profile %s, of %s jobs in %s operations", task, of["profile"], of["samples"], of["operations"]), true
	case events.ProfileRemoved:
		return phrase("memory profile", of["profile"], "forgotten", put("by ", e.GetUser(), "")), true
	}
	return "", false
}

// sizeOf writes bytes that are told as text.
func sizeOf(bytes string) string {
	n, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return bytes
	}
	return size(n)
}

// eventText is an event for people, on one line: when, where in the log, and what.
func eventText(e *eventpb.Event, where *time.Location) string {
	place := fmt.Sprintf("%d.%d", e.GetIndex(), e.GetPosition())
	return fmt.Sprintf("%s  %-10s  %s", e.GetTime().AsTime().In(where).Format("2006-01-02 15:04:05.000"), place, printable(happened(e, where)))
}

// happened says what happened.
func happened(e *eventpb.Event, where *time.Location) string {
	if said, ok := workHappened(e); ok {
		return said
	}
	switch {
	case e.GetKind() == events.LeaderChanged:
		return fmt.Sprintf("replica %s leads in term %d", e.GetReplica(), e.GetTerm())
	case strings.HasPrefix(e.GetKind(), "job_"):
		return jobHappened(e, where)
	case strings.HasPrefix(e.GetKind(), "operation_"):
		return operationHappened(e)
	case strings.HasPrefix(e.GetKind(), "node_"):
		return nodeHappened(e)
	default:
		return treeHappened(e)
	}
}

// phrase puts together the parts that say something.
func phrase(parts ...string) string {
	var said []string
	for _, part := range parts {
		if part != "" {
			said = append(said, part)
		}
	}
	return strings.Join(said, " ")
}

// put is text around a value, or nothing.
func put(before, value, after string) string {
	if value == "" {
		return ""
	}
	return before + value + after
}

func jobHappened(e *eventpb.Event, where *time.Location) string {
	verb := strings.TrimPrefix(e.GetKind(), "job_")
	subject := fmt.Sprintf("job %s", e.GetJob())
	on := phrase("on", e.GetNode(), fmt.Sprintf("(operation %s, task %s, pool %s)", e.GetOperation(), e.GetTask(), cmp.Or(e.GetPool(), none)))
	until := ""
	if e.GetDeadline() != nil && !e.GetDeadline().AsTime().Equal(e.GetTime().AsTime()) {
		until = fmt.Sprintf(", may stay until %s", e.GetDeadline().AsTime().In(where).Format("15:04:05.000"))
	}
	switch attributes := e.GetAttributes(); {
	case attributes["replaced"] != "":
		until += ", to be notified when its successor is ready"
	case attributes["held_until"] != "":
		until += ", to be notified when others can do without it"
	}
	switch e.GetKind() {
	case events.JobStarted:
		return phrase(subject, "started", on, put("with ", eventAmounts(e.GetResources()), ""))
	case events.JobPreempted:
		return phrase(subject, "preempted", on+":", e.GetPreemption(), put("for operation ", e.GetPreemptedFor().GetOperation(), "")) + until
	case events.JobInterrupted:
		by := put("by ", e.GetUser(), "")
		if e.GetInterruption() == statepb.InterruptedByUser {
			by = "" // The message says it.
		}
		return phrase(subject, "interrupted", on+":", e.GetInterruption(), by, put("(", e.GetMessage(), ")")) + until
	case events.JobStopping:
		return phrase(subject, "ordered to stop", on+":", e.GetReason(), put("(", e.GetMessage(), ")"))
	case events.JobFailed:
		if e.GetExitCode() < 0 { // killed by a signal, or never started
			break
		}
		verb = fmt.Sprintf("failed with exit code %d", e.GetExitCode())
	}
	ran := "after " + span(time.Duration(e.GetRunSeconds()*float64(time.Second)))
	if e.GetAttributes()["rerun"] == "true" {
		verb += " and runs again"
	}
	if e.GetAttributes()["given_up"] == "true" {
		verb += " in its last attempt"
	}
	said := phrase(subject, verb, ran, on)
	message := e.GetMessage()
	if message == fmt.Sprintf("exited with code %d", e.GetExitCode()) {
		message = ""
	}
	if e.GetPreemptedFor() != nil {
		// Why is told with the preemption.
		return said + put(": ", phrase(e.GetReason(), "for operation", e.GetPreemptedFor().GetOperation()), "")
	}
	if e.GetReason() != "" {
		message = put("(", message, ")")
	}
	return said + put(": ", phrase(e.GetReason(), message), "")
}

func operationHappened(e *eventpb.Event) string {
	subject := phrase("operation", e.GetOperation())
	in := put("in pool ", e.GetPool(), "")
	by := put("by ", e.GetUser(), "")
	switch e.GetKind() {
	case events.OperationAccepted:
		return phrase(subject, "accepted", in, by, put("(", cmp.Or(e.GetAttributes()["alias"], e.GetAttributes()["title"]), ")"))
	case events.OperationState:
		said := phrase(subject, e.GetFrom(), "->", e.GetTo(), in, by)
		return said + put(": ", phrase(e.GetReason(), put("(", e.GetMessage(), ")")), "")
	case events.OperationController:
		return phrase(subject, "is controlled by replica", e.GetReplica(), fmt.Sprintf("(epoch %d)", e.GetEpoch()))
	}
	verb := strings.TrimPrefix(e.GetKind(), "operation_")
	return phrase(subject, verb, in, by, put("(", e.GetReason(), ")")) + put(": ", settings(e.GetAttributes()), "")
}

// settings are new values of options by path; nothing is the default again.
func settings(of map[string]string) string {
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(of)) {
		if of[path] == "null" && path != "pool" && !strings.HasSuffix(path, ":pool") {
			parts = append(parts, defaultAgain(path))
			continue
		}
		parts = append(parts, path+"="+of[path])
	}
	return strings.Join(parts, ", ")
}

func nodeHappened(e *eventpb.Event) string {
	verb := strings.TrimPrefix(e.GetKind(), "node_")
	said := phrase("node", e.GetNode(), verb, put("by ", e.GetUser(), ""), put("with ", eventAmounts(e.GetResources()), ""))
	switch e.GetKind() {
	case events.NodeMoved:
		said = phrase("node", e.GetNode(), "moved from tree", cmp.Or(e.GetFrom(), none), "to", cmp.Or(e.GetTo(), none))
	case events.NodeOnline:
		said = phrase(said, put("in tree ", e.GetTree(), ""))
	}
	return said + put(": ", e.GetMessage(), "")
}

func treeHappened(e *eventpb.Event) string {
	subject, verb, _ := strings.Cut(e.GetKind(), "_")
	by := put("by ", e.GetUser(), "")
	switch e.GetKind() {
	case events.TreeDefault:
		return phrase("tree", e.GetTree(), "is the default now, instead of", e.GetFrom())
	case events.PoolRenamed:
		return phrase("pool", e.GetFrom(), "of tree", e.GetTree(), "renamed to", e.GetTo(), by)
	}
	name := phrase(e.GetPool(), "of tree", e.GetTree())
	if e.GetPool() == "" {
		name = e.GetTree()
	}
	below := ""
	if subject == "pool" {
		below = put("below ", e.GetTo(), "")
	}
	return phrase(subject, name, verb, below, by, put("(", e.GetReason(), ")")) + put(": ", settings(e.GetAttributes()), "")
}

func eventAmounts(r *eventpb.Resources) string {
	if r == nil {
		return ""
	}
	return amounts(&apipb.Resources{UserSlots: r.GetUserSlots(), Cpu: r.GetCpu(), Gpu: r.GetGpu(), Memory: r.GetMemory(), Network: r.GetNetwork()})
}
