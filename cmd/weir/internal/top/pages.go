package top

import (
	"slices"
	"strings"
	"time"

	"weir/cmd/weir/internal/figures"
)

// page is one view: a list, or text.
type page interface {
	number() int
	// name says what is seen, for the line above it.
	name() string
	// refresh asks for what is due; take takes in an answer; hurry makes the next look due at once.
	refresh(m *Model)
	take(m *Model, a Answer)
	hurry(m *Model)
	// draw returns the lines of a body of n lines.
	draw(m *Model, n int) []string
	// asOf is when all that is shown was known; zero: not yet. fault is what the cluster refused.
	asOf() time.Time
	fault() string
	// list is the table of the page; nil if it has none.
	list() rows
	// subject is the selected thing, and enter opens it.
	subject() subject
	enter(m *Model)
	// scroll moves by lines, or by screens.
	scroll(m *Model, by int)
}

// rows is a table of any items.
type rows interface {
	move(by, n int)
	sortNext(step, w int)
	reverse()
	setFilter(text string)
	filtered() string
	counted() (shown, all int)
}

// subject is what keys act on.
type subject struct {
	// One of pool, node, job and operation is explained or changed: the first that is set.
	tree, pool, node, job string
	// operation is the operation, also of a job, and called what people know it by, if that is known.
	operation, called, title string
	// live: it has not ended. drained: the node gets no more jobs.
	live, drained bool
}

// base is what pages have in common.
type base struct {
	page  int
	title string
	known time.Time
	wrong string
}

func (b *base) number() int     { return b.page }
func (b *base) name() string    { return b.title }
func (b *base) asOf() time.Time { return b.known }
func (b *base) fault() string   { return b.wrong }
func (b *base) list() rows      { return nil }
func (b *base) enter(*Model)    {}

// listPage is a page with a table, filled in parts.
type listPage[T any] struct {
	base
	table *table[T]
	// first is the question for the first part; pick takes the items from an answer.
	first func() Question
	pick  func(Answer) []T
	// also asks for what is shown above the table, and takes it; nil: nothing is.
	also     func() Question
	takeAlso func(m *Model, a Answer)
	head     func(m *Model) []string
	// tell says of the selected item what the columns may have no room for.
	tell   func(m *Model, item T) cell
	of     func(T) subject
	deeper func(m *Model, item T)
	// ended includes operations that have ended; nil: the page has no such choice.
	ended *bool

	asking, asked asking
	parts         []T
	// empty is shown if there are no items.
	empty string
	// note is what the cluster did not show.
	note string
}

func (p *listPage[T]) list() rows { return p.table }

func (p *listPage[T]) subject() subject {
	if item, ok := p.table.current(); ok && p.of != nil {
		return p.of(item)
	}
	return subject{}
}

func (p *listPage[T]) enter(m *Model) {
	if item, ok := p.table.current(); ok && p.deeper != nil {
		p.deeper(m, item)
	}
}

func (p *listPage[T]) scroll(m *Model, by int) { p.table.move(by, m.rows()) }

func (p *listPage[T]) hurry(m *Model) { p.asking.next, p.asked.next = m.now, m.now }

func (p *listPage[T]) refresh(m *Model) {
	if !p.asking.flying && !m.now.Before(p.asking.next) {
		p.parts = nil
		p.put(m, p.first())
	}
	if p.also != nil && !m.now.Before(p.asked.next) {
		q := p.also()
		q.page = p.page
		m.ask(&p.asked, q)
	}
}

func (p *listPage[T]) put(m *Model, q Question) {
	q.page = p.page
	m.ask(&p.asking, q)
}

func (p *listPage[T]) take(m *Model, a Answer) {
	if p.also != nil && a.Question.About == p.also().About {
		m.answered(&p.asked, 0)
		p.takeAlso(m, a)
		return
	}
	if q := p.first(); a.Question.Ended != q.Ended {
		// It answers what is not asked any more.
		p.asking = asking{next: m.now}
		return
	}
	if a.Err != nil {
		m.answered(&p.asking, 0)
		p.wrong = refusal(a)
		return
	}
	p.wrong = ""
	p.parts = append(p.parts, p.pick(a)...)
	if p.known.IsZero() || !a.More {
		p.table.set(p.parts)
	}
	if a.More {
		q := a.Question
		q.After, q.Offset = a.After, a.Offset
		// The time of all parts counts.
		began := p.asking.began
		p.asking.flying = false
		p.put(m, q)
		p.asking.began = began
		return
	}
	p.known, p.parts, p.note = m.now, nil, a.Note
	var rest time.Duration
	if a.Question.After != "" || a.Question.Offset > 0 {
		// A list of several parts takes a fifth of the time of a replica at most.
		rest = 4 * m.now.Sub(p.asking.began)
	}
	m.answered(&p.asking, rest)
}

// refusal returns the error that a page shows: of the connection, another line tells.
func refusal(a Answer) string {
	if a.Err == nil || a.Unreachable {
		return ""
	}
	return a.Err.Error()
}

// tellRows is the room below a list for what is told of the selected item; a screen of fewer lines than
// tellFrom has none.
const (
	tellRows = 2
	tellFrom = 10
)

