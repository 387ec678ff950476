package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
	"weir/messages/eventpb"
	"weir/raftstore/events"
)

func TestWhereEventsBegin(t *testing.T) {
	now := textTime
	for since, test := range map[string]struct {
		follow bool
		want   *apipb.ReadEventsRequest
	}{
		"":                     {want: &apipb.ReadEventsRequest{}},
		"12":                   {want: &apipb.ReadEventsRequest{Index: 12}},
		"12.3":                 {follow: true, want: &apipb.ReadEventsRequest{Index: 12, Position: 3, Follow: true}},
		"5m":                   {want: &apipb.ReadEventsRequest{Since: timestamppb.New(now.Add(-5 * time.Minute))}},
		"1.5h":                 {want: &apipb.ReadEventsRequest{Since: timestamppb.New(now.Add(-90 * time.Minute))}},
		"2026-02-01T08:00:00Z": {want: &apipb.ReadEventsRequest{Since: timestamppb.New(time.Date(2026, 2, 1, 8, 0, 0, 0, time.UTC))}},
	} {
		got := &apipb.ReadEventsRequest{Follow: test.follow}
		if err := beginAt(got, since, now); err != nil || !proto.Equal(got, test.want) {
			t.Errorf("%q: got %v, %v, want %v", since, got, err, test.want)
		}
	}
	latest := &apipb.ReadEventsRequest{Follow: true}
	if err := beginAt(latest, "", now); err != nil || !latest.GetLatest() {
		t.Errorf("followed from %v, %v, want the latest", latest, err)
	}
	for _, since := range []string{"yesterday", "-5m", "1.x", "12.-3"} {
		if err := beginAt(&apipb.ReadEventsRequest{}, since, now); err == nil {
			t.Errorf("%q was taken", since)
		}
	}
}

func TestEventLine(t *testing.T) {
	at := timestamppb.New(textTime)
	for want, e := range map[string]*eventpb.Event{
		`{"index":"7","position":0,"time":"2026-03-01T12:00:00Z","kind":"leader_changed","replica":"r1","term":"3"}` + "\n": {
			Index: 7, Time: at, Kind: "leader_changed", Replica: "r1", Term: 3,
		},
		`{"index":"8","position":2,"time":"2026-03-01T12:00:00Z","kind":"none"}` + "\n": {Index: 8, Position: 2, Time: at, Kind: "none"},
	} {
		if got, err := eventLine(e); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestEventTimesAreOfOnePlace(t *testing.T) {
	e := &eventpb.Event{
		Index: 7, Time: timestamppb.New(textTime), Kind: events.JobPreempted, Job: "j", Operation: "op", Task: "t", Pool: "ads", Node: "n1",
		Preemption: "preemption", Deadline: timestamppb.New(textTime.Add(15 * time.Second)),
	}
	const want = "2026-03-01 21:00:00.000  7.0         job j preempted on n1 (operation op, task t, pool ads): preemption, may stay until 21:00:15.000"
	if got := eventText(e, figures.IDs{}, time.FixedZone("east", 9*3600)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEventsOfJobsAsText reads the lines of jobs as people do.
func TestEventsOfJobsAsText(t *testing.T) {
	const by = "2026-03-01 12:00:00.000  7.0         job j "
	const of = " on n1 (operation op, task t, pool ads)"
	soon := timestamppb.New(textTime.Add(15 * time.Second))
	for name, test := range map[string]struct {
		event *eventpb.Event
		want  string
	}{
		"preempted for another": {
			&eventpb.Event{Kind: events.JobPreempted, Preemption: "preemption", PreemptedFor: &eventpb.Beneficiary{Operation: "poor"}, Deadline: soon},
			"preempted" + of + ": preemption for operation poor, may stay until 12:00:15.000",
		},
		"interrupted, and why": {
			&eventpb.Event{Kind: events.JobInterrupted, Interruption: "user_request", User: "ann", Message: "interrupted by user ann", Deadline: soon},
			"interrupted" + of + ": user_request (interrupted by user ann), may stay until 12:00:15.000",
		},
		"interrupted by a user": {
			&eventpb.Event{Kind: events.JobInterrupted, Interruption: "node_drain", User: "ann", Message: "a disk", Deadline: soon},
			"interrupted" + of + ": node_drain by ann (a disk), may stay until 12:00:15.000",
		},
		"failed":                {&eventpb.Event{Kind: events.JobFailed, ExitCode: 7, RunSeconds: 3, Message: "exited with code 7"}, "failed with exit code 7 after 3.0s" + of},
		"failed in its own way": {&eventpb.Event{Kind: events.JobFailed, ExitCode: -1, RunSeconds: 3, Message: "killed by SIGKILL"}, "failed after 3.0s" + of + ": killed by SIGKILL"},
		"aborted": {
			&eventpb.Event{Kind: events.JobAborted, RunSeconds: 3, Reason: "node_offline", Message: "its lease ran out"},
			"aborted after 3.0s" + of + ": node_offline (its lease ran out)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := test.event
			e.Index, e.Time, e.Job, e.Operation, e.Task, e.Pool, e.Node = 7, timestamppb.New(textTime), "j", "op", "t", "ads", "n1"
			if got := eventText(e, figures.IDs{}, time.UTC); got != by+test.want {
				t.Errorf("got  %s\nwant %s", got, by+test.want)
			}
		})
	}
}

// TestEachKindOfEventIsSaid, with nothing but its kind and with attributes.
func TestEachKindOfEventIsSaid(t *testing.T) {
	for _, kind := range append(events.Kinds(), "not_known_yet", "") {
		for _, attributes := range []map[string]string{nil, {"weight": "2"}} {
			got := happened(&eventpb.Event{Kind: kind, Attributes: attributes}, time.UTC)
			if strings.Contains(got, "template") || strings.Contains(got, "no value") {
				t.Errorf("%s: %q", kind, got)
			}
		}
	}
}

func TestEventLogFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"what is usual":     {},
		"more":              {args: []string{"--event-log-size", "2GiB", "--event-log-age", "1000h"}},
		"a size of no form": {args: []string{"--event-log-size", "much"}, want: `--event-log-size "much" is not a size: `},
		"too little":        {args: []string{"--event-log-size", "100KiB"}, want: `--event-log-size "100KiB" is too little: the minimum is 1MiB`},
		"too short":         {args: []string{"--event-log-age", "1s"}, want: "--event-log-age 1s: must be at least 1m"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newServerCommand()
			if err := cmd.ParseFlags(test.args); err != nil {
				t.Fatal(err)
			}
			f := &serverFlags{eventSize: flagOf(t, cmd.Flags(), "event-log-size")}
			var err error
			if f.eventAge, err = cmd.Flags().GetDuration("event-log-age"); err != nil {
				t.Fatal(err)
			}
			_, err = f.eventLog(nil)
			if got := errorOrNothing(err); len(got) < len(test.want) || got[:len(test.want)] != test.want || test.want == "" && err != nil {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func flagOf(t *testing.T, flags *pflag.FlagSet, name string) string {
	t.Helper()
	value, err := flags.GetString(name)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func errorOrNothing(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
