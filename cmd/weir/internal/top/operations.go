package top

import (
	"cmp"
	"fmt"
	"strings"

	"weir/cmd/weir/internal/figures"
)

// newOperations shows the operations of a pool, or of all pools, the latest first.
func newOperations(m *Model, tree, pool string) page {
	ended := false
	p := &listPage[Operation]{base: base{page: m.nextPage()}, ended: &ended, table: newTable(func(o Operation) string { return o.ID }, operationWords, operationColumns()...)}
	p.title = operationsTitle(pool, ended)
	p.first = func() Question { return Question{About: aboutOperations, Tree: tree, Pool: pool, Ended: ended} }
	p.pick = func(a Answer) []Operation { return a.Operations }
	p.of = subjectOfOperation
	p.tell = func(m *Model, o Operation) cell {
		c := o.verdict(m.look())
		return cell{cmp.Or(o.Alias, o.Title, o.ID) + " " + c.text, c.style}
	}
	p.deeper = func(m *Model, o Operation) {
		if o.Hidden == "" {
			m.push(newOperation(m, o))
		}
	}
	return p
}

func operationsTitle(pool string, ended bool) string {
	return "Operations" + figures.When(pool != "", " of pool "+pool) + figures.When(ended, ", also ended ones") +
		figures.When(!ended, " in progress")
}

func operationWords(o Operation) []string {
	return []string{o.ID, o.Alias, o.Title, o.User, o.Pool, o.State}
}

func subjectOfOperation(o Operation) subject {
	return subject{operation: o.ID, called: o.called(), title: "operation " + o.called(), live: o.Finish.IsZero() && o.Hidden == ""}
}

// called is how people know an operation.
func (o Operation) called() string {
	switch {
	case o.Alias != "":
		return o.Alias
	case o.Title != "":
		return fmt.Sprintf("“%s” (%s)", o.Title, o.ID)
	default:
		return o.ID
	}
}

// waits reports whether jobs of an operation wait to start.
func (o Operation) waits() bool {
	return o.Finish.IsZero() && o.Pending == "" && !o.Suspended && o.Hidden == "" && o.Progress.Pending > 0
}

// verdict says in a few words how an operation is.
func (o Operation) verdict(at look) cell {
	why := at.reasons[o.ID].text
	switch p := o.Progress; {
	case o.Hidden != "":
		return cell{"of another user: not shown", faint}
	case o.Failure != "":
		return cell{o.State + ": " + o.Failure, red}
	case !o.Finish.IsZero():
		return cell{o.State, plain}
	case o.Suspended:
		return cell{"suspended", yellow}
	case o.Pending != "":
		return cell{"waits: " + o.Pending, yellow}
	case o.waits() && p.Running == 0:
		return cell{"waits" + figures.When(why != "", ": "+why), yellow}
	case o.waits():
		return cell{fmt.Sprintf("runs; %d wait", p.Pending) + figures.When(why != "", ": "+why), yellow}
	case p.Running > 0:
		return cell{"runs", green}
	default:
		return cell{o.State, plain}
	}
}

func operationColumns() []column[Operation] {
	text := func(title string, width, grow, rank int, of func(Operation) string) column[Operation] {
		return column[Operation]{title: title, width: width, grow: grow, rank: rank,
			cell:    func(o Operation, _ look, _ int) cell { return cell{figures.Printable(of(o)), plain} },
			compare: func(a, b Operation) int { return cmp.Compare(of(a), of(b)) }}
	}
	number := func(title string, width, rank int, s style, of func(Operation) int64) column[Operation] {
		return column[Operation]{title: title, right: true, width: width, rank: rank,
			cell: func(o Operation, _ look, _ int) cell {
				return cell{figures.When(o.Hidden == "" && of(o) != 0, fmt.Sprint(of(o))), s}
			},
			compare: func(a, b Operation) int { return cmp.Compare(of(a), of(b)) }}
	}
	return []column[Operation]{
		text("ID", 36, 0, 9, func(o Operation) string { return o.ID }),
		text("OPERATION", 12, 2, 0, func(o Operation) string { return cmp.Or(o.Alias, o.Title, o.ID) }),
		text("USER", 8, 0, 4, func(o Operation) string { return o.User }),
		text("POOL", 10, 1, 5, func(o Operation) string { return o.Pool }),
		{title: "DONE", right: true, width: 9, rank: 3, cell: func(o Operation, _ look, _ int) cell {
			return cell{figures.When(o.Hidden == "", fmt.Sprintf("%d/%d", o.Progress.Completed, o.Progress.Total)), plain}
		}, compare: func(a, b Operation) int { return cmp.Compare(a.done(), b.done()) }},
		number("RUN", 5, 1, plain, func(o Operation) int64 { return o.Progress.Running }),
		number("WAIT", 6, 6, plain, func(o Operation) int64 { return o.Progress.Pending }),
		number("FAILED", 6, 7, red, func(o Operation) int64 { return o.Progress.Failed }),
		{title: "USAGE", right: true, width: 6, rank: 6, cell: func(o Operation, _ look, _ int) cell {
			return cell{percent(o.Usage, o.Known), plain}
		}, compare: func(a, b Operation) int { return cmp.Compare(a.Usage, b.Usage) }},
		{title: "FAIR", right: true, width: 6, rank: 8, cell: func(o Operation, _ look, _ int) cell {
			return cell{percent(o.Fair, o.Known), plain}
		}, compare: func(a, b Operation) int { return cmp.Compare(a.Fair, b.Fair) }},
		{title: "AGE", right: true, width: 6, rank: 2, cell: func(o Operation, at look, _ int) cell {
			return cell{figures.Span(at.now.Sub(o.Start)), plain}
		}, compare: func(a, b Operation) int { return b.Start.Compare(a.Start) }},
		{title: "VERDICT", width: 28, grow: 5, cell: func(o Operation, at look, _ int) cell {
			c := o.verdict(at)
			return cell{figures.Printable(c.text), c.style}
		}, compare: func(a, b Operation) int { return cmp.Compare(a.verdict(look{}).text, b.verdict(look{}).text) }},
	}
}

