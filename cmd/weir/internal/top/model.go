package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config is how a Model is to look and what it may do.
type Config struct {
	// Interval is how often what is on the screen is asked for again; at least MinInterval.
	Interval time.Duration
	// Write allows changes.
	Write bool
	// Tree is the tree whose pools are shown; empty: all.
	Tree string
}

// MinInterval is the shortest time between two looks at the same thing.
const MinInterval = 500 * time.Millisecond

// What a Model is told, besides answers.
type (
	// Key is a key that was pressed, by its name: "a", "enter", "pgdown".
	Key string
	// Resize is the size of the screen.
	Resize struct{ Width, Height int }
	// Tick is the time.
	Tick time.Time
	// Done says how a change went.
	Done struct {
		Change Change
		Err    error
	}
)

// What a Model asks of its shell, besides questions and changes.
type (
	// Quit ends the view.
	Quit struct{}
)

// Model is the state of the view.
type Model struct {
	cfg    Config
	now    time.Time
	width  int
	height int

	// tabs are the views that number keys choose; over them lie the pages that were entered.
	tabs  []page
	tab   int
	stack []page
	pages int

	summary    Summary
	summaryAsk asking
	// heard is when the cluster last answered; trouble is why the last call had no answer.
	heard   time.Time
	trouble string

	// reasons say why operations wait, and rights which operations the user may manage, by id.
	reasons    map[string]reason
	reasonsAsk asking
	rights     map[string]right
	rightsAsk  asking

	// typing is set while the filter is typed; help while the help is shown.
	typing, help bool
	dialog       *dialog
	// said is the result of the last change.
	said    string
	saidBad bool
	effects []any
}

// asking is a question that is on its way, or when to ask it next.
type asking struct {
	flying bool
	began  time.Time
	next   time.Time
}

// reason is why an operation waits, and when that was said.
type reason struct {
	text string
	at   time.Time
}

// right is whether the user may manage an operation, and when that was said.
type right struct {
	allowed bool
	at      time.Time
}

// New returns a Model at a time, in whose location it shows times.
func New(cfg Config, now time.Time) *Model {
	cfg.Interval = max(cfg.Interval, MinInterval)
	m := &Model{cfg: cfg, now: now, heard: now, width: 80, height: 24, reasons: map[string]reason{}, rights: map[string]right{}}
	m.tabs = []page{newPools(m), newOperations(m, "", ""), newNodes(m), newEvents(m, "", "", "")}
	return m
}

// Update takes in a message, and returns what the shell has to do: Question, Change, Quit.
func (m *Model) Update(message any) []any {
	m.effects = nil
	switch msg := message.(type) {
	case Key:
		m.press(string(msg))
	case Resize:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	case Tick:
		m.now = time.Time(msg)
	case Answer:
		m.take(msg)
	case Done:
		m.done(msg)
	default:
		panic(fmt.Sprintf("top: unexpected message %T", message))
	}
	m.refresh()
	return m.effects
}

// top returns the page on the screen.
func (m *Model) top() page {
	if n := len(m.stack); n > 0 {
		return m.stack[n-1]
	}
	return m.tabs[m.tab]
}

func (m *Model) push(p page) { m.stack = append(m.stack, p) }

// nextPage returns the number of a new page.
func (m *Model) nextPage() int {
	m.pages++
	return m.pages
}

// ask asks a question, unless it is on its way already.
func (m *Model) ask(a *asking, q Question) {
	if a.flying {
		return
	}
	a.flying, a.began = true, m.now
	m.effects = append(m.effects, q)
}

// answered notes that an answer has arrived. The next question may be asked when the interval and the rest
// have passed.
func (m *Model) answered(a *asking, rest time.Duration) {
	a.flying, a.next = false, m.now.Add(max(m.cfg.Interval, rest))
}

// refresh asks for what is on the screen and due.
func (m *Model) refresh() {
	if !m.now.Before(m.summaryAsk.next) {
		m.ask(&m.summaryAsk, Question{About: aboutCluster})
	}
	m.top().refresh(m)
	m.askReasons()
	m.askRights()
}

