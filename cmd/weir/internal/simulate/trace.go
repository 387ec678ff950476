package simulate

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"weir/api/document"
	"weir/scheduling/option"
)

// traceLine is one operation of a trace: its shape, and when it is submitted.
type traceLine struct {
	At      *span   `option:"at" kind:"time" default:"0s"`
	ID      *string `option:"id"`
	Lengths []span  `option:"lengths" kind:"list of times"`
	Shape
}

// readTrace reads operations, one per line, from the named file.
func (r *reader) readTrace(name string, open func(string) ([]byte, error)) {
	data, err := open(name)
	if err != nil {
		r.Fault(r.of, &r.of.Trace, "%v", err)
		return
	}
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		line := &reader{Reading: new(option.Reading), File: r.File, of: r.of, poolless: r.poolless}
		submission := line.submission(number, text)
		for _, fault := range line.Faults {
			r.Fault(r.of, &r.of.Trace, "%s, line %d: %s", name, number, option.Fault{Path: fault.Path, Problem: fault.Problem})
		}
		r.Trace = append(r.Trace, submission)
	}
	slices.SortStableFunc(r.Trace, func(a, b Submission) int { return cmp.Compare(a.At, b.At) })
}

// submission reads one operation of a trace.
func (r *reader) submission(row int, text []byte) Submission {
	doc, err := document.Read("simulation", text)
	if err != nil {
		r.adopt("", option.Position{}, err)
		return Submission{}
	}
	var l traceLine
	r.Reading = doc.Reading()
	r.Options(&l, doc.Root, "")
	if l.Lengths != nil {
		// There is one job for each length given.
		if l.Jobs != nil {
			r.Fault(&l, &l.Jobs, "lengths is set too: give only one of the two")
		}
		if l.Job == nil {
			l.Job = new(Job)
		}
		jobs, length := always(number(len(l.Lengths))), always(seconds(0))
		l.Jobs, l.Job.Length = &jobs, &length
	}
	r.shape(&l.Shape, "")
	id := *cmp.Or(l.ID, new(fmt.Sprintf("trace-%d", row)))
	return Submission{At: cmp.Or(l.At, new(span)).Duration, ID: id, Kind: id, Lengths: l.Lengths, Shape: l.Shape}
}
