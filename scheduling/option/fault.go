package option

import (
	"slices"
	"strings"
)

// Fault is a setting that cannot be.
type Fault struct {
	// Path names the setting: groups before it, slashes between.
	Path string
	// Problem says what is wrong and what to do.
	Problem string
}

// Error is the faults of a document, by path.
type Error struct{ Faults []Fault }

// Error implements error.
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.Path + ": " + f.Problem
	}
	return strings.Join(lines, "; ")
}

// NewError returns an error of these faults, sorted; nil when there are none.
func NewError(faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	faults = slices.Clone(faults)
	slices.SortStableFunc(faults, func(a, b Fault) int { return strings.Compare(a.Path, b.Path) })
	return &Error{Faults: faults}
}

// Closest returns the name that is most like the one given, to be proposed to who
// mistyped it; "" when none is like it.
func Closest(name string, names []string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, candidate := range names {
		if d := edits(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two names.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
