package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a document.
type Fault struct {
	// Path is where in the document, such as tasks.sort.command; empty: the whole.
	Path string
	// Line and Column are where in the text, from 1; 0 when there is no text.
	Line, Column int
	// Message says what is wrong and what to do.
	Message string
}

// String returns the fault on one line: its place, its path, what is wrong.
func (f Fault) String() string {
	s := f.Message
	if f.Path != "" {
		s = f.Path + ": " + s
	}
	if f.Line > 0 {
		s = fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, s)
	}
	return s
}

// maxFaultsShown bounds the text of an error; the rest is counted.
const maxFaultsShown = 20

// Error tells that a document is refused, and everything that is wrong with it.
type Error struct {
	// What the document is, for people, such as "operation spec".
	What string
	// Faults stand in the order of the text; there is at least one.
	Faults []Fault
}

// Error implements error. It shows the first 20 faults and counts the rest.
func (e *Error) Error() string {
	if len(e.Faults) == 1 {
		return e.What + ": " + e.Faults[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %d faults:", e.What, len(e.Faults))
	for _, fault := range e.Faults[:min(len(e.Faults), maxFaultsShown)] {
		b.WriteString("\n  " + fault.String())
	}
	if more := len(e.Faults) - maxFaultsShown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// operationSpec is what this package reads.
const operationSpec = "operation spec"

// refuse refuses an operation's spec.
func refuse(faults []Fault) error { return Refuse(operationSpec, faults) }

// Refuse returns an Error with the faults by place, then path; nil without any.
func Refuse(what string, faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return &Error{What: what, Faults: faults}
}

// faultAt returns a fault that reading cannot go on after.
func faultAt(path *trail, at position, format string, args ...any) error {
	return refuse([]Fault{newFault(path.String(), at, format, args...)})
}

func newFault(path string, at position, format string, args ...any) Fault {
	return Fault{Path: path, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...)}
}

// duplicate is the fault of a key that an object has twice.
func duplicate(path *trail, at, first position) Fault {
	return newFault(path.String(), at, "it is there twice, first in line %d: keep one", first.line)
}

// trail is the way from the root to a value, nil for the root. It becomes text
// only when a fault needs it.
type trail struct {
	up   *trail
	name string
	// index is that of an item of a list, -1 for a field.
	index int
}

func (t *trail) field(name string) *trail { return &trail{up: t, name: name, index: -1} }

func (t *trail) item(index int) *trail { return &trail{up: t, index: index} }

// String returns the path as faults show it.
func (t *trail) String() string {
	switch {
	case t == nil:
		return ""
	case t.index >= 0:
		return fmt.Sprintf("%s[%d]", t.up, t.index)
	}
	return join(t.up.String(), t.name)
}

// join puts the name of a field behind the path of its object.
func join(path, name string) string {
	if path == "" {
		return clip(name)
	}
	return path + "." + clip(name)
}

// clip shortens text for an error.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
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
