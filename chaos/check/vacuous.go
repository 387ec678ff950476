package check

import (
	"fmt"

	"weir/chaos/fault"
)

// How many tries must have had a result: of those that chance prevents now and then, as
// when the one agent that is killed has no job whose end comes after its own, and of
// those that it prevents often.
const (
	triedTwice = 2
	wellTried  = 5
)

// Vacuous says what a run should have pressed, by the faults that it had, and did not:
// it proves nothing then.
func (f Figures) Vacuous() []string {
	var out []string
	void := 0
	for _, g := range f.Faults {
		void += g.Void
	}
	replaced := f.took(func(g FaultFigures) bool { return g.Scope == fault.Leader || g.Scope == fault.Replicas })
	agents := f.took(func(g FaultFigures) bool { return g.Scope == fault.Agent })
	killed := f.took(func(g FaultFigures) bool { return g.Scope == fault.Agent && g.Kind == fault.Kill })
	late := f.took(func(g FaultFigures) bool { return g.Kind == fault.Late })
	took := f.took(func(FaultFigures) bool { return true })
	for _, must := range []struct {
		of, tried, least int
		says             string
	}{
		{f.Submitted, 1, 1, "no submission was acknowledged"},
		{f.Granted, 1, 1, "no agent had a grant in its journal"},
		{f.LeaderChanges, replaced, 1, "the leader never changed"},
		{f.Lost, agents, 1, "no attempt was lost and rerun"},
		{f.Adopted, killed, triedTwice, "no attempt outlived its agent and was completed"},
		{f.Stale, late, wellTried, "no agent rejected a message of a stale leader"},
	} {
		if must.of == 0 && must.tried >= must.least {
			out = append(out, must.says)
		}
	}
	if void > took/10 {
		out = append(out, fmt.Sprintf("%d faults did not take effect, and %d did", void, took))
	}
	return out
}

// took counts the faults that took effect, of those that which chooses.
func (f Figures) took(which func(FaultFigures) bool) int {
	count := 0
	for _, g := range f.Faults {
		if which(g) {
			count += g.Count
		}
	}
	return count
}
