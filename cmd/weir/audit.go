package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/scheduling/audit"
)

func newAuditCommand(f *clientFlags) *cobra.Command {
	var follow bool
	var since string
	var filter auditFilter
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed something or was refused, from all replicas",
		Long: `Show who changed something, read output of jobs or was refused, when, and why, from
the audit logs of all replicas. Each replica records the calls that it answers. Equal
calls within a second are one line with a count. It needs operator credentials.

With --follow it goes on with new lines, and with those of a replica that comes back.
With -o json each line is as in the audit log.`,
		Example: "  weir audit --since 1d --user ann --outcome denied\n  weir audit --object 'pool ads'\n  weir audit --follow -o json >>audit.jsonl",
		RunE: f.verb(func(ctx context.Context, s *session, _ []string) error {
			ago, err := longAgo(since)
			if err = cmp.Or(err, filter.check()); err != nil {
				return &exitError{exitUsage, err}
			}
			a := &auditReading{session: s, from: &apipb.ReadAuditRequest{Follow: follow}, filter: filter}
			if ago > 0 || follow {
				a.from.After = uint64(time.Now().Add(-ago).UnixMicro())
			}
			if follow {
				return a.follow(ctx)
			}
			return a.all(ctx)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow new lines; without --since, begin with the next one")
	cmd.Flags().StringVar(&since, "since", "", "how long ago to start, such as 5m or 1d (default: the oldest line)")
	cmd.Flags().StringVar(&filter.user, "user", "", "only lines about the user, operator or gateway of this name")
	cmd.Flags().StringVar(&filter.outcome, "outcome", "", "only lines with this outcome: allowed, denied, failed or lost")
	cmd.Flags().StringVar(&filter.object, "object", "", "only lines whose object or change has this text, such as 'pool ads'")
	must(cmd.RegisterFlagCompletionFunc("outcome", fixed(auditOutcomes...)))
	return cmd
}

var auditOutcomes = []string{string(audit.Allowed), string(audit.Denied), string(audit.Failed), string(audit.Lost)}

// auditFilter selects lines; an empty field matches all.
type auditFilter struct{ user, outcome, object string }

func (f auditFilter) check() error {
	if f.outcome != "" && !slices.Contains(auditOutcomes, f.outcome) {
		return fmt.Errorf("--outcome %q: must be one of %s", f.outcome, strings.Join(auditOutcomes, ", "))
	}
	return nil
}

func (f auditFilter) takes(line audit.Line) bool {
	return (f.user == "" || f.user == line.User || f.user == line.Gateway) && (f.outcome == "" || f.outcome == string(line.Outcome)) &&
		(f.object == "" || strings.Contains(line.Object, f.object) || strings.Contains(line.Change, f.object))
}

// longAgo reads how long ago something was: a duration, or a number of days such as 1d.
func longAgo(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	ago, err := time.ParseDuration(text)
	if days, is := strings.CutSuffix(text, "d"); is {
		var n int
		if n, err = strconv.Atoi(days); n > 36500 {
			err = strconv.ErrRange
		}
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || ago < 0 {
		return 0, fmt.Errorf("--since %q: must be a duration such as 90s, 5m, 12h or 7d", text)
	}
	return ago, nil
}

// auditReading reads the audit logs of all replicas.
type auditReading struct {
	*session
	from   *apipb.ReadAuditRequest
	filter auditFilter
	// mu guards the output.
	mu sync.Mutex
}

// request returns a request of its own for a replica.
func (a *auditReading) request() *apipb.ReadAuditRequest {
	return &apipb.ReadAuditRequest{After: a.from.GetAfter(), Follow: a.from.GetFollow()}
}

// auditFound is a line, and its text.
type auditFound struct {
	audit.Line
	raw string
}

// byTime orders lines of several replicas by when they were decided: seq is when they were written.
func byTime(a, b auditFound) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Seq, b.Seq))
}

