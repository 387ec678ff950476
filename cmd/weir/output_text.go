package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
	"weir/scheduling/resource"
)

// none is shown for an empty value.
const none = "-"

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

// row adds a row. Text is made printable; empty text is shown as a dash.
func (g grid) row(cells ...any) {
	row := make(table.Row, len(cells))
	for i, cell := range cells {
		row[i] = cmp.Or(printable(fmt.Sprint(cell)), none)
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

// printable returns s on one line, without characters that a terminal would interpret.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		default:
			return unicode.ReplacementChar
		}
	}, s)
}

// clip cuts a line to a width; 0 means no limit.
func clip(line string, width int) string {
	if width <= 0 || text.StringWidthWithoutEscSequences(line) <= width {
		return line
	}
	return text.Trim(line, width-1) + "…"
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

// age says how long ago t was: "12s ago".
func age(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return none
	}
	return span(now.Sub(t.AsTime())) + " ago"
}

// moment formats a time and its age.
func moment(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return none
	}
	return fmt.Sprintf("%s (%s)", t.AsTime().In(now.Location()).Format("2006-01-02 15:04:05"), age(t, now))
}

// lasted returns how long something took, or has taken so far.
func lasted(began, ended *timestamppb.Timestamp, now time.Time) string {
	if began == nil {
		return none
	}
	if ended != nil {
		now = ended.AsTime()
	}
	return span(now.Sub(began.AsTime()))
}

// span formats a duration in its two largest units, such as "2h5m". Below a minute it has enough
// digits to compare.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// size returns bytes for people: "64 MiB".
func size(bytes int64) string { return resource.ShowSize(bytes) }

// number formats a value with at most `digits` digits after the decimal point.
func number(value float64, digits int) string {
	s := strconv.FormatFloat(value, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// share formats a fraction as a percentage.
func share(part *float64) string {
	if part == nil {
		return none
	}
	return strconv.FormatFloat(100**part, 'f', 1, 64) + "%"
}

// when returns `text` if `holds` is true, else "".
func when(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// limited returns a count with its limit: "3/8".
func limited[C, L int32 | int64](count C, limit L) string { return fmt.Sprintf("%d/%d", count, limit) }

// several counts things in words: "1 row", "2 rows".
func several(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// amounts formats resources and omits those that are zero.
func amounts(r *apipb.Resources) string {
	var parts []string
	add := func(some bool, value, unit string) {
		if some {
			parts = append(parts, value+" "+unit)
		}
	}
	add(r.GetCpu() != 0, number(r.GetCpu(), 2), "cpu")
	add(r.GetMemory() != 0, size(r.GetMemory()), "memory")
	add(r.GetUserSlots() == 1, "1", "slot")
	add(r.GetUserSlots() > 1, fmt.Sprint(r.GetUserSlots()), "slots")
	add(r.GetGpu() != 0, fmt.Sprint(r.GetGpu()), "gpu")
	add(r.GetNetwork() != 0, fmt.Sprint(r.GetNetwork()), "network")
	return cmp.Or(strings.Join(parts, ", "), none)
}

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
