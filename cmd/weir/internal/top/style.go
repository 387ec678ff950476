package top

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"weir/cmd/weir/internal/figures"
)

// style is how text looks. Colours only repeat what the text says.
type style string

// Attributes of terminals (ECMA-48), in the 16 colours that the user's theme defines.
const (
	plain    style = ""
	bold     style = "1"
	faint    style = "2"
	reversed style = "7"
	red      style = "31"
	green    style = "32"
	yellow   style = "33"
	cyan     style = "36"
)

// on returns text in the style.
func (s style) on(text string) string {
	if s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// cell is a text of a table with its style.
type cell struct {
	text  string
	style style
}

// width returns how many columns of the screen text takes.
func width(text string) int {
	for i := range len(text) {
		if text[i] >= 0x80 || text[i] == '\x1b' {
			return ansi.StringWidth(text)
		}
	}
	return len(text)
}

// fit returns text in exactly n columns.
func fit(text string, n int, right bool) string {
	w := width(text)
	switch {
	case n <= 0:
		return ""
	case w > n:
		text = ansi.Truncate(text, n, "…")
		w = width(text)
	}
	pad := strings.Repeat(" ", n-w)
	if right {
		return pad + text
	}
	return text + pad
}

// wrap breaks a text into lines of n columns at most.
func wrap(text string, n int) []string {
	return strings.Split(ansi.Wrap(text, max(n, 10), ""), "\n")
}

// hang breaks a line, and indents what follows below its first word, or behind its dash.
func hang(line string, n int) []string {
	text := strings.TrimLeft(line, " -")
	indent := len(line) - len(text)
	if indent == 0 || indent > n/2 {
		return wrap(line, n)
	}
	lines := wrap(text, n-indent)
	for i := range lines {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	lines[0] = line[:indent] + lines[0][indent:]
	return lines
}

// percent returns a part as a percentage with one digit, or a dash if it is not known.
func percent(part float64, known bool) string {
	if !known {
		return figures.None
	}
	return figures.Share(&part)
}

// grouped writes a count with commas: 100,000.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// The signs of bars. Usage fills; what is wanted beyond it is light; the fair share and the guarantee
// are marks on the same scale.
const (
	signUsage, signDemand, signRest = '█', '░', '·'
	signFair, signGuarantee         = '┃', '╎'
)

// shareBar draws the shares of a pool in n columns, which stand for the whole tree.
func shareBar(p Pool, n int) string {
	if !p.Known || n <= 0 {
		return strings.Repeat(" ", max(n, 0))
	}
	at := func(part float64) int { return min(max(int(part*float64(n)+0.5), 0), n) }
	bar := []rune(strings.Repeat(string(signRest), n))
	for i := range at(p.Demand) {
		bar[i] = signDemand
	}
	for i := range at(p.Usage) {
		bar[i] = signUsage
	}
	// A mark stands on the last column that belongs to its share.
	mark := func(part float64, sign rune) {
		if part > 0 {
			bar[max(at(part)-1, 0)] = sign
		}
	}
	mark(p.Guarantee, signGuarantee)
	mark(p.Fair, signFair)
	return string(bar)
}

// meter draws how full something is, in n columns.
func meter(part float64, n int) string {
	filled := min(max(int(part*float64(n)+0.5), 0), n)
	return strings.Repeat(string(signUsage), filled) + strings.Repeat(string(signRest), n-filled)
}
