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
type grid struct {
	writer table.Writer
	// columns are those of the header.
	columns []gridColumn
}

// gridColumn is a column: its place in the order in which narrow screens leave columns out, 0 if none does, and the
// width of its longest cell.
type gridColumn struct {
	config      table.ColumnConfig
	rank, width int
}

// newGrid begins a table. A column whose name ends in > is aligned to the right. One whose name ends in ?2 may be left
// out on a narrow screen, after one whose name ends in ?3.
func newGrid(columns ...string) grid {
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	g := grid{writer: table.NewWriter(), columns: make([]gridColumn, len(columns))}
	g.writer.SetStyle(style)
	g.writer.SuppressTrailingSpaces()
	header := make(table.Row, len(columns))
	for i, name := range columns {
		c := &g.columns[i]
		name, rank, _ := strings.Cut(name, "?")
		c.rank, _ = strconv.Atoi(rank)
		name, right := strings.CutSuffix(name, ">")
		c.config.Number, c.width = i+1, text.StringWidthWithoutEscSequences(name)
		if right {
			c.config.Align, c.config.AlignHeader = text.AlignRight, text.AlignRight
		}
		header[i] = name
	}
	g.configure()
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
		if i < len(g.columns) {
			g.columns[i].width = max(g.columns[i].width, width(text))
		}
		if _, colored := cell.(stateCell); colored {
			text = figures.Painted(text)
		}
		row[i] = text
	}
	g.writer.AppendRow(row)
}

// width is how many columns of a screen a text takes.
func width(s string) int { return text.StringWidthWithoutEscSequences(s) }

// configure tells the writer how columns are drawn.
func (g grid) configure() {
	configs := make([]table.ColumnConfig, len(g.columns))
	for i, c := range g.columns {
		configs[i] = c.config
	}
	g.writer.SetColumnConfigs(configs)
}

// leastCell is how much of the last column a narrow screen shows; what is beyond its edge is cut.
const leastCell = 16

// within draws the table for a screen of so many columns; 0: of any number. It leaves out columns that do not fit,
// those of the greatest rank first.
func (g grid) within(screen int) string {
	for screen > 0 {
		needed, last, worst := 0, 0, -1
		for i, c := range g.columns {
			if c.config.Hidden {
				continue
			}
			needed, last = needed+last, min(c.width, leastCell)
			if i < len(g.columns)-1 {
				last = c.width + len("  ")
			}
			if c.rank > 0 && (worst < 0 || c.rank >= g.columns[worst].rank) {
				worst = i
			}
		}
		if needed+last <= screen || worst < 0 {
			break
		}
		g.columns[worst].config.Hidden = true
	}
	g.configure()
	return g.String()
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
