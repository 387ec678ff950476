package main

import (
	"fmt"
	"strings"
	"time"

	"weir/chaos/check"
)

// mostShown is how many violations of one invariant the summary shows.
const mostShown = 10

// chaosSummary is what a run comes to.
func chaosSummary(f check.Figures, violations []check.Violation, took time.Duration) string {
	parts := []string{faultTable(f).String(), runTable(f, took).String(), invariantTable(f, violations).String()}
	if shown := shownViolations(violations); len(shown) > 0 {
		parts = append(parts, strings.Join(shown, "\n")+"\n")
	}
	return strings.Join(parts, "\n")
}

// faultTable has what was done, and what clients felt of it.
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

// gapText is a duration that people compare with others; empty when it is zero.
func gapText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// runTable has what the run was like.
func runTable(f check.Figures, took time.Duration) facts {
	t := newFacts()
	for _, fact := range []struct {
		name  string
		value any
	}{
		{"took", took.Round(time.Second)},
		{"leader changes", f.LeaderChanges},
		{"submissions acknowledged", f.Submitted},
		{"aborts acknowledged", f.Aborted},
		{"calls without a response", f.Unknown},
		{"operations completed", f.Operations["completed"]},
		{"operations aborted", f.Operations["aborted"]},
		{"operations failed", f.Operations["failed"]},
		{"grants in agents' journals", f.Granted},
		{"attempts seen by witnesses", f.Attempts},
		{"attempts lost and rerun", f.Lost},
		{"attempts that outlived their agent", f.Adopted},
		{"messages of stale leaders rejected", f.Stale},
		{"replicas stopped by a hung disk", f.Stalls},
	} {
		t.add(fact.name, fmt.Sprint(fact.value))
	}
	return t
}

// invariantTable has how often each promise was broken, as far as the run got.
func invariantTable(f check.Figures, violations []check.Violation) grid {
	t := newGrid("", "promise", "violations>")
	for _, invariant := range check.Invariants {
		count := fmt.Sprint(len(violationsOf(violations, invariant)))
		if invariant.AtEnd && !f.Complete {
			count = "not checked"
		}
		t.row(invariant.Number, invariant.Says, count)
	}
	t.row("all", "", len(violations))
	return t
}

func violationsOf(violations []check.Violation, invariant check.Invariant) []check.Violation {
	var of []check.Violation
	for _, v := range violations {
		if v.Invariant == invariant.Number {
			of = append(of, v)
		}
	}
	return of
}

// shownViolations are the first of each invariant, a line each.
func shownViolations(violations []check.Violation) []string {
	var shown []string
	for _, invariant := range check.Invariants {
		of := violationsOf(violations, invariant)
		for _, v := range of[:min(len(of), mostShown)] {
			shown = append(shown, v.String())
		}
		if len(of) > mostShown {
			shown = append(shown, fmt.Sprintf("%s: and %d more", invariant.Number, len(of)-mostShown))
		}
	}
	return shown
}
