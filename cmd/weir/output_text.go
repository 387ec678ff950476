package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
)

// none is shown for an empty value.
const none = figures.None

// The short names of what all verbs write figures with.
var (
	printable, clip           = figures.Printable, figures.Clip
	age, moment, lasted, span = figures.Age, figures.Moment, figures.Lasted, figures.Span
	size, number, share       = figures.Size, figures.Number, figures.Share
	when, several, amounts    = figures.When, figures.Several, figures.Amounts
)

// grid is a table without borders.
type grid struct{ writer table.Writer }

// newGrid begins a table. A column whose name ends in > is aligned to the right.
func newGrid(columns ...string) grid {
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	g := grid{table.NewWriter()}
	g.writer.SetStyle(style)
	g.writer.SuppressTrailingSpaces()
	header := make(table.Row, len(columns))
	var configs []table.ColumnConfig
	for i, name := range columns {
		name, right := strings.CutSuffix(name, ">")
		if right {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
		header[i] = name
	}
	g.writer.SetColumnConfigs(configs)
	if len(columns) > 0 {
		g.writer.AppendHeader(header)
	}
	return g
}

// stateCell is a cell of a table that is shown in the color of what it says.
type stateCell string

// row adds a row. Text is made printable; empty text is shown as a dash.
func (g grid) row(cells ...any) {
	row := make(table.Row, len(cells))
	for i, cell := range cells {
		text := cmp.Or(printable(fmt.Sprint(cell)), none)
		if _, colored := cell.(stateCell); colored {
			text = figures.Painted(text)
		}
		row[i] = text
	}
	g.writer.AppendRow(row)
}

// String draws the table, with a newline after each line.
func (g grid) String() string { return g.writer.Render() + "\n" }

// section draws the table below an empty line and a title; "" if it has no rows.
func (g grid) section(title string) string {
	return when(g.writer.Length() > 0, "\n"+title+g.String())
}

// facts is a page of names and values.
type facts struct{ grid }

func newFacts() facts { return facts{newGrid()} }

// add adds a fact, unless its value is empty.
func (f facts) add(name, value string) {
	if value != "" && value != none {
		f.row(name, value)
	}
}

// addState adds a fact that is a state.
func (f facts) addState(name, value string) {
	if value != "" && value != none {
		f.row(name, stateCell(value))
	}
}

// clipRows cuts the rows of a list to a width. Text below the list, after an empty line,
// stays as it is.
func clipRows(list string, width int) string {
	rows, rest, more := strings.Cut(list, "\n\n")
	var b strings.Builder
	for row := range strings.SplitSeq(strings.TrimSuffix(rows, "\n"), "\n") {
		b.WriteString(clip(row, width) + "\n")
	}
	if more {
		b.WriteString("\n" + rest)
	}
	return b.String()
}

// limited returns a count with its limit: "3/8".
func limited[C, L int32 | int64](count C, limit L) string { return fmt.Sprintf("%d/%d", count, limit) }

// counts returns named counts by name: "node_offline 2, user_request 1".
func counts(by map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if by[name] != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, by[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// attributes returns names and values: "node=n1 task=sort".
func attributes(of map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, name+"="+of[name])
	}
	return strings.Join(parts, " ")
}

// withUnit adds a readable size to an attribute of an error that is a number of bytes.
func withUnit(name, value string) string {
	switch name {
	case "usage", "limit", "tmpfs_usage", "reserve", "node_usage", "node_memory":
		if bytes, err := strconv.ParseInt(value, 10, 64); err == nil && bytes >= 1<<10 {
			return value + " (" + size(bytes) + ")"
		}
	}
	return value
}

// progressText returns the progress of jobs: "57/200, 4 running, 1 failed".
func progressText(p *apipb.TaskProgress) string {
	s := limited(p.GetCompleted(), p.GetTotal())
	for _, part := range []struct {
		count int64
		name  string
	}{{p.GetRunning(), "running"}, {p.GetFailed(), "failed"}, {p.GetAborted(), "aborted"}, {p.GetGivenUp(), "given up"}} {
		if part.count > 0 {
			s += fmt.Sprintf(", %d %s", part.count, part.name)
		}
	}
	read := p.GetInput()
	s += when(read.GetBytesTotal() > 0, fmt.Sprintf(", %s of %s read", share(readPart(read)), size(read.GetBytesTotal())))
	return s + when(read.GetSkippedRecords() > 0, ", "+several(read.GetSkippedRecords(), "record")+" skipped")
}

// stderrTail is the attribute of errors that holds the last lines of a job's stderr.
const stderrTail = "stderr_tail"

// failureText returns an error below an empty line; "" if there is none.
func failureText(e *apipb.Error) string {
	return when(e != nil, "\nerror:\n"+errorText(e, "  "))
}

// errorText returns an error with its causes below it, each indented further, and a newline
// after every line. A cause omits attributes that the error above it shows.
func errorText(e *apipb.Error, indent string) string { return causeText(e, nil, indent) }

func causeText(e *apipb.Error, told map[string]string, indent string) string {
	if e == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(indent + printable(e.GetMessage()) + when(e.GetCode() != 0, fmt.Sprintf(" (code %d)", e.GetCode())) + "\n")
	for _, name := range slices.Sorted(maps.Keys(e.GetAttributes())) {
		value := strings.TrimRight(e.GetAttributes()[name], "\n")
		switch {
		case told[name] == value || e.GetMessage() == value:
		case name != stderrTail && !strings.Contains(value, "\n"):
			fmt.Fprintf(&b, "%s  %s: %s\n", indent, printable(name), printable(withUnit(name, value)))
		default:
			fmt.Fprintf(&b, "%s  %s:\n", indent, printable(name))
			for line := range strings.SplitSeq(value, "\n") {
				fmt.Fprintf(&b, "%s    | %s\n", indent, printable(line))
			}
		}
	}
	for _, inner := range e.GetInner() {
		b.WriteString(causeText(inner, e.GetAttributes(), indent+"  "))
	}
	return b.String()
}
