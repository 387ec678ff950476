package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
)

func newPoolHistoryCommand(f *poolFlags) *cobra.Command {
	var last, until, step time.Duration
	cmd := watchable(&cobra.Command{
		Use:   "history POOL",
		Short: "Chart fair share, usage and demand of a pool over time",
		Long: `Chart fair share, usage and demand of a pool over time.

Shares are of the whole cluster, by the pool's dominant resource, and the
volume is in seconds of the whole cluster; each column is the mean over a step. The
leader keeps a point per second for an hour and one per minute for a day; the next leader
continues from them. A gap is a time without a leader.`,
		Example: "  weir pool history ads\n  weir pool history ads --last 5m --watch\n  weir pool history ads --last 24h --step 10m -o json",
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			if last <= 0 || until < 0 || step < 0 || step%time.Second != 0 {
				return view{}, &exitError{exitUsage, errors.New("--last: must be more than 0; --until: must not be negative; --step: must be whole seconds")}
			}
			to := time.Now().Add(-until)
			answer, err := s.PoolHistory(ctx, &apipb.PoolHistoryRequest{
				Tree: f.tree, Pool: args[0], From: timestamppb.New(to.Add(-last)), To: timestamppb.New(to), StepSeconds: int64(step / time.Second),
			})
			return view{message: answer, text: func(time.Time) string { return historyText(answer, to.Add(-last), to) }}, err
		}),
	})
	cmd.Flags().DurationVar(&last, "last", time.Hour, "time span to chart")
	cmd.Flags().DurationVar(&until, "until", 0, "how long ago the chart ends")
	cmd.Flags().DurationVar(&step, "step", 0, "time span of a column (default: --last in 60 columns)")
	return cmd
}

// historyText draws a line of columns for each figure, all shares on one scale.
func historyText(answer *apipb.PoolHistoryResponse, from, to time.Time) string {
	points, step := answer.GetPoints(), answer.GetStepSeconds()
	if len(points) == 0 {
		return fmt.Sprintf("no history of pool %s of tree %s in that time\n", answer.GetPool(), answer.GetTree())
	}
	first := from.Unix() / step * step
	columns := int((to.Unix() - first + step - 1) / step)
	series := func(of func(*apipb.PoolPoint) float64) (values []float64, known []bool, greatest float64) {
		values, known = make([]float64, columns), make([]bool, columns)
		for _, p := range points {
			if at := int((p.GetTime().AsTime().Unix() - first) / step); at >= 0 && at < columns {
				values[at], known[at] = of(p), true
				greatest = max(greatest, of(p))
			}
		}
		return values, known, greatest
	}
	rows := []struct {
		name string
		of   func(*apipb.PoolPoint) float64
	}{
		{"fair share", (*apipb.PoolPoint).GetFairShare}, {"usage", (*apipb.PoolPoint).GetUsageShare}, {"demand", (*apipb.PoolPoint).GetDemandShare},
	}
	scale := 0.0
	for _, row := range rows {
		_, _, greatest := series(row.of)
		scale = max(scale, greatest)
	}
	now := points[len(points)-1]
	g := newGrid("", "chart", "now>", "most>")
	for _, row := range rows {
		values, known, greatest := series(row.of)
		last := row.of(now)
		g.row(row.name, sparkline(values, known, scale), share(&last), share(&greatest))
	}
	if values, known, greatest := series((*apipb.PoolPoint).GetVolume); greatest > 0 {
		g.row("volume", sparkline(values, known, greatest), number(now.GetVolume(), 1)+" s", number(greatest, 1)+" s")
	}
	return fmt.Sprintf("pool %s of tree %s, %s to %s, %s per column\n", answer.GetPool(), answer.GetTree(),
		from.Format("Jan 2 15:04:05"), to.Format("15:04:05"), span(time.Duration(step)*time.Second)) + g.String()
}

// sparks are columns of growing height.
var sparks = []rune(" ▁▂▃▄▅▆▇█")

// unknownSpark stands for a time without data.
const unknownSpark = '·'

// sparkline draws a column for each value. The highest column stands for `scale`. Any value above 0
// is visible.
func sparkline(values []float64, known []bool, scale float64) string {
	var line strings.Builder
	for i, v := range values {
		switch {
		case !known[i]:
			line.WriteRune(unknownSpark)
		case v <= 0 || scale <= 0:
			line.WriteRune(sparks[0])
		default:
			top := len(sparks) - 1
			line.WriteRune(sparks[min(max(int(v/scale*float64(top)+0.5), 1), top)])
		}
	}
	return line.String()
}

func newPoolLedgerCommand(f *poolFlags) *cobra.Command {
	return watchable(&cobra.Command{
		Use:   "ledger [POOL]",
		Short: "List the work lost to aborted jobs, by pool and cause",
		Long: `List the work lost to aborted jobs, by pool and cause: the resources that the jobs
held, times how long they ran. Jobs that stopped by themselves when asked, or had
reported their state as saved, lost nothing and are counted as saved.

With POOL, only that pool and those below it are listed. The ledger of a removed pool is added
to its parent's.`,
		Example: "  weir pool ledger\n  weir pool ledger ads --watch\n  weir pool ledger --tree gpu -o json",
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			ledger, err := s.PoolLedger(ctx, f.tree, strings.Join(args, ""))
			empty := when(len(ledger.GetWaste()) == 0, "no work was lost")
			return view{message: ledger, rows: true, empty: empty, text: func(time.Time) string { return ledgerText(ledger.GetWaste()) }}, err
		}),
	})
}

// ledgerText lists the lost work, and its sum.
func ledgerText(all []*apipb.Waste) string {
	g := newGrid("pool", "cause", "jobs>", "saved>", "cpu hours>", "memory GiB hours>", "gpu hours>")
	sum := &apipb.Waste{}
	for _, w := range all {
		g.row(w.GetPool(), w.GetCause(), w.GetJobs(), w.GetSavedJobs(), hours(w.GetCpuSeconds()), hours(w.GetMemoryByteSeconds()/(1<<30)), hours(w.GetGpuSeconds()))
		sum.Jobs += w.GetJobs()
		sum.SavedJobs += w.GetSavedJobs()
		sum.CpuSeconds += w.GetCpuSeconds()
		sum.MemoryByteSeconds += w.GetMemoryByteSeconds()
		sum.GpuSeconds += w.GetGpuSeconds()
	}
	if len(all) > 1 {
		g.row("all", "", sum.GetJobs(), sum.GetSavedJobs(), hours(sum.GetCpuSeconds()), hours(sum.GetMemoryByteSeconds()/(1<<30)), hours(sum.GetGpuSeconds()))
	}
	return g.String()
}

// hours formats a number of seconds as hours.
func hours(seconds float64) string { return number(seconds/3600, 3) }

// wasteText returns the work that an operation lost, on one line.
func wasteText(all []*apipb.Waste) string {
	var parts []string
	for _, w := range all {
		var said []string
		if w.GetJobs() > 0 {
			said = append(said, fmt.Sprintf("jobs %d, cpu hours %s", w.GetJobs(), hours(w.GetCpuSeconds())))
		}
		if w.GetSavedJobs() > 0 {
			said = append(said, several(w.GetSavedJobs(), "job")+" left in time")
		}
		parts = append(parts, w.GetCause()+": "+strings.Join(said, ", "))
	}
	return strings.Join(parts, "; ")
}