const (
	// reasonsAtOnce is for how many operations one question asks why they wait.
	reasonsAtOnce = 8
	// reasonsLast and rightsLast are for how many intervals a reason or a right is not asked for again.
	reasonsLast, rightsLast = 5, 5
)

// askReasons asks why the operations on the screen wait, the oldest knowledge first.
func (m *Model) askReasons() {
	p, ok := m.top().(*listPage[Operation])
	if !ok || m.reasonsAsk.flying || m.now.Before(m.reasonsAsk.next) {
		return
	}
	var due []string
	for _, op := range p.table.visible(m.rows()) {
		if op.waits() && m.now.Sub(m.reasons[op.ID].at) >= reasonsLast*m.cfg.Interval {
			due = append(due, op.ID)
		}
	}
	slices.SortStableFunc(due, func(a, b string) int { return m.reasons[a].at.Compare(m.reasons[b].at) })
	if len(due) > 0 {
		m.ask(&m.reasonsAsk, Question{About: aboutReasons, IDs: due[:min(len(due), reasonsAtOnce)]})
	}
}

// askRights asks whether the user may manage the operation of the selected thing.
func (m *Model) askRights() {
	of := m.top().subject()
	known := m.now.Sub(m.rights[of.operation].at) < rightsLast*m.cfg.Interval
	if known || !m.cfg.Write || of.operation == "" || m.now.Before(m.rightsAsk.next) {
		return
	}
	m.ask(&m.rightsAsk, Question{About: aboutRights, Operation: of.operation})
}

// remembered bounds the reasons and the rights that are kept.
const remembered = 10_000

// take takes in an answer.
func (m *Model) take(a Answer) {
	m.now = later(m.now, a.Time)
	lost := m.lost()
	if a.Err != nil && a.Unreachable {
		m.trouble = a.Err.Error()
	} else {
		m.heard, m.trouble = m.now, ""
	}
	if lost && !m.lost() {
		// It is back: what is on the screen is asked for at once.
		defer m.top().hurry(m)
	}
	switch a.Question.About {
	case aboutCluster:
		m.answered(&m.summaryAsk, 0)
		if a.Err == nil {
			m.summary = a.Cluster
		}
	case aboutReasons:
		m.answered(&m.reasonsAsk, 0)
		if !a.Unreachable {
			m.reasonsAsk.next = m.now
		}
		m.takeReasons(a)
	case aboutRights:
		m.answered(&m.rightsAsk, 0)
		if len(m.rights) >= remembered {
			clear(m.rights)
		}
		if a.Err == nil {
			m.rightsAsk.next = m.now
			m.rights[a.Question.Operation] = right{a.Allowed, m.now}
		}
	case aboutLoss:
		if m.dialog != nil && m.dialog.change == a.Question.Change {
			m.dialog.count(a)
		}
	default:
		for _, p := range slices.Concat(m.tabs, m.stack) {
			if p.number() == a.Question.page {
				p.take(m, a)
			}
		}
	}
}

func (m *Model) takeReasons(a Answer) {
	if len(m.reasons) >= remembered {
		clear(m.reasons)
	}
	for _, id := range a.Question.IDs {
		if text, said := a.Reasons[id]; said || a.Err != nil {
			m.reasons[id] = reason{cmp.Or(text, m.reasons[id].text), m.now}
		} else {
			delete(m.reasons, id)
		}
	}
}

// later returns the later of two times, in the location of the first.
func later(now, t time.Time) time.Time {
	if t.After(now) {
		return t.In(now.Location())
	}
	return now
}

// lost reports whether the cluster does not answer: a call failed, or none has been answered for longer
// than an interval and some patience.
func (m *Model) lost() bool {
	const patience = 3 * time.Second
	return m.trouble != "" || m.now.Sub(m.heard) > m.cfg.Interval+patience
}

// done shows how a change went, and looks again at once.
func (m *Model) done(d Done) {
	what := strings.TrimSpace(string(d.Change.Verb) + " " + d.Change.Title)
	m.said, m.saidBad = what+": done", d.Err != nil
	if d.Err != nil {
		m.said = what + ": " + d.Err.Error()
	}
	m.top().hurry(m)
}
