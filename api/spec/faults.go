package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a spec.
type Fault struct {
	// Path is where in the spec, such as tasks.sort.command; empty: the whole.
	Path string
	// Line and Column are where in the text, from 1; 0 when there is no text.
	Line, Column int
	// Message says what is wrong and what to do.
	Message string
}

// String returns the fault on one line, its path first.
func (f Fault) String() string {
	s := f.Message
	if f.Path != "" {
		s = f.Path + ": " + s
	}
	if f.Line > 0 {
		s += fmt.Sprintf(" (line %d, column %d)", f.Line, f.Column)
	}
	return s
}

// maxFaultsShown bounds the text of an error; the rest is counted.
const maxFaultsShown = 100

// Faults are all things that are wrong with a spec, in the order of the text.
type Faults []Fault

// Error implements error.
func (f Faults) Error() string {
	if len(f) == 1 {
		return "operation spec: " + f[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "operation spec has %d faults:", len(f))
	for _, fault := range f[:min(len(f), maxFaultsShown)] {
		b.WriteString("\n  " + fault.String())
	}
	if more := len(f) - maxFaultsShown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// sorted returns the faults by place, then path.
func (f Faults) sorted() Faults {
	slices.SortFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return f
}

// closest returns the known name that name was probably meant to be, or "".
func closest(name string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		if d := distance(name, k); d < bestDistance && d < max(len(k), len(name))/2+1 {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance returns how many letters have to be added, removed, replaced or
// swapped with their neighbour to make b of a: the restricted
// Damerau-Levenshtein distance. Names that differ much in length are far apart.
func distance(a, b string) int {
	if len(a) > len(b)+3 || len(b) > len(a)+3 {
		return len(a) + len(b)
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
