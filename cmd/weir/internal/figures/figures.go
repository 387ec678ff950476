// Package figures writes figures for people: times, sizes, shares and amounts, each in one line that
// is safe to print.
package figures

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
	"weir/scheduling/resource"
)

// None is shown for an empty value.
const None = "-"

// Printable returns s on one line, without characters that a terminal would interpret.
func Printable(s string) string {
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

// Clip cuts a line to a width; 0 means no limit.
func Clip(line string, width int) string {
	if width <= 0 || text.StringWidthWithoutEscSequences(line) <= width {
		return line
	}
	return text.Trim(line, width-1) + "…"
}

// Age says how long ago t was: "12s ago".
func Age(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return None
	}
	return Span(now.Sub(t.AsTime())) + " ago"
}

// Moment formats a time and its age.
func Moment(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return None
	}
	return fmt.Sprintf("%s (%s)", t.AsTime().In(now.Location()).Format("2006-01-02 15:04:05"), Age(t, now))
}

// Lasted returns how long something took, or has taken so far.
func Lasted(began, ended *timestamppb.Timestamp, now time.Time) string {
	if began == nil {
		return None
	}
	if ended != nil {
		now = ended.AsTime()
	}
	return Span(now.Sub(began.AsTime()))
}

// Span formats a duration in its two largest units, such as "2h5m". Below a minute it has enough
// digits to compare.
func Span(d time.Duration) string {
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

// Size returns bytes for people: "64 MiB".
func Size(bytes int64) string { return resource.ShowSize(bytes) }

// Number formats a value with at most `digits` digits after the decimal point.
func Number(value float64, digits int) string {
	s := strconv.FormatFloat(value, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Share formats a fraction as a percentage.
func Share(part *float64) string {
	if part == nil {
		return None
	}
	return strconv.FormatFloat(100**part, 'f', 1, 64) + "%"
}

// When returns `text` if `holds` is true, else "".
func When(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// Several counts things in words: "1 row", "2 rows".
func Several(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Amounts formats resources and omits those that are zero.
func Amounts(r *apipb.Resources) string {
	var parts []string
	add := func(some bool, value, unit string) {
		if some {
			parts = append(parts, value+" "+unit)
		}
	}
	add(r.GetCpu() != 0, Number(r.GetCpu(), 2), "cpu")
	add(r.GetMemory() != 0, Size(r.GetMemory()), "memory")
	add(r.GetUserSlots() == 1, "1", "slot")
	add(r.GetUserSlots() > 1, fmt.Sprint(r.GetUserSlots()), "slots")
	add(r.GetGpu() != 0, fmt.Sprint(r.GetGpu()), "gpu")
	add(r.GetNetwork() != 0, fmt.Sprint(r.GetNetwork()), "network")
	return cmp.Or(strings.Join(parts, ", "), None)
}
