package top

import (
	"cmp"
	"strings"
	"time"

	"weir/cmd/weir/internal/figures"
)

// press acts on a key.
func (m *Model) press(key string) {
	if key == "ctrl+c" {
		m.effects = append(m.effects, Quit{})
		return
	}
	m.said = ""
	switch {
	case m.dialog != nil:
		m.decide(key)
	case m.help:
		m.help = false
	case m.typing:
		m.typed(key)
	default:
		m.command(key)
	}
}

// typed edits the filter.
func (m *Model) typed(key string) {
	list := m.top().list()
	text := list.filtered()
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		list.setFilter("")
	case "backspace":
		runes := []rune(text)
		list.setFilter(string(runes[:max(len(runes)-1, 0)]))
	case "ctrl+u":
		list.setFilter("")
	case "space":
		list.setFilter(text + " ")
	case "up", "down", "pgup", "pgdown", "home", "end":
		m.moved(key)
	default:
		if len([]rune(key)) == 1 {
			list.setFilter(text + key)
		}
	}
}

// command acts on a key while nothing is typed.
func (m *Model) command(key string) {
	if m.moved(key) || m.choose(key) {
		return
	}
	p := m.top()
	switch key {
	case "q":
		m.effects = append(m.effects, Quit{})
	case "?":
		m.help = true
	case "enter", "l":
		p.enter(m)
	case "esc", "h", "backspace":
		m.back(key)
	case "r":
		p.hurry(m)
	case "/":
		m.typing = p.list() != nil
	case "left", "right", "s", "S":
		m.sort(key, p.list())
	case "x":
		m.explain(p.subject())
	case "e":
		m.eventsOf(p.subject())
	case "a":
		m.toggleEnded()
	case "o":
		m.otherStream()
	case "A", "I", "D":
		m.propose(key)
	}
}

// sort changes the order of a list. The arrows choose among the columns that are on the screen, s among all.
func (m *Model) sort(key string, list rows) {
	const all = 1 << 30
	switch {
	case list == nil:
	case key == "left":
		list.sortNext(-1, m.width)
	case key == "right":
		list.sortNext(1, m.width)
	case key == "s":
		list.sortNext(1, all)
	default:
		list.reverse()
	}
}

// moved moves the cursor or the text.
func (m *Model) moved(key string) bool {
	const all = 1 << 30
	by, ok := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.rows(), "pgdown": m.rows(), "ctrl+b": -m.rows(), "ctrl+f": m.rows(),
		"home": -all, "g": -all, "end": all, "G": all,
	}[key]
	if ok && (!m.typing || len(key) > 1) {
		m.top().scroll(m, by)
		return true
	}
	return false
}

// choose changes to another view.
func (m *Model) choose(key string) bool {
	to := strings.Index("1234", key)
	switch {
	case len(key) == 1 && to >= 0:
	case key == "tab":
		to = (m.tab + 1) % len(m.tabs)
	case key == "shift+tab":
		to = (m.tab + len(m.tabs) - 1) % len(m.tabs)
	default:
		return false
	}
	m.tab, m.stack = to, nil
	m.top().hurry(m)
	return true
}

// back leaves a page; at the last one, Esc clears the filter.
func (m *Model) back(key string) {
	list := m.top().list()
	switch {
	case key == "esc" && list != nil && list.filtered() != "":
		list.setFilter("")
	case len(m.stack) > 0:
		m.stack = m.stack[:len(m.stack)-1]
	}
}

func (m *Model) explain(of subject) {
	q := Question{About: aboutWhy}
	switch {
	case of.pool != "":
		q.Tree, q.Pool = of.tree, of.pool
	case of.job != "":
		q.Job = of.job
	case of.operation != "":
		q.Operation = of.operation
	default:
		return
	}
	m.push(&textPage{base: base{page: m.nextPage(), title: "why: " + of.title}, of: of, first: func() Question { return q }})
}

func (m *Model) eventsOf(of subject) {
	switch {
	case of.node != "" && of.job == "":
		m.push(newEvents(m, "", of.node, "node "+of.node))
	case of.operation != "":
		m.push(newEvents(m, of.operation, "", "operation "+cmp.Or(of.called, of.operation)))
	}
}

