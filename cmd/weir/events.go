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
	"sync"
	"text/template"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cmd/weir/internal/figures"
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
				if err := s.tell(e, s.called(ctx, e.GetOperation(), e.GetPreemptedFor().GetOperation())); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&request.Follow, "follow", "f", false, "follow new events; without --since, begin with the next one")
	flags.StringVar(&since, "since", "", "where to start: INDEX, INDEX.POSITION, a time such as 2026-01-31T08:00:00Z, or how long ago, such as 5m (default: the oldest event)")
	flags.StringVar(&request.Operation, "operation", "", "only events of this operation, its jobs, and jobs preempted for it: an id or an alias")
	flags.StringVar(&request.Pool, "pool", "", "only events of this pool, and of the operations and jobs in it")
	flags.StringVar(&request.Tree, "tree", "", "only events of this pool tree")
	flags.StringVar(&request.Node, "node", "", "only events of this node, and of the jobs on it")
	flags.StringSliceVar(&request.Kinds, "kind", nil, "only events of these kinds; job_* stands for all with this prefix")
	must(cmd.RegisterFlagCompletionFunc("kind", fixed(events.Kinds()...)))
	return cmd
}

// beginAt parses --since into the request.
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

// tell prints an event. As JSON, the event is on one line.
func (p *printer) tell(e *eventpb.Event, ids figures.IDs) error {
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
		return p.write(eventText(e, ids, time.Local) + "\n")
	}
}

// eventLine returns an event as JSON: index, position, time and kind first, then the other
// fields that are set.
func eventLine(e *eventpb.Event) ([]byte, error) {
	rest := proto.CloneOf(e)
	rest.Index, rest.Position, rest.Time, rest.Kind = 0, 0, nil, ""
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(rest)
	if err != nil {
		return nil, fmt.Errorf("print as json: %w", err)
	}
	line := fmt.Appendf(nil, `{"index":"%d","position":%d,"time":"%s","kind":%q`,
		e.GetIndex(), e.GetPosition(), e.GetTime().AsTime().Format(time.RFC3339Nano), e.GetKind())
	line = append(append(line, when(len(data) > len("{}"), ",")...), data[1:]...)
	// protojson varies its spaces on purpose.
	var steady bytes.Buffer
	if err := json.Compact(&steady, line); err != nil {
		return nil, fmt.Errorf("print as json: %w", err)
	}
	return append(steady.Bytes(), '\n'), nil
}

// eventText returns an event for people, on one line: time, position in the log, and what
// happened.
func eventText(e *eventpb.Event, ids figures.IDs, where *time.Location) string {
	place := fmt.Sprintf("%d.%d", e.GetIndex(), e.GetPosition())
	return fmt.Sprintf("%s  %-10s  %s", e.GetTime().AsTime().In(where).Format("2006-01-02 15:04:05.000"), place, printable(ids.In(happened(e, where))))
}

// Parts of sentences.
const (
	jobPart      = "job {{.Job}} "
	therePart    = " on {{.Node}} (operation {{.Operation}}, task {{.Task}}, pool {{or .Pool `-`}})"
	taskPart     = "task {{.Task}} of operation {{.Operation}}"
	poolPart     = "{{with .Pool}} in pool {{.}}{{end}}"
	userPart     = "{{with .User}} by {{.}}{{end}}"
	amountsPart  = "{{with .Resources}} with {{amounts .}}{{end}}"
	reasonPart   = "{{with .Reason}} ({{.}}){{end}}"
	messagePart  = "{{with .Message}} ({{.}}){{end}}"
	toldPart     = "{{with .Message}}: {{.}}{{end}}"
	settingsPart = "{{with .Settings}}: {{.}}{{end}}"
)

// sentences are the texts of events by kind, as templates of text/template. A kind without a
// template uses that of its subject, the word before _. If the subject has none either, the
// template of "" is used.
var sentences = map[string]string{
	events.LeaderChanged: "replica {{.Replica}} leads in term {{.Term}}",

	events.OperationAccepted:   "operation {{.Operation}} accepted" + poolPart + userPart + "{{with or .Attributes.alias .Attributes.title}} ({{.}}){{end}}",
	events.OperationState:      "operation {{.Operation}}{{with .From}} {{.}}{{end}} -> {{.To}}" + poolPart + userPart + "{{with .Why}}: {{.}}{{end}}",
	events.OperationController: "operation {{.Operation}} is controlled by replica{{with .Replica}} {{.}}{{end}} (epoch {{.Epoch}})",
	"operation":                "operation {{.Operation}} {{.Verb}}" + poolPart + userPart + reasonPart + settingsPart,

	events.ReserveMoved: taskPart + " reserves {{size .Attributes.memory}} for a job instead of {{size .Attributes.memory_before}} " +
		"(samples: {{.Attributes.samples}})",
	events.GangIncarnation: "gang " + taskPart + " restarts as incarnation {{.Attributes.incarnation}}: {{.Message}}",
	events.RecordSkipped: taskPart + " skips a record on which every job failed: " +
		"{{.Attributes.path}}, bytes {{.Attributes.begin}} to {{.Attributes.end}}: {{.Attributes.head}}",
	events.OutputPublished: "operation {{.Operation}} has published {{.Attributes.path}}: {{.Attributes.rows}} rows, {{size .Attributes.bytes}}",
	events.ProfileSaved:    taskPart + " saved memory profile {{.Attributes.profile}}, of {{.Attributes.samples}} jobs in {{.Attributes.operations}} operations",
	events.ProfileRemoved:  "memory profile {{.Attributes.profile}} forgotten" + userPart,

	events.JobStarted:     jobPart + "started" + therePart + amountsPart,
	events.JobPreempted:   jobPart + "preempted" + therePart + ": {{.Preemption}}{{with .PreemptedFor}} for operation {{.Operation}}{{end}}{{.Until}}",
	events.JobInterrupted: jobPart + "interrupted" + therePart + ": {{.Interruption}}{{if not .UserSaid}}" + userPart + "{{end}}" + messagePart + "{{.Until}}",
	events.JobStopping:    jobPart + "ordered to stop" + therePart + ": {{.Reason}}" + messagePart,
	"job":                 jobPart + "{{.Ended}} after {{.Ran}}" + therePart + "{{with .Why}}: {{.}}{{end}}",

	events.NodeMoved:  "node {{.Node}} moved from tree {{or .From `-`}} to {{or .To `-`}}" + toldPart,
	events.NodeOnline: "node {{.Node}} online" + userPart + amountsPart + "{{with .Tree}} in tree {{.}}{{end}}" + toldPart,
	"node":            "node {{.Node}} {{.Verb}}" + userPart + amountsPart + toldPart,

	events.TreeDefault: "tree {{.Tree}} is the default now, instead of {{.From}}",
	events.PoolRenamed: "pool {{.From}} of tree {{.Tree}} renamed to {{.To}}" + userPart,
	"pool":             "pool {{.Pool}} of tree {{.Tree}} {{.Verb}}{{with .To}} below {{.}}{{end}}" + userPart + reasonPart + settingsPart,
	"":                 "{{.Subject}}{{with .Tree}} {{.}}{{end}} {{.Verb}}" + userPart + reasonPart + settingsPart,
}

