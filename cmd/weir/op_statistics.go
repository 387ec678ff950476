package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/statistics"
)

func newOpStatisticsCommand(f *clientFlags) *cobra.Command {
	var req apipb.OperationStatisticsRequest
	cmd := &cobra.Command{
		Use:     "statistics OPERATION",
		Aliases: []string{"stats"},
		Short:   "Show statistics of an operation's jobs, and how much memory to request",
		Long: `Show statistics of an operation's finished jobs, summed by their final
state, and how much memory to request. p50, p95 and p99 are quantiles:
50%, 95% and 99% of the jobs had no more; they are accurate within three percent.

Several tasks of an operation are shown together; --task shows one. A statistic that is
0 for all jobs is omitted. In json and yaml everything is shown, in the unit given
with each number.`,
		Example: `  weir op statistics '*nightly'
  weir op statistics 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4a --task sort --state completed
  weir op statistics '*nightly' -o json | jq '.advice[].set_limit'`,
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			req.Operation = args[0]
			all, err := s.OperationStatistics(ctx, &req)
			empty := when(len(all.GetStatistics()) == 0, "no matching job has ended yet")
			return view{message: all, empty: empty, text: func(time.Time) string { return statisticsText(all) }}, err
		}),
	}
	cmd.Flags().StringVar(&req.Task, "task", "", "only jobs of this task")
	cmd.Flags().StringVar(&req.State, "state", "", "only jobs that ended in this state: completed, failed or aborted")
	must(cmd.RegisterFlagCompletionFunc("state", fixed(lifecycle.JobCompleted.String(), lifecycle.JobFailed.String(), lifecycle.JobAborted.String())))
	return cmd
}

// statisticsText draws statistics, a table for each state, and advice below them.
func statisticsText(all *apipb.OperationStatisticsResponse) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operation %s\n", all.GetOperationId())
	for _, section := range sections(slices.DeleteFunc(slices.Clone(all.GetStatistics()), isNothing)) {
		task := cmp.Or(when(section[0].GetTask() != "", "task "+section[0].GetTask()), "all tasks")
		ended := cmp.Or(section[0].GetState(), "all") + " jobs"
		fmt.Fprintf(&b, "\n%s, %s:\n", printable(task), printable(ended))
		g := newGrid("statistic", "jobs>", "sum>", "min>", "p50>", "p95>", "p99>", "max>")
		for _, s := range section {
			measured := func(v *int64) string {
				if v == nil {
					return none
				}
				return measure(*v, s.GetUnit())
			}
			// Ratios are not added up.
			sum := when(s.GetUnit() != string(statistics.PerTenMille), measured(&s.Sum))
			g.row(s.GetName(), s.GetCount(), sum, measured(&s.Min), measured(s.P50), measured(s.P95), measured(s.P99), measured(&s.Max))
		}
		b.WriteString(g.String())
	}
	return b.String() + adviceText(all.GetAdvice())
}

// isNothing reports whether a statistic is 0 for all jobs; tables omit it.
func isNothing(s *apipb.Statistic) bool { return s.GetMin() == 0 && s.GetMax() == 0 }

// sections returns the statistics to draw, by task and state. If there are totals over all tasks,
// it omits single tasks. If there is only one state, it omits the total over states.
func sections(all []*apipb.Statistic) [][]*apipb.Statistic {
	var out [][]*apipb.Statistic
	if len(all) == 0 {
		return nil
	}
	task, states := all[0].GetTask(), map[string]bool{}
	for _, s := range all {
		if s.GetTask() == task {
			states[s.GetState()] = true
		}
	}
	for _, s := range all {
		switch last := len(out) - 1; {
		case s.GetTask() != task || s.GetState() == "" && len(states) == 2:
		case last >= 0 && out[last][0].GetState() == s.GetState():
			out[last] = append(out[last], s)
		default:
			out = append(out, []*apipb.Statistic{s})
		}
	}
	return out
}

// adviceText draws the memory that tasks requested, reserved and used, and what to change.
func adviceText(all []*apipb.MemoryAdvice) string {
	g := newGrid("memory of", "jobs>", "limit>", "process reserve>", "p50>", "p95>", "max>", "reserved>", "of it used>")
	var change []string
	for _, a := range all {
		if a.GetJobs() == 0 {
			continue
		}
		used := number(100*float64(a.GetUsedByteSeconds())/float64(a.GetReservedByteSeconds()), 0) + "%"
		g.row(a.GetTask(), a.GetJobs(), size(a.GetLimit()), size(a.GetReserve()), size(a.GetP50()), size(a.GetP95()), size(a.GetMax()),
			measure(a.GetReservedByteSeconds(), string(statistics.ByteSeconds)), when(a.GetReservedByteSeconds() > 0, used))
		if a.GetText() != "" {
			change = append(change, fmt.Sprintf("%s: %s\n", printable(a.GetTask()), printable(a.GetText())))
		}
	}
	return g.section("") + strings.Join(change, "")
}

// measure formats a value of a statistic in its unit.
func measure(v int64, unit string) string {
	switch statistics.Unit(unit) {
	case statistics.Bytes:
		return size(v)
	case statistics.ByteSeconds:
		return size(v) + " s"
	case statistics.Milliseconds:
		return span(time.Duration(v) * time.Millisecond)
	case statistics.Microseconds:
		return span(time.Duration(v) * time.Microsecond)
	case statistics.PerTenMille:
		return number(float64(v)/100, 2) + "%"
	}
	return fmt.Sprint(v)
}

func jobStatisticsText(measured *apipb.JobStatisticsResponse) string {
	g := newGrid("statistic", "value>", "meaning")
	for _, s := range measured.GetStatistics() {
		if s.GetValue() == 0 {
			continue
		}
		g.row(s.GetName(), measure(s.GetValue(), s.GetUnit()), s.GetDescription())
	}
	return fmt.Sprintf("job %s, %s\n\n", measured.GetJobId(), measured.GetState()) + g.String()
}