// toggleEnded shows operations that have ended too, or no longer.
func (m *Model) toggleEnded() {
	if p, ok := m.top().(*listPage[Operation]); ok {
		*p.ended = !*p.ended
		p.title = operationsTitle(p.first().Pool, *p.ended)
		p.known, p.parts = time.Time{}, nil
		p.hurry(m)
	}
}

// otherStream shows stderr of a job instead of stdout, or the other way round.
func (m *Model) otherStream() {
	p, ok := m.top().(*textPage)
	if !ok || !p.output {
		return
	}
	p.stream = map[string]string{"stdout": "stderr", "stderr": "stdout"}[p.stream]
	p.lines, p.next, p.end, p.follow, p.note = nil, 0, false, true, ""
	p.title = outputTitle(p.of, p.stream)
	p.hurry(m)
}

// binding is a key and what it does, for the last line and the help.
type binding struct {
	key, does string
	// now reports whether it does anything at present; nil: always.
	now func(m *Model) bool
	// helpOnly leaves it out of the last line. change: it needs Config.Write.
	helpOnly, change bool
}

var bindings = []binding{
	{key: "Enter", does: "open", now: func(m *Model) bool { return m.top().list() != nil && m.top().subject() != subject{} }},
	{key: "Esc", does: "back", now: func(m *Model) bool { return len(m.stack) > 0 }},
	{key: "?", does: "help"},
	{key: "A", change: true, does: "abort", now: func(m *Model) bool { return m.allowed("A") }},
	{key: "I", change: true, does: "interrupt", now: func(m *Model) bool { return m.allowed("I") }},
	{key: "D", change: true, does: "drain", now: func(m *Model) bool { return m.allowed("D") && !m.top().subject().drained }},
	{key: "D", change: true, does: "undrain", now: func(m *Model) bool { return m.allowed("D") && m.top().subject().drained }},
	{key: "q", does: "quit"},
	{key: "x", does: "explain", now: func(m *Model) bool {
		of := m.top().subject()
		return of.pool != "" || of.job != "" || of.operation != ""
	}},
	{key: "e", does: "its events", now: func(m *Model) bool {
		of := m.top().subject()
		return of.node != "" || of.operation != ""
	}},
	{key: "a", does: "also ended ones, or not", now: func(m *Model) bool { _, ok := m.top().(*listPage[Operation]); return ok }},
	{key: "o", does: "other stream, stdout or stderr", now: func(m *Model) bool { p, ok := m.top().(*textPage); return ok && p.output }},
	{key: "/", does: "filter", now: func(m *Model) bool { return m.top().list() != nil }},
	{key: "← →", does: "sort by another column on the screen", helpOnly: true},
	{key: "s", does: "sort, by the next of all columns; S reverses", now: func(m *Model) bool { return m.top().list() != nil }},
	{key: "1-4, Tab", does: "choose the view", helpOnly: true},
	{key: "↑ ↓ j k", does: "move", helpOnly: true},
	{key: "PgUp PgDn", does: "move by a screen", helpOnly: true},
	{key: "Home End g G", does: "move to the first, the last", helpOnly: true},
	{key: "r", does: "look again now", helpOnly: true},
}

// hints returns the keys that do something now, in w columns.
func (m *Model) hints(w int) string {
	line := ""
	for _, b := range bindings {
		if b.helpOnly || b.now != nil && !b.now(m) {
			continue
		}
		does, _, _ := strings.Cut(b.does, ",")
		next := line + figures.When(line != "", "  ") + bold.on(b.key) + " " + does
		if width(next) > w {
			break
		}
		line = next
	}
	return line
}

// helpLines is the page of help.
func (m *Model) helpLines() []string {
	lines := []string{"Bars show the whole tree: " + string(signUsage) + " usage, " + string(signDemand) + " demand beyond it, " + string(signFair) + " fair share, " +
		string(signGuarantee) + " guarantee."}
	for _, b := range bindings {
		if b.change && !m.cfg.Write {
			continue
		}
		lines = append(lines, bold.on(fit(b.key, 14, false))+b.does)
	}
	if !m.cfg.Write {
		lines = append(lines, "Read-only: weir top --write also aborts, interrupts and drains.")
	}
	var out []string
	for _, line := range lines {
		out = append(out, wrap(line, m.width)...)
	}
	return out
}
