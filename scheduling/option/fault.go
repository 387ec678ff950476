package option

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a document.
type Fault struct {
	// Path names the option or the value, such as tasks.sort.command. It is empty for the
	// whole document.
	Path string
	// Position is the place in the text. It is zero if there is no text.
	Position
	// Problem says what is wrong and what to do.
	Problem string
}

// String returns the fault on one line: its place, path and problem.
func (f Fault) String() string {
	s := f.Problem
	if f.Path != "" {
		s = f.Path + ": " + s
	}
	if f.Line > 0 {
		s = fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, s)
	}
	return s
}

// maxFaultsShown is how many faults the text of an error shows. It only counts the rest.
const maxFaultsShown = 20

// Error holds all faults of a document, or of options.
type Error struct {
	// What names the kind of document, such as "operation spec". It is empty for options
	// without a document.
	What string
	// Faults are in the order of the text. There is at least one fault.
	Faults []Fault
}

// Error implements error. For a document it shows the first 20 faults and counts the rest.
func (e *Error) Error() string {
	shown := make([]string, len(e.Faults))
	for i, fault := range e.Faults {
		shown[i] = fault.String()
	}
	switch {
	case e.What == "":
		return strings.Join(shown, "; ")
	case len(shown) == 1:
		return e.What + ": " + shown[0]
	}
	text := fmt.Sprintf("%s has %d errors:\n  %s", e.What, len(shown), strings.Join(shown[:min(len(shown), maxFaultsShown)], "\n  "))
	if more := len(shown) - maxFaultsShown; more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}

// Refuse returns an *Error with the faults of a document, sorted by place, then path. It returns
// nil if there are no faults.
func Refuse(what string, faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	faults = slices.Clone(faults)
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Problem, b.Problem))
	})
	return &Error{What: what, Faults: faults}
}

// NewError is like Refuse, but for options without a document.
func NewError(faults []Fault) error { return Refuse("", faults) }

// Closest returns the one of the names that is most similar to a mistyped name, to suggest it. It
// returns "" if none is similar.
func Closest(name string, names []string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, known := range names {
		if len(known)-len(name) >= distance || len(name)-len(known) >= distance {
			continue
		}
		if d := edits(name, known); d < distance && d < max(len(known), len(name))/2+1 {
			best, distance = known, d
		}
	}
	return best
}

// edits returns the restricted Damerau-Levenshtein distance: how many bytes to insert,
// delete, replace or swap with their neighbour to turn a into b.
func edits(a, b string) int {
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
