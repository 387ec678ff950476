package top

import (
	"cmp"
	"fmt"
	"strings"

	"weir/cmd/weir/internal/figures"
)

// View returns the screen: exactly as many lines as it has, none wider than it is.
func (m *Model) View() string {
	head := []string{m.titleLine(), m.tabLine(), m.placeLine()}
	foot := m.footer()
	n := max(m.height-len(head)-len(foot), 0)
	var body []string
	if m.help {
		body = m.helpLines()
	} else {
		body = m.top().draw(m, n)
	}
	lines := make([]string, 0, m.height)
	lines = append(lines, head...)
	for i := range n {
		if i < len(body) {
			lines = append(lines, body[i])
		} else {
			lines = append(lines, "")
		}
	}
	lines = append(lines, foot...)
	lines = lines[:min(len(lines), m.height)]
	for i, line := range lines {
		if width(line) > m.width {
			lines[i] = fit(line, m.width, false)
		}
	}
	return strings.Join(lines, "\n")
}

// rows is how many rows of a list or lines of a text fit on the screen, about.
func (m *Model) rows() int { return max(m.height-5, 1) }

func (m *Model) look() look { return look{now: m.now, reasons: m.reasons} }

// stale reports whether a page shows figures that may be other by now.
func (m *Model) stale(p page) bool { return m.lost() && !p.asOf().IsZero() }

// ends puts two texts at the ends of a line; the right one goes first if both do not fit.
func ends(left, right string, w int) string {
	gap := w - width(left) - width(right)
	if gap < 2 {
		return fit(left, min(width(left), w), false)
	}
	return left + strings.Repeat(" ", gap) + right
}

// titleLine says which cluster it is, and how it is.
func (m *Model) titleLine() string {
	s := m.summary
	parts := []string{bold.on("weir top")}
	figure := plain
	health := green.on("healthy")
	if n := len(s.Problems); n > 0 {
		health = red.on(figures.Several(int64(n), "problem"))
	}
	if m.lost() {
		figure, health = faint, yellow.on("STALE")
	}
	add := func(some bool, text string) {
		if some && text != "" {
			parts = append(parts, figure.on(text))
		}
	}
	add(s.ID != "", figures.Printable(s.ID))
	if s.ID != "" {
		parts = append(parts, health)
	}
	add(s.NodesOnline+s.NodesOffline > 0, "nodes "+grouped(int(s.NodesOnline))+"/"+grouped(int(s.NodesOnline+s.NodesOffline)))
	add(s.ID != "", fmt.Sprintf("jobs %s run, %s wait", grouped(int(s.JobsRunning)), grouped(int(s.JobsPending))))
	add(s.CPUTotal > 0, fmt.Sprintf("cpu %.0f%%", 100*s.CPU/max(s.CPUTotal, 1)))
	add(s.MemoryTotal > 0, fmt.Sprintf("memory %.0f%%", 100*s.Memory/max(s.MemoryTotal, 1)))
	add(s.Leader != "", figures.Printable(s.Leader)+" leads")
	line := parts[0]
	for _, part := range parts[1:] {
		if width(line)+3+width(part) > m.width-10 {
			break
		}
		line += " · " + part
	}
	return ends(line, m.now.Format("15:04:05"), m.width)
}

// tabLine names the views.
func (m *Model) tabLine() string {
	line := ""
	for i, name := range []string{"Pools", "Operations", "Nodes", "Events"} {
		text := fmt.Sprintf(" %d %s ", i+1, name)
		if i == m.tab {
			text = reversed.on(text)
		}
		line += text
	}
	mode := "read-only"
	if m.cfg.Write {
		mode = "may change: " + figures.Printable(cmp.Or(m.summary.User, "you"))
	}
	return ends(line, mode, m.width)
}

// placeLine says what is seen, how much of it, and as of when.
func (m *Model) placeLine() string {
	p := m.top()
	parts := make([]string, 0, 4)
	for _, at := range m.stack {
		parts = append(parts, figures.Printable(at.name()))
	}
	if len(m.stack) == 0 {
		parts = append(parts, figures.Printable(p.name()))
	}
	// The last page is what is seen.
	line := parts[len(parts)-1]
	if list := p.list(); list != nil {
		shown, all := list.counted()
		line += " · " + grouped(all)
		if filter := list.filtered(); filter != "" || m.typing {
			line = parts[len(parts)-1] + fmt.Sprintf(" · %s of %s match /%s", grouped(shown), grouped(all), figures.Printable(filter))
			if m.typing {
				line += "█"
			}
		}
	}
	right := ""
	switch {
	case m.stale(p):
		right = yellow.on("STALE, as of " + p.asOf().Format("15:04:05"))
	case !p.asOf().IsZero() && m.now.Sub(p.asOf()) > 2*m.cfg.Interval:
		right = faint.on("as of " + p.asOf().Format("15:04:05"))
	}
	if right != "" && width(line)+width(right)+2 > m.width {
		line = fit(line, max(m.width-width(right)-2, 0), false)
	}
	return ends(line, right, m.width)
}

// footer is what has to be said, and the keys.
func (m *Model) footer() []string {
	var lines []string
	say := func(s style, text string) {
		lines = append(lines, s.on(fit(figures.Printable(text), m.width, false)))
	}
	if m.lost() {
		why := figures.When(m.trouble != "", ": "+m.trouble)
		say(red, fmt.Sprintf("No answer since %s (%s)%s", m.heard.Format("15:04:05"), figures.Span(m.now.Sub(m.heard)), why))
	}
	if m.dialog != nil {
		return append(lines, m.dialog.lines(m.width)...)
	}
	if wrong := m.top().fault(); wrong != "" {
		say(red, wrong)
	}
	if m.said != "" {
		say(map[bool]style{true: red, false: green}[m.saidBad], m.said)
	}
	if n := len(m.summary.Problems); n > 0 && len(lines) == 0 && m.tab == 0 && len(m.stack) == 0 {
		say(yellow, m.summary.Problems[0]+figures.When(n > 1, fmt.Sprintf(" (and %d more: weir status)", n-1)))
	}
	if m.typing {
		return append(lines, bold.on("Enter")+" keep the filter  "+bold.on("Esc")+" clear it")
	}
	return append(lines, m.hints(m.width))
}
