package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/chaos"
	"weir/chaos/check"
	"weir/chaos/fault"
	"weir/chaos/witness"
	"weir/cmd/weir/internal/screen"
)

// mostShown is the maximum number of violations of one invariant that the summary shows.
const mostShown = 10

// chaosSummary returns the summary of a run.
func chaosSummary(f check.Figures, violations []check.Violation, took time.Duration) string {
	of := make(map[string][]check.Violation)
	for _, v := range violations {
		of[v.Invariant] = append(of[v.Invariant], v)
	}
	parts := []string{faultTable(f).String(), runTable(f, took).String(), invariantTable(f, of).String()}
	if shown := shownViolations(of); len(shown) > 0 {
		parts = append(parts, strings.Join(shown, "\n")+"\n")
	}
	return strings.Join(parts, "\n")
}

// faultTable lists the faults by kind, and how long clients were without service.
func faultTable(f check.Figures) grid {
	t := newGrid("fault", "whom", "times>", "no effect>", "median gap>", "longest gap>")
	times, void := 0, 0
	for _, g := range f.Faults {
		times, void = times+g.Count, void+g.Void
		t.row(g.Kind, g.Scope, g.Count, g.Void, gapText(g.MedianGap), gapText(g.WorstGap))
	}
	t.row("all", "", times, void, "", gapText(time.Duration(f.WorstGap)))
	return t
}

// gapText formats a duration in seconds, so that rows compare easily; "" if it is zero.
func gapText(d time.Duration) string {
	return when(d != 0, fmt.Sprintf("%.2f s", d.Seconds()))
}

// runTable lists the figures of the run.
func runTable(f check.Figures, took time.Duration) facts {
	t := newFacts()
	t.row("took", took.Round(time.Second))
	t.row("leader changes", f.LeaderChanges)
	t.row("submissions acknowledged", f.Submitted)
	t.row("aborts acknowledged", f.Aborted)
	t.row("calls without a response", f.Unknown)
	t.row("operations completed", f.Operations["completed"])
	t.row("operations aborted", f.Operations["aborted"])
	t.row("operations failed", f.Operations["failed"])
	t.row("grants in agents' journals", f.Granted)
	t.row("attempts seen by witnesses", f.Attempts)
	t.row("attempts lost and rerun", f.Lost)
	t.row("attempts that outlived their agent", f.Adopted)
	t.row("messages of stale leaders rejected", f.Stale)
	t.row("replicas stopped by a hung disk", f.Stalls)
	t.add("simulated nodes", when(f.Simulated > 0, fmt.Sprint(f.Simulated)))
	t.add("jobs completed by simulated nodes", when(f.Simulated > 0, fmt.Sprint(f.SimulatedJobs)))
	t.add("jobs lost with simulated nodes", when(f.Simulated > 0, fmt.Sprint(f.SimulatedLost)))
	t.row("changes of rights", f.Turns)
	t.row("calls denied for lack of a right", f.Denied)
	t.row("calls allowed by passing rights", f.Allowed)
	t.row("events that name a user", f.Deeds)
	return t
}

// invariantTable counts the violations of each invariant. Invariants that are checked only at the
// end show "not checked" if the run did not get that far.
func invariantTable(f check.Figures, violations map[string][]check.Violation) grid {
	t := newGrid("", "promise", "violations>")
	all := 0
	for _, invariant := range check.Invariants {
		of := violations[invariant.Number]
		all += len(of)
		t.row(invariant.Number, invariant.Says, cmp.Or(when(invariant.AtEnd && !f.Complete, "not checked"), fmt.Sprint(len(of))))
	}
	t.row("all", "", all)
	return t
}

// shownViolations returns the first violations of each invariant, one line each.
func shownViolations(violations map[string][]check.Violation) []string {
	var shown []string
	for _, invariant := range check.Invariants {
		of := violations[invariant.Number]
		for _, v := range of[:min(len(of), mostShown)] {
			shown = append(shown, v.String())
		}
		if len(of) > mostShown {
			shown = append(shown, fmt.Sprintf("%s: and %d more", invariant.Number, len(of)-mostShown))
		}
	}
	return shown
}

// chaosView shows a run: on a terminal as a live bar with some lines, elsewhere as one line for
// each fault. It implements chaos.Watcher.
type chaosView struct {
	*screen.Screen
	bar *screen.Bar
}

// Show implements chaos.Watcher.
func (v *chaosView) Show(p chaos.Progress) {
	if v.bar == nil {
		v.bar = v.Bar("chaos", int64(p.Of))
	}
	lines := progressLines(p)
	words := p.Phase
	if !v.bar.Pin(lines...) {
		words = strings.Join(append([]string{p.Phase}, lines...), ", ")
	}
	v.bar.Update(int64(p.Faults), words)
}

// progressLines describes the progress of a run: the faults, the cluster, the clients.
func progressLines(p chaos.Progress) []string {
	var kinds []string
	for _, kind := range fault.Kinds {
		if p.ByKind[kind] > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, p.ByKind[kind]))
		}
	}
	faults := fmt.Sprintf("%d/%d faults", p.Faults, p.Of) + when(len(kinds) > 0, " ("+strings.Join(kinds, ", ")+")") +
		when(len(p.Active) > 0, ", now "+strings.Join(p.Active, ", "))
	leader := p.Leader
	if p.Leaderless {
		leader = "none"
	}
	return []string{
		faults,
		fmt.Sprintf("leader %s, %d operations, %d jobs", leader, p.InProgress, p.Jobs),
		fmt.Sprintf("%d submitted, last %.1f s ago, longest gap %.1f s", p.Submitted, p.SinceLast.Seconds(), p.WorstGap.Seconds()),
	}
}

// newWitnessCommand returns the hidden command that the jobs of a run execute.
func newWitnessCommand() *cobra.Command {
	var dir string
	var length time.Duration
	cmd := &cobra.Command{
		Use: witness.Verb, Short: "Run as a job of a chaos run", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return witness.Run(cmd.Context(), dir, length, os.Getenv)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder for its records")
	cmd.Flags().DurationVar(&length, "for", time.Second, "how long the job runs")
	return cmd
}
