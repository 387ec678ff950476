package main

import (
	"fmt"
	"strings"

	"weir/chaos"
	"weir/chaos/fault"
	"weir/cmd/weir/internal/screen"
)

// chaosView shows a run: a live bar with some lines on a terminal, a line for each
// fault elsewhere. It implements chaos.Watcher.
type chaosView struct {
	*screen.Screen
	bar *screen.Bar
}

func newChaosView(display *screen.Screen) *chaosView { return &chaosView{Screen: display} }

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

func (v *chaosView) close() {
	if v.bar != nil {
		v.bar.Close()
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
		fmt.Sprintf("%d submitted, last %.1f s ago, longest gap %.1f s", p.Submitted, p.SinceLast.Seconds(), p.WorstGap.Seconds()),
	}
}
