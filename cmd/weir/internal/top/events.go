package top

import (
	"fmt"
	"strings"
	"time"

	"weir/cmd/weir/internal/figures"
)

// eventsSince is how far back the events on a page begin.
const eventsSince = 10 * time.Minute

// newEvents shows what has happened lately, and what happens: to an operation, on a node, or anywhere. of is what
// people call the operation or the node.
func newEvents(m *Model, operation, node, of string) page {
	table := newTable(func(e Event) string { return fmt.Sprintf("%d.%d", e.Index, e.Position) }, func(e Event) []string { return []string{e.Text, e.Kind, e.Operation, e.Job, e.Node} }, eventColumns()...)
	p := &eventPage{listPage: listPage[Event]{base: base{page: m.nextPage(), title: "Events" + figures.When(of != "", " of "+of)}, table: table}}
	if operation == "" {
		p.since = m.now.Add(-eventsSince)
	}
	p.listPage.first = func() Question {
		q := Question{About: aboutEvents, Operation: operation, Node: node, Index: p.index, Position: p.position}
		if p.index == 0 {
			q.Since = p.since
		}
		return q
	}
	p.of = func(e Event) subject {
		of := subject{operation: e.Operation, job: e.Job, node: e.Node}
		of.called = Operation{ID: e.Operation, Title: e.Called}.called()
		switch {
		case e.Job != "":
			of.title = "job " + e.Job
		case e.Operation != "":
			of.title = "operation " + Operation{ID: e.Operation, Title: e.Called}.called()
		case e.Node != "":
			of.title = "node " + e.Node
		}
		return of
	}
	p.tell = func(_ *Model, e Event) cell { return cell{e.Text, plain} }
	p.deeper = func(m *Model, e Event) {
		switch {
		case e.Job != "":
			m.push(newOutput(m, p.of(e)))
		case e.Operation != "":
			m.push(newOperation(m, Operation{ID: e.Operation, Title: e.Called}))
		case e.Node != "":
			m.push(newNodeJobs(m, e.Node))
		}
	}
	return p
}

func eventColumns() []column[Event] {
	return []column[Event]{
		{title: "TIME", width: 12, cell: func(e Event, at look, _ int) cell {
			return cell{e.Time.In(at.now.Location()).Format("15:04:05.000"), plain}
		}},
		{title: "KIND", width: 20, rank: 1, cell: func(e Event, _ look, _ int) cell { return cell{e.Kind, eventColour(e.Kind)} }},
		{title: "WHAT HAPPENED", width: 20, grow: 1, cell: func(e Event, _ look, _ int) cell { return cell{figures.Printable(e.Text), plain} }},
	}
}

func eventColour(kind string) style {
	switch {
	case strings.HasSuffix(kind, "_failed"), kind == "node_offline":
		return red
	case strings.HasSuffix(kind, "_preempted"), strings.HasSuffix(kind, "_aborted"), strings.HasSuffix(kind, "_interrupted"), kind == "leader_changed":
		return yellow
	case strings.HasSuffix(kind, "_completed"):
		return green
	default:
		return plain
	}
}
