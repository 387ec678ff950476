package top

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/cmd/weir/internal/figures"
)

func newJobTable(columns ...column[Job]) *table[Job] {
	return newTable(func(j Job) string { return j.ID }, func(j Job) []string {
		return []string{j.ID, j.Task, j.Node, j.State, j.Why, j.Operation, j.Called, j.User, j.Pool}
	}, columns...)
}

func subjectOfJob(j Job) subject {
	called := Operation{ID: j.Operation, Title: j.Called}.called()
	return subject{job: j.ID, operation: j.Operation, called: called, node: j.Node, live: j.Finish.IsZero(),
		title: fmt.Sprintf("job %d of task %s (%s)", j.Cookie, j.Task, j.ID)}
}

// tellJob says which job it is, and why it has ended or has to leave.
func tellJob(m *Model, j Job) cell {
	return cell{fmt.Sprintf("job %s, %s on %s", j.ID, j.State, j.Node) + figures.When(j.Called != "", ", of operation "+j.Called) + figures.When(j.Resources != "", ", with "+j.Resources) +
		figures.When(j.Why != "", ": "+j.why(m.now)), plain}
}

// colour is the style of a job's state.
func (j Job) colour() style {
	switch {
	case j.State == "failed":
		return red
	case j.State == "aborted", j.State == "aborting", !j.Deadline.IsZero() && j.Finish.IsZero():
		return yellow
	case j.State == "running":
		return green
	default:
		return plain
	}
}

// why says why a job has ended, or until when it has to leave.
func (j Job) why(now time.Time) string {
	if j.Finish.IsZero() && !j.Deadline.IsZero() {
		return fmt.Sprintf("leaves within %s: %s", figures.Span(j.Deadline.Sub(now)), j.Why)
	}
	return j.Why
}

// jobText is a column of text.
func jobText(title string, width, grow, rank int, of func(Job) string) column[Job] {
	return column[Job]{title: title, width: width, grow: grow, rank: rank,
		cell:    func(j Job, _ look, _ int) cell { return cell{figures.Printable(of(j)), plain} },
		compare: func(a, b Job) int { return cmp.Compare(of(a), of(b)) }}
}

// nodeJobColumns are those of the jobs of one node: they say whose each is, and not where.
func nodeJobColumns() []column[Job] {
	columns := slices.DeleteFunc(jobColumns(), func(c column[Job]) bool { return c.title == "NODE" })
	return slices.Insert(columns, 1,
		jobText("OPERATION", 12, 2, 0, func(j Job) string { return cmp.Or(j.Called, figures.IDs{}.ID(j.Operation)) }),
		jobText("USER", 8, 0, 4, func(j Job) string { return j.User }),
		jobText("POOL", 8, 1, 5, func(j Job) string { return j.Pool }))
}

func jobColumns() []column[Job] {
	// took is how long a job has run; 0: not yet.
	took := func(j Job, now time.Time) time.Duration {
		switch {
		case j.Start.IsZero():
			return 0
		case !j.Finish.IsZero():
			now = j.Finish
		}
		return now.Sub(j.Start)
	}
	node := jobText("NODE", 8, 1, 1, func(j Job) string { return j.Node })
	node.most = nodeNameMost
	return []column[Job]{
		jobText("JOB", 36, 0, 7, func(j Job) string { return j.ID }),
		jobText("TASK", 8, 1, 0, func(j Job) string { return j.Task }),
		{title: "#", right: true, width: 6, cell: func(j Job, _ look, _ int) cell { return cell{fmt.Sprint(j.Cookie), plain} },
			compare: func(a, b Job) int { return cmp.Compare(a.Cookie, b.Cookie) }},
		{title: "TRY", right: true, width: 3, rank: 5, cell: func(j Job, _ look, _ int) cell { return cell{fmt.Sprint(j.Attempt), plain} },
			compare: func(a, b Job) int { return cmp.Compare(a.Attempt, b.Attempt) }},
		{title: "STATE", width: 9, cell: func(j Job, _ look, _ int) cell { return cell{j.State, j.colour()} },
			compare: func(a, b Job) int { return cmp.Compare(a.State, b.State) }},
		node,
		{title: "STARTED", width: 8, rank: 4, cell: func(j Job, at look, _ int) cell {
			if j.Start.IsZero() {
				return cell{figures.None, plain}
			}
			return cell{j.Start.In(at.now.Location()).Format("15:04:05"), plain}
		}, compare: func(a, b Job) int { return a.Start.Compare(b.Start) }},
		{title: "RAN", right: true, width: 6, rank: 2, cell: func(j Job, at look, _ int) cell {
			return cell{figures.When(!j.Start.IsZero(), figures.Span(took(j, at.now))), plain}
		}, compare: func(a, b Job) int { return b.Start.Compare(a.Start) }},
		{title: "MEMORY", right: true, width: 9, rank: 6, cell: func(j Job, _ look, _ int) cell {
			return cell{figures.When(j.MaxMemory > 0, figures.Size(j.MaxMemory)), plain}
		}, compare: func(a, b Job) int { return cmp.Compare(a.MaxMemory, b.MaxMemory) }},
		{title: "RESERVE", right: true, width: 9, rank: 8, cell: func(j Job, _ look, _ int) cell {
			return cell{figures.When(j.Reserve > 0, figures.Size(j.Reserve)), plain}
		}, compare: func(a, b Job) int { return cmp.Compare(a.Reserve, b.Reserve) }},
		{title: "WHY", width: 12, grow: 4, rank: 3, cell: func(j Job, at look, _ int) cell {
			return cell{figures.Printable(j.why(at.now)), j.colour()}
		}, compare: func(a, b Job) int { return cmp.Compare(a.Why, b.Why) }},
	}
}
