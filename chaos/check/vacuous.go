package check

import (
	"fmt"

	"weir/chaos/fault"
)

// triedTwice and wellTried are the numbers of faults that a run must have had before it must show
// their effect. triedTwice is for effects that can be missing by chance, such as when the one killed
// agent has no job that ends later. wellTried is for effects that are often missing.
const (
	triedTwice = 2
	wellTried  = 5
)

// Vacuous lists what the faults of a run should have caused but did not: such a run proves nothing.
func (f Figures) Vacuous() []string {
	var out []string
	void := 0
	for _, g := range f.Faults {
		void += g.Void
	}
	replaced := f.took(func(g FaultFigures) bool { return g.Scope == fault.Leader || g.Scope == fault.Replicas })
	agents := f.took(func(g FaultFigures) bool { return g.Scope == fault.Agent })
	killed := f.took(func(g FaultFigures) bool {
		return g.Scope == fault.Agent && (g.Kind == fault.Kill || g.Kind == fault.Swap)
	})
	late := f.took(func(g FaultFigures) bool { return g.Kind == fault.Late })
	took := f.took(func(FaultFigures) bool { return true })
	for _, must := range []struct {
		of, tried, least int
		says             string
	}{
		{f.Submitted, 1, 1, "no submission was acknowledged"},
		{f.Granted, 1, 1, "no agent had a grant in its journal"},
		{f.Denied, 1, 1, "nobody was refused for lack of a right"},
		{f.Allowed, 1, 1, "no user whose rights come and go was ever allowed anything"},
		{f.Turns, 1, 1, "no right was given or taken away"},
		{f.Deeds, 1, 1, "no event names a user"},
		{f.SimulatedJobs, f.Simulated, 1, "no job of a simulated node was completed"},
		{f.Compared, 1, 1, "no replica has told a hash of its state"},
		{f.LeaderChanges, replaced, 1, "the leader never changed"},
		{f.Lost, agents, 1, "no attempt was lost and rerun"},
		{f.Adopted, killed, triedTwice, "no attempt outlived its agent and was completed"},
		{f.Stale, late, wellTried, "no agent rejected a message of a stale leader"},
	} {
		if must.of == 0 && must.tried >= must.least {
			out = append(out, must.says)
		}
	}
	if f.Unread != "" {
		out = append(out, "the event log was not read to its end: "+f.Unread)
	}
	if void > took/10 {
		out = append(out, fmt.Sprintf("%d faults did not take effect, only %d did", void, took))
	}
	return out
}

// took counts the faults that took effect. The function `which` selects kinds and scopes.
func (f Figures) took(which func(FaultFigures) bool) int {
	count := 0
	for _, g := range f.Faults {
		if which(g) {
			count += g.Count
		}
	}
	return count
}