// sayings parses the sentences once.
var sayings = sync.OnceValue(func() *template.Template {
	all := template.New("sayings").Option("missingkey=zero").Funcs(template.FuncMap{"amounts": eventAmounts, "size": sizeOf})
	for kind, sentence := range sentences {
		template.Must(all.New(kind).Parse(sentence))
	}
	return all
})

// happened returns the sentence about an event.
func happened(e *eventpb.Event, where *time.Location) string {
	subject, verb, _ := strings.Cut(e.GetKind(), "_")
	all := sayings()
	var b strings.Builder
	if err := cmp.Or(all.Lookup(e.GetKind()), all.Lookup(subject), all.Lookup("")).Execute(&b, happening{e, subject, verb, where}); err != nil {
		return e.GetKind() + ": " + err.Error()
	}
	return b.String()
}

// happening is the data of the sentence templates.
type happening struct {
	*eventpb.Event
	Subject, Verb string
	where         *time.Location
}

// UserSaid reports whether the message of an interruption already names the user.
func (h happening) UserSaid() bool { return h.GetInterruption() == statepb.InterruptedByUser }

// Ran returns how long a job ran.
func (h happening) Ran() string {
	return span(time.Duration(h.GetRunSeconds() * float64(time.Second)))
}

// Until returns the deadline by which an interrupted job must stop, and what delays its notice.
func (h happening) Until() string {
	until := ""
	if h.GetDeadline() != nil && !h.GetDeadline().AsTime().Equal(h.GetTime().AsTime()) {
		until = ", may stay until " + h.GetDeadline().AsTime().In(h.where).Format("15:04:05.000")
	}
	switch attributes := h.GetAttributes(); {
	case attributes["replaced"] != "":
		until += ", to be notified when its successor is ready"
	case attributes["held_until"] != "":
		until += ", to be notified when enough other instances are ready"
	}
	return until
}

// Ended returns how a job ended. A negative exit code means that it was killed by a signal,
// or never started.
func (h happening) Ended() string {
	ended := h.Verb
	if h.GetKind() == events.JobFailed && h.GetExitCode() >= 0 {
		ended = fmt.Sprintf("failed with exit code %d", h.GetExitCode())
	}
	if h.GetAttributes()["rerun"] == "true" {
		ended += " and runs again"
	}
	if h.GetAttributes()["given_up"] == "true" {
		ended += " in its last attempt"
	}
	return ended
}

// Why returns why a job or an operation came to its state. It omits a message that only
// repeats the exit code.
func (h happening) Why() string {
	switch {
	case h.GetPreemptedFor() != nil:
		return strings.TrimSpace(h.GetReason() + " for operation " + h.GetPreemptedFor().GetOperation())
	case h.GetMessage() == "", h.Subject == "job" && h.GetMessage() == fmt.Sprintf("exited with code %d", h.GetExitCode()):
		return h.GetReason()
	case h.GetReason() == "" && h.Subject == "job":
		return h.GetMessage()
	}
	return strings.TrimSpace(h.GetReason() + " (" + h.GetMessage() + ")")
}

// Settings returns the changed options as path=value; null resets an option to its default.
func (h happening) Settings() string {
	var parts []string
	of := h.GetAttributes()
	for _, path := range slices.Sorted(maps.Keys(of)) {
		if of[path] == "null" && path != "pool" && !strings.HasSuffix(path, ":pool") {
			parts = append(parts, defaultAgain(path))
			continue
		}
		parts = append(parts, path+"="+of[path])
	}
	return strings.Join(parts, ", ")
}

// sizeOf formats a number of bytes that is given as text.
func sizeOf(bytes string) string {
	n, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return bytes
	}
	return size(n)
}

func eventAmounts(r *eventpb.Resources) string {
	return amounts(&apipb.Resources{UserSlots: r.GetUserSlots(), Cpu: r.GetCpu(), Gpu: r.GetGpu(), Memory: r.GetMemory(), Network: r.GetNetwork()})
}
