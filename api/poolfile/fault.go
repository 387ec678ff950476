package poolfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/api/spec"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	// Path is where in the file, such as pools.ads.weight; empty: the whole.
	Path string
	// Line and Column are where in the text, from 1; 0 when no place is known.
	Line, Column int
	// Problem says what is wrong and what to do.
	Problem string
}

// String returns the fault on one line.
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

// Error tells that a file is refused, and everything that is wrong with it.
type Error struct {
	// Faults stand in the order of the text; there is at least one.
	Faults []Fault
}

// maxFaultsShown bounds the text of an error; the rest is counted.
const maxFaultsShown = 20

// Error implements error.
func (e *Error) Error() string {
	if len(e.Faults) == 1 {
		return "pool file: " + e.Faults[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "pool file has %d faults:", len(e.Faults))
	for _, fault := range e.Faults[:min(len(e.Faults), maxFaultsShown)] {
		b.WriteString("\n  " + fault.String())
	}
	if more := len(e.Faults) - maxFaultsShown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

func newError(faults []Fault) error {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return &Error{Faults: faults}
}

// wrap tells the faults that made a text no document.
func wrap(err error) error {
	var refused *spec.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("pool file: %w", err)
	}
	faults := make([]Fault, len(refused.Faults))
	for i, f := range refused.Faults {
		faults[i] = Fault{Path: f.Path, Line: f.Line, Column: f.Column, Problem: f.Message}
	}
	return newError(faults)
}