// done is the part of the jobs that have completed.
func (o Operation) done() float64 {
	return float64(o.Progress.Completed) / float64(max(o.Progress.Total, 1))
}

// newOperation shows one operation: why it is as it is, its tasks and its jobs.
func newOperation(m *Model, o Operation) page {
	detail := &Detail{Operation: o}
	p := &listPage[Job]{base: base{page: m.nextPage(), title: "Jobs of operation " + o.called()}, table: newJobTable(jobColumns()...), empty: "no job has started yet"}
	p.first = func() Question { return Question{About: aboutJobs, Operation: o.ID} }
	p.pick = func(a Answer) []Job { return a.Jobs }
	p.also = func() Question { return Question{About: aboutOperation, Operation: o.ID} }
	p.takeAlso = func(m *Model, a Answer) {
		if a.Err != nil {
			p.wrong = refusal(a)
			return
		}
		*detail = a.Operation
		p.title = "Jobs of operation " + detail.called()
		if text := a.Reasons[o.ID]; text != "" {
			m.reasons[o.ID] = reason{text, m.now}
		} else {
			delete(m.reasons, o.ID)
		}
	}
	p.head = func(m *Model) []string {
		if p.note == "" {
			return detail.head(m)
		}
		return append(detail.head(m), faint.on(p.note))
	}
	p.tell = tellJob
	p.of = subjectOfJob
	p.deeper = func(m *Model, j Job) { m.push(newOutput(m, subjectOfJob(j))) }
	return &operationPage{listPage: p, operation: func() Operation { return detail.Operation }}
}

// operationPage is the page of an operation. Without a selected job, keys act on the operation.
type operationPage struct {
	*listPage[Job]
	operation func() Operation
}

func (p *operationPage) subject() subject {
	if of := p.listPage.subject(); of != (subject{}) {
		of.called = p.operation().called()
		return of
	}
	return subjectOfOperation(p.operation())
}

// head says how the operation is, and lists its tasks.
func (d *Detail) head(m *Model) []string {
	c := d.verdict(m.look())
	verdict := wrap(figures.Printable(strings.ToUpper(c.text[:min(len(c.text), 1)])+c.text[min(len(c.text), 1):]), m.width)
	lines := make([]string, 0, len(verdict)+len(d.Tasks)+4)
	for _, line := range verdict {
		lines = append(lines, (c.style + ";" + bold).on(line))
	}
	about := fmt.Sprintf("%s of %s in %s · %s", cmp.Or(d.Type, "operation"), d.User, d.Pool, d.State)
	if d.Known {
		about += fmt.Sprintf(" · usage %s, fair share %s, demand %s", percent(d.Usage, true), percent(d.Fair, true), percent(d.Demand, true))
	}
	about += " · started " + figures.Span(m.now.Sub(d.Start)) + " ago"
	if !d.Finish.IsZero() {
		about += fmt.Sprintf(", ended %s ago, took %s", figures.Span(m.now.Sub(d.Finish)), figures.Span(d.Finish.Sub(d.Start)))
	}
	lines = append(lines, wrap(figures.Printable(about), m.width)...)
	if len(d.Tasks) > 0 {
		t := newTable(func(t Task) string { return t.Name }, nil, taskColumns()...)
		t.items = d.Tasks
		for i := range d.Tasks {
			t.shown = append(t.shown, int32(i))
		}
		t.cursor = -1
		lines = append(lines, t.draw(m.look(), m.width, len(d.Tasks), false)...)
	}
	// A low screen has no room for what can be done better.
	for _, alert := range d.Alerts {
		lines = append(lines, yellow.on(fit(figures.Printable(alert), m.width, false)))
	}
	return append(lines, "")
}

func taskColumns() []column[Task] {
	number := func(title string, rank int, s style, of func(Progress) int64) column[Task] {
		return column[Task]{title: title, right: true, width: 7, rank: rank, cell: func(t Task, _ look, _ int) cell {
			return cell{figures.When(of(t.Progress) != 0, fmt.Sprint(of(t.Progress))), s}
		}}
	}
	return []column[Task]{
		{title: "TASK", width: 10, grow: 1, cell: func(t Task, _ look, _ int) cell { return cell{figures.Printable(t.Name), plain} }},
		{title: "PROGRESS", width: 12, grow: 2, rank: 1, cell: func(t Task, _ look, n int) cell {
			return cell{meter(float64(t.Progress.Completed)/float64(max(t.Progress.Total, 1)), n), green}
		}},
		number("OF", 0, plain, func(p Progress) int64 { return p.Total }),
		number("DONE", 0, plain, func(p Progress) int64 { return p.Completed }),
		number("RUN", 0, green, func(p Progress) int64 { return p.Running }),
		number("WAIT", 0, yellow, func(p Progress) int64 { return p.Pending }),
		number("FAILED", 2, red, func(p Progress) int64 { return p.Failed }),
		number("ABORTED", 3, plain, func(p Progress) int64 { return p.Aborted }),
		{title: "RESERVE", right: true, width: 9, rank: 5, cell: func(t Task, _ look, _ int) cell {
			return cell{figures.When(t.Reserve > 0, figures.Size(t.Reserve)), plain}
		}},
		{title: "EACH JOB", width: 16, grow: 3, rank: 4, cell: func(t Task, _ look, _ int) cell { return cell{t.Resources, plain} }},
	}
}