func (p *listPage[T]) draw(m *Model, n int) []string {
	var lines []string
	room := n
	if p.tell != nil && n >= tellFrom {
		room -= tellRows
	}
	if p.head != nil {
		// At least half of the screen is for the list.
		lines = p.head(m)
		lines = lines[:min(len(lines), room/2)]
	}
	shown, all := p.table.counted()
	lines = append(lines, p.table.draw(m.look(), m.width, max(room-len(lines)-1, 0), m.stale(p))...)
	if shown == 0 && p.wrong == "" {
		lines = append(lines, faint.on("  "+p.emptiness(all)))
	}
	if item, ok := p.table.current(); ok && room < n {
		for len(lines) < room {
			lines = append(lines, "")
		}
		c := p.tell(m, item)
		told := wrap(figures.Printable(c.text), m.width)
		if len(told) > tellRows {
			told = append(told[:tellRows-1], fit(strings.Join(told[tellRows-1:], " "), m.width, false))
		}
		for _, line := range told {
			lines = append(lines, c.style.on(line))
		}
	}
	return lines
}

// asks is shown until the first answer.
const asks = "asking the cluster…"

func (p *listPage[T]) emptiness(all int) string {
	switch {
	case p.known.IsZero():
		return asks
	case all > 0:
		return "nothing matches the filter: Esc clears it"
	case p.empty != "":
		return p.empty
	}
	return "nothing here"
}

// eventsKept bounds the events on a page, the latest.
const eventsKept = 5000

// eventPage lists events, the latest first.
type eventPage struct {
	listPage[Event]
	index    uint64
	position uint32
	// since is the time of the first event while index is 0; zero: the oldest that is kept.
	since time.Time
}

func (p *eventPage) take(m *Model, a Answer) {
	m.answered(&p.asking, 0)
	p.wrong = refusal(a)
	if p.wrong != "" && p.index > 0 {
		// The events from there on are kept no longer: it goes on with those that come.
		p.index, p.position, p.since = 0, 0, m.now
	}
	if a.Err != nil {
		return
	}
	p.known, p.index, p.position = m.now, a.Index, a.Position
	if a.More {
		p.asking.next = m.now
	}
	if len(a.Events) == 0 {
		return
	}
	if p.table.cursor == 0 {
		// A cursor on the latest event stays on the latest.
		p.table.selected = ""
	}
	latest := slices.Clone(a.Events)
	slices.Reverse(latest)
	items := slices.Concat(latest, p.table.items)
	p.table.set(items[:min(len(items), eventsKept)])
}

// textPage shows text: an explanation, or the output of a job, which it follows.
type textPage struct {
	base
	first  func() Question
	asking asking
	of     subject
	lines  []string
	note   string
	top    int
	// Of output: its next byte, whether all of it has been read, and whether the view follows its end.
	output, end, follow bool
	stream              string
	next                int64
}

func (p *textPage) subject() subject { return p.of }

func (p *textPage) hurry(m *Model) { p.asking.next = m.now }

func (p *textPage) refresh(m *Model) {
	if p.end || m.now.Before(p.asking.next) {
		return
	}
	q := p.first()
	q.page = p.page
	m.ask(&p.asking, q)
}

// What is kept of the output on a page: the latest lines, and of a line that has no end, its latest bytes.
const (
	linesKept = 20_000
	lineKept  = 64 << 10
)

func (p *textPage) take(m *Model, a Answer) {
	m.answered(&p.asking, 0)
	if a.Question.Stream != p.stream {
		p.asking.next = m.now
		return
	}
	p.wrong = refusal(a)
	if a.Err != nil {
		return
	}
	p.known, p.note = m.now, a.Note
	text := splitLines(string(a.Text))
	if !p.output {
		p.lines = text
		return
	}
	if len(text) > 0 {
		// The first part goes on with the line before.
		if n := len(p.lines); n > 0 {
			whole := p.lines[n-1] + text[0]
			p.lines[n-1] = whole[max(len(whole)-lineKept, 0):]
			text = text[1:]
		}
		p.lines = append(p.lines, text...)
		p.lines = p.lines[max(len(p.lines)-linesKept, 0):]
	}
	if a.Offset > p.next {
		p.asking.next = m.now
	}
	p.end, p.next = a.End, a.Offset
}

func (p *textPage) scroll(m *Model, by int) {
	n := m.rows()
	most := max(len(p.wrapped(m.width))-n, 0)
	p.top = max(min(p.top, most)+by, 0)
	p.follow = p.output && p.top >= most
	p.top = min(p.top, most)
}

// wrapped returns the lines as they are drawn.
func (p *textPage) wrapped(w int) []string {
	if p.output {
		return p.lines
	}
	var out []string
	for _, line := range p.lines {
		out = append(out, hang(line, w)...)
	}
	return out
}

func (p *textPage) draw(m *Model, n int) []string {
	lines := p.wrapped(m.width)
	most := max(len(lines)-n, 0)
	if p.follow {
		p.top = most
	}
	p.top = min(p.top, most)
	lines = lines[p.top:min(p.top+n, len(lines))]
	out := make([]string, 0, len(lines)+1)
	for _, line := range lines {
		out = append(out, fit(line, min(width(line), m.width), false))
	}
	switch {
	case len(out) > 0 || p.wrong != "":
	case p.known.IsZero():
		out = append(out, faint.on(asks))
	case p.note != "":
		out = append(out, wrap(p.note, m.width)...)
	}
	return out
}
