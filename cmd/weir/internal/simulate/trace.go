package simulate

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"weir/api/document"
	"weir/scheduling/option"
)

// readTrace reads operations, one in a line, from the file that is named.
func (f *File) readTrace(top *fields, open func(string) ([]byte, error)) {
	name := top.text(keyTrace, "")
	if name == "" {
		return
	}
	data, err := open(name)
	if err != nil {
		top.fault(place{keyTrace}, "%v", err)
		return
	}
	r := &reader{lines: func(...string) (int, int) { return 0, 0 }}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		before := len(r.faults)
		submission := f.traceLine(r, number, line)
		for i := range r.faults[before:] {
			fault := &r.faults[before+i]
			fault.Problem = fmt.Sprintf("%s, line %d: %s", name, number, option.Fault{Path: fault.Path, Problem: fault.Problem})
			fault.Path = keyTrace
			fault.Line, fault.Column = top.lines(keyTrace)
		}
		f.Trace = append(f.Trace, submission)
	}
	top.faults = append(top.faults, r.faults...)
	slices.SortStableFunc(f.Trace, func(a, b Submission) int { return cmp.Compare(a.At, b.At) })
}

// traceLine reads one operation: what a workload has, and at, and lengths by job.
func (f *File) traceLine(r *reader, number int, line []byte) Submission {
	var s Submission
	document, err := document.Read("simulation", line)
	if err != nil {
		r.take(nil, err)
		return s
	}
	object, err := document.Plain()
	if err != nil {
		r.take(nil, err)
		return s
	}
	l, _ := r.object(nil, object)
	s = Submission{At: l.duration("at", 0), ID: l.text("id", fmt.Sprintf("trace-%d", number)), Pool: f.pool(l, "")}
	for i, item := range l.items("lengths") {
		length, err := inSeconds(item)
		if err != nil {
			r.fault(place{"lengths"}.item(i), "%v", err)
		}
		s.Lengths = append(s.Lengths, length)
	}
	if s.Lengths != nil {
		// The jobs are those whose lengths are given.
		if l.values["jobs"] != nil {
			r.fault(place{"jobs"}, "there are lengths too: give one of them")
		}
		l.values["jobs"] = float64(len(s.Lengths))
		if job, ok := l.values["job"].(map[string]any); ok {
			job["length"] = "0s"
		} else {
			l.values["job"] = map[string]any{"length": "0s"}
		}
	}
	s.Shape = l.shape()
	l.end()
	return s
}
