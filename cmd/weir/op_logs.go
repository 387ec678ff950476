package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/scheduling"
)

// streams are the outputs of a job.
var streams = []string{"stdout", "stderr"}

func newOpLogsCommand(f *clientFlags) *cobra.Command {
	o := client.Logs{Tail: -1}
	var since string
	only := map[string]*bool{"stdout": new(bool), "stderr": new(bool)}
	cmd := &cobra.Command{
		Use:   "logs OPERATION",
		Short: "Print what all jobs of an operation have written, by id or alias",
		Long: `Print what all jobs of an operation have written, by id or alias: of jobs that have
not ended, and of the latest that have, as far as their nodes keep it.

Each line begins with task and cookie of its job, the last digits of the job's id
and, if it is of its stderr, err. Without --follow the jobs come one after the other,
the oldest first. With --follow lines come as they are written, also those of jobs
that start later, until the operation has ended; of many jobs that write nothing,
each is asked less often (100 outputs a second). With -o json each line is an
object on a line of its own.`,
		Example: `  weir op logs '*nightly' --follow
  weir op logs '*nightly' --failed --stderr --tail 20
  weir op logs '*search' --task frontend --follow --tail 0`,
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			o.Operation = args[0]
			return s.logs(ctx, o)
		}),
	}
	checked(cmd, func([]string) (err error) {
		o.Streams = nil
		for _, name := range streams {
			if *only[name] || !*only["stdout"] && !*only["stderr"] {
				o.Streams = append(o.Streams, name)
			}
		}
		if cmd.Flags().Changed("tail") && o.Tail < 0 {
			return fmt.Errorf("--tail %d: must be 0 or more", o.Tail)
		}
		o.Since, err = sinceTime(since, time.Now())
		return err
	})
	flags := cmd.Flags()
	flags.BoolVarP(&o.Follow, "follow", "f", false, "follow until the operation has ended")
	flags.StringVar(&o.Task, "task", "", "only jobs of this task")
	flags.BoolVar(&o.Failed, "failed", false, "only jobs that have failed")
	flags.BoolVar(only["stdout"], "stdout", false, "only what jobs have written to their stdout")
	flags.BoolVar(only["stderr"], "stderr", false, "only what jobs have written to their stderr")
	flags.IntVar(&o.Tail, "tail", -1, "only the last lines of each output; jobs that start later are shown whole (default: all)")
	flags.StringVar(&since, "since", "", "only jobs that ended after this, or have not ended: a time such as 2026-01-31T08:00:00Z, or how long ago, such as 5m")
	return cmd
}

// sinceTime parses a time, or how long ago it was. Empty text is the zero time.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("--since %q: must be a time such as 2026-01-31T08:00:00Z, or how long ago, such as 5m", text)
	}
	return at, nil
}

// logs prints the output of the jobs of an operation.
func (s *session) logs(ctx context.Context, o client.Logs) error {
	shown := false
	gaps, err := s.OperationLogs(ctx, o, func(line client.LogLine) error {
		shown = true
		return s.logLine(line)
	})
	if gaps.Jobs > 0 {
		s.note("output of %s is missing, the first because: %v", several(int64(gaps.Jobs), "job"), gaps.First)
	}
	switch {
	case o.Follow && errors.Is(err, context.Canceled):
		return nil
	case err == nil && !shown && gaps.Jobs == 0:
		s.note("no matching job of operation %s has written anything", o.Operation)
	}
	return err
}

// logLine prints a line of a job's output.
func (p *printer) logLine(line client.LogLine) error {
	if p.format == formatTable {
		return p.write(logText(line))
	}
	text, job := strings.ToValidUTF8(string(line.Text), "\uFFFD"), line.Job
	if p.format == formatYAML {
		message, err := messageOf(logObject(job, line.Stream, text))
		if err != nil {
			return err
		}
		return p.show(view{message: message})
	}
	data, err := json.Marshal(logObject(job, line.Stream, text))
	if err != nil {
		return fmt.Errorf("print as json: %w", err)
	}
	return p.write(string(data) + "\n")
}

// loggedLine is a line of a job's output, for programs.
type loggedLine struct {
	Job     string `json:"job_id"`
	Task    string `json:"task"`
	Cookie  int32  `json:"cookie"`
	Attempt int32  `json:"attempt"`
	Node    string `json:"node"`
	Stream  string `json:"stream"`
	Text    string `json:"text"`
}

func logObject(job *apipb.Job, stream, text string) loggedLine {
	return loggedLine{job.GetId(), job.GetTask(), job.GetCookie(), job.GetAttempt(), job.GetNode(), stream, text}
}

// logText returns a line of a job's output, with whose it is.
func logText(line client.LogLine) string {
	return fmt.Sprintf("%s/%d %s%s: %s\n", printable(line.Job.GetTask()), line.Job.GetCookie(), scheduling.ShortID(line.Job.GetId()),
		when(line.Stream == "stderr", " err"), line.Text)
}