// all prints the lines that there are, in order of time.
func (a *auditReading) all(ctx context.Context) error {
	members, err := a.Members(ctx)
	if err != nil {
		return err
	}
	var lines []auditFound
	var missing []error
	for _, m := range members {
		err := a.ReadAudit(ctx, m.GetAddress(), a.request(), func(raw string) error {
			line, err := parseAudit(raw)
			if a.filter.takes(line) {
				lines = append(lines, auditFound{line, raw})
			}
			return err
		})
		if isDenied(err) {
			return err
		}
		if err != nil {
			missing = append(missing, fmt.Errorf("replica %s: %w", m.GetId(), err))
		}
	}
	slices.SortStableFunc(lines, byTime)
	for _, line := range lines {
		if err := a.print(line.Line, line.raw); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("lines are missing: %w", errors.Join(missing...))
	}
	return nil
}

// Pauses of a reader that follows.
const (
	auditRetry   = time.Second
	auditMembers = 5 * time.Second
)

// follow prints lines of all replicas as they are written, until ctx is done.
func (a *auditReading) follow(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var readers sync.WaitGroup
	defer readers.Wait()
	known := make(map[string]bool)
	for {
		members, err := a.Members(ctx)
		if err != nil && len(known) == 0 {
			return err
		}
		for _, m := range members {
			if source := m.GetId() + " " + m.GetAddress(); !known[source] && m.GetAddress() != "" {
				known[source] = true
				readers.Go(func() { a.followOne(ctx, fail, m) })
			}
		}
		if pausedUntilDone(ctx, auditMembers) {
			fail(nil)
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
	}
}

// followOne prints the lines of one replica. If it does not answer, it tries again.
func (a *auditReading) followOne(ctx context.Context, fail context.CancelCauseFunc, m *apipb.Member) {
	request := a.request()
	silent := false
	for {
		var printing error
		err := a.ReadAudit(ctx, m.GetAddress(), request, func(raw string) error {
			silent = false
			line, err := parseAudit(raw)
			if err == nil && a.filter.takes(line) {
				err = a.print(line, raw)
			}
			printing = err
			return err
		})
		if printing != nil || isDenied(err) {
			fail(cmp.Or(printing, err))
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !silent {
			silent = true
			a.mu.Lock()
			a.note("replica %s does not answer; its lines follow when it does: %v", m.GetId(), err)
			a.mu.Unlock()
		}
		if pausedUntilDone(ctx, auditRetry) {
			return
		}
	}
}

// pausedUntilDone waits, and reports whether ctx is done.
func pausedUntilDone(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-ctx.Done():
		return true
	}
}

// isDenied reports whether the caller may not read audit logs.
func isDenied(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Kind == connect.CodePermissionDenied
}

func parseAudit(raw string) (line audit.Line, err error) {
	if err = json.Unmarshal([]byte(raw), &line); err != nil {
		err = fmt.Errorf("read audit log: line %q: %w", raw, err)
	}
	return line, err
}

// print prints a line.
func (a *auditReading) print(line audit.Line, raw string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.format.forPeople() {
		return a.write(auditText(line, time.Local) + "\n")
	}
	// A line of JSON is an entry of a list in YAML too.
	return a.write(when(a.format == formatYAML, "- ") + raw + "\n")
}

// auditText returns a line for people: time, replica, subject, what was decided about which call, and
// why.
func auditText(line audit.Line, where *time.Location) string {
	who := strings.TrimSpace(line.Role + " " + line.User)
	for _, part := range []struct{ before, text string }{{" by gateway ", line.Gateway}, {" of ", line.Groups}, {" at ", line.Address}} {
		who += when(part.text != "", part.before+part.text)
	}
	text := joined(" ", string(line.Outcome), line.Method, line.Object, when(line.Various, "(various objects)"))
	if line.Count > 1 {
		text += fmt.Sprintf(" (%d times)", line.Count)
	}
	text = joined(": ", text, line.Change, line.Code, line.Why)
	return printable(fmt.Sprintf("%s  %-4s  %s: %s", line.Time.In(where).Format("2006-01-02 15:04:05.000"), line.Replica, who, text))
}

// joined joins the parts that are not empty.
func joined(between string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), between)
}
