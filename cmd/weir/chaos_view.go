package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"weir/chaos"
	"weir/chaos/check"
	"weir/chaos/fault"
)

// chaosView shows a run: a live line on a terminal, plain lines elsewhere. It
// implements chaos.Watcher.
type chaosView struct {
	*screen
	bar *bar
}

func newChaosView(screen *screen) *chaosView { return &chaosView{screen: screen} }

// Show implements chaos.Watcher.
func (v *chaosView) Show(p chaos.Progress) {
	if v.bar == nil {
		v.bar = v.screen.bar("chaos", int64(p.Of))
	}
	v.bar.update(int64(p.Faults), progressLine(p))
}

func (v *chaosView) close() {
	if v.bar != nil {
		v.bar.close()
	}
}

// progressLine says how far a run is.
func progressLine(p chaos.Progress) string {
	leader := p.Leader
	if p.Leaderless {
		leader = "none"
	}
	line := fmt.Sprintf("%s, %d/%d faults (kill %d, pause %d, cut %d), leader %s, %d jobs, %d submitted, worst gap %.1f s",
		p.Phase, p.Faults, p.Of, p.ByKind[fault.Kill], p.ByKind[fault.Pause], p.ByKind[fault.Cut], leader, p.Jobs, p.Submitted, p.WorstGap.Seconds())
	if len(p.Active) > 0 {
		line += ", now " + strings.Join(p.Active, ", ")
	}
	return line
}

// mostShown is how many violations of one invariant the summary shows.
const mostShown = 10

// chaosSummary is what a run comes to.
func chaosSummary(f check.Figures, violations []check.Violation, took time.Duration) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	row := func(name string, value any) { t.AppendRow(table.Row{name, value}) }
	total := 0
	kinds := make([][2]string, 0, len(f.Faults))
	for kind, count := range f.Faults {
		kinds = append(kinds, kind)
		total += count
	}
	slices.SortFunc(kinds, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, kind := range kinds {
		row("fault: "+kind[0]+" "+kind[1], f.Faults[kind])
	}
	row("faults", total)
	row("faults without effect", f.Void)
	row("replicas that the disk stopped", f.Stalls)
	t.AppendSeparator()
	row("took", took.Round(time.Second))
	row("leader changes", f.LeaderChanges)
	row("submissions acknowledged", f.Submitted)
	row("worst gap between two", time.Duration(f.WorstGap).Round(time.Millisecond))
	row("aborts acknowledged", f.Aborted)
	row("calls without an answer", f.Unknown)
	for _, state := range []string{"completed", "aborted", "failed"} {
		row("operations "+state, f.Operations[state])
	}
	row("attempts seen by witnesses", f.Attempts)
	row("attempts lost and run again", f.Lost)
	t.AppendSeparator()
	var shown []string
	for _, invariant := range check.Invariants {
		count := 0
		for _, v := range violations {
			if v.Invariant != invariant.Number {
				continue
			}
			if count++; count <= mostShown {
				shown = append(shown, v.String())
			}
		}
		if count > mostShown {
			shown = append(shown, fmt.Sprintf("%s: and %d more", invariant.Number, count-mostShown))
		}
		row(invariant.Number+" "+invariant.Says, fmt.Sprintf("%d violations", count))
	}
	return strings.Join(append([]string{t.Render()}, shown...), "\n")
}
