package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
)

func newPoolLedgerCommand(f *poolFlags) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "ledger [POOL]",
		Short: "List the work lost to aborted jobs, by pool and cause",
		Long: `List the work lost to aborted jobs, by pool and cause: the resources that the jobs
held, times how long they ran. Jobs that stopped by themselves when asked, or had
reported their state as saved, lost nothing and are counted as saved.

With POOL it is that pool and those below it. The ledger of a removed pool is added
to its parent's.`,
		Example: "  weir pool ledger\n  weir pool ledger ads --watch\n  weir pool ledger --tree gpu -o json",
		Args:    takes("[POOL]"),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return s.repeat(ctx, watch, func(ctx context.Context) (view, error) {
				ledger, err := s.PoolLedger(ctx, f.tree, strings.Join(args, ""))
				if err != nil {
					return view{}, err
				}
				v := view{message: ledger, rows: true, text: func(time.Time) string { return ledgerText(ledger.GetWaste()) }}
				if len(ledger.GetWaste()) == 0 {
					v.empty = "no work was lost"
				}
				return v, nil
			})
		}),
		ValidArgsFunction: f.suggest(true, f.names),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, watchUsage)
	return cmd
}

// ledgerText lists what was lost, and the sum of it.
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

// hours writes seconds of something as hours.
func hours(seconds float64) string { return number(seconds/3600, 3) }

// wasteText is what an operation has lost, on one line.
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
