package main

import (
	"fmt"
	"strings"

	"weir/chaos"
	"weir/chaos/fault"
)

// chaosView shows a run: a live bar with some lines on a terminal, a line for each
// fault elsewhere. It implements chaos.Watcher.
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
	lines := progressLines(p)
	if v.bar.writer == nil {
		v.bar.update(int64(p.Faults), strings.Join(append([]string{p.Phase}, lines...), ", "))
		return
	}
	v.bar.writer.SetPinnedMessages(lines...)
	v.bar.update(int64(p.Faults), p.Phase)
}

func (v *chaosView) close() {
	if v.bar != nil {
		v.bar.close()
	}
}

// progressLines say how far a run is: the faults, the cluster, the clients.
func progressLines(p chaos.Progress) []string {
	var kinds []string
	for _, kind := range fault.Kinds {
		if p.ByKind[kind] > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, p.ByKind[kind]))
		}
	}
	faults := fmt.Sprintf("%d/%d faults", p.Faults, p.Of)
	if len(kinds) > 0 {
		faults += " (" + strings.Join(kinds, ", ") + ")"
	}
	if len(p.Active) > 0 {
		faults += ", now " + strings.Join(p.Active, ", ")
	}
	leader := p.Leader
	if p.Leaderless {
		leader = "none"
	}
	return []string{
		faults,
		fmt.Sprintf("leader %s, %d operations, %d jobs", leader, p.InProgress, p.Jobs),
		fmt.Sprintf("%d submitted, the last %.1f s ago, worst gap %.1f s", p.Submitted, p.SinceLast.Seconds(), p.WorstGap.Seconds()),
	}
}
