package storm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// names are those of the runs: of a service that is spared, and of one that is not.
var names = map[bool]string{true: "handed over", false: "not handed over"}

// doom is the death of a node.
type doom struct {
	node string
	// from is when it died, known when discovery has told of it, to when it was started again.
	from, known, to time.Time
}

// took returns whether it is the death of the node that failed a request: one that ran there, or
// that was sent before word of the death had come.
func (d doom) took(cut load.Cut) bool {
	return cut.Node == d.node && cut.Ended.After(d.from) && cut.Began.Before(d.to)
}

// had returns whether a job ran on the node when that died.
func (d doom) had(job *apipb.Job) bool {
	return job.GetNode() == d.node && job.GetStartTime().AsTime().Before(d.from) && job.GetFinishTime().AsTime().After(d.from)
}

// result is what came out of a run.
type result struct {
	spared bool
	// began and ended are the times of the load.
	began, ended time.Time
	tally        load.Tally
	moments      []moment
	events       []happening
	doom         doom
	// left of the instances that were told to go have ended by themselves, cut were killed, at
	// their deadline or before they ran; lost went with their node.
	left, cut, lost int
}

// count counts how instances ended while there was a load.
func (r *result) count(jobs []*apipb.Job) {
	for _, job := range jobs {
		switch {
		case job.GetFinishTime() == nil, job.GetFinishTime().AsTime().After(r.ended):
		case r.doom.had(job):
			r.lost++
		case job.GetInterruption() == nil:
		case job.GetState() == lifecycle.JobCompleted.String():
			r.left++
		default:
			r.cut++
		}
	}
}

// happened counts the events of a kind.
func (r *result) happened(of kind) (count int) {
	for _, e := range r.events {
		if e.kind == of {
			count++
		}
	}
	return count
}

// least is the least number of ready instances.
func (r *result) least() int {
	return slices.MinFunc(r.moments, func(a, b moment) int { return cmp.Compare(a.ready, b.ready) }).ready
}

// doomed counts the requests that the death of the node failed: that ran there, and that came
// before word of it did.
func (r *result) doomed() (ran, early int) {
	for _, cut := range r.tally.Cut {
		switch {
		case !r.doom.took(cut):
		case cut.Began.Before(r.doom.from):
			ran++
		default:
			early++
		}
	}
	return ran, early
}

// failed counts the requests that failed for another cause.
func (r *result) failed() int {
	ran, early := r.doomed()
	return r.tally.Total().Failed - ran - early
}

// broken returns what was promised of a service that is spared and does not hold.
func (c Config) broken(r *result) []string {
	var faults []string
	if n := r.failed(); n > 0 {
		faults = append(faults, fmt.Sprintf("%d requests have failed that were not on the node that died", n))
	}
	total := r.tally.Total()
	if total.Sent < c.Requests || total.Answered+total.Failed != total.Sent {
		faults = append(faults, fmt.Sprintf("of %d requests, at least %d of which were to be sent, %d were answered and %d failed", total.Sent, c.Requests, total.Answered, total.Failed))
	}
	for k := range kinds {
		if r.happened(k) == 0 {
			faults = append(faults, "no event was of the kind "+words[k])
		}
	}
	if took := r.doom.known.Sub(r.doom.from); took > playground.Lease/2 {
		// Without the broken connection it would be the silence of nearly a lease that tells.
		faults = append(faults, fmt.Sprintf("word that a node had died took %v, more than half of its lease of %v", took, playground.Lease))
	}
	return faults
}

// summary is the last line.
func summary(spared, plain *result) string {
	line := func(r *result) string {
		ran, early := r.doomed()
		return fmt.Sprintf("%s failed %d of %d requests, and %d on the dead node", names[r.spared], r.failed(), r.tally.Total().Sent, ran+early)
	}
	return line(spared) + "; " + line(plain)
}

// drawTable draws a table, a row for each result.
func drawTable(header table.Row, results []*result, row func(*result) table.Row) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(append(table.Row{"service"}, header...))
	var columns []table.ColumnConfig
	for i := range header {
		columns = append(columns, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for _, r := range results {
		t.AppendRow(append(table.Row{names[r.spared]}, row(r)...))
	}
	return t.Render()
}

// eventsTable draws what happened, and what became of the instances.
func eventsTable(results ...*result) string {
	header := table.Row{"drains", "preemptions", "upgrades", "deaths", "instances that left", "ended otherwise", "lost", "least ready"}
	return drawTable(header, results, func(r *result) table.Row {
		return table.Row{r.happened(drain), r.happened(rival), r.happened(upgrade), r.happened(death), r.left, r.cut, r.lost, r.least()}
	})
}

// requestsTable draws what became of the requests.
func requestsTable(results ...*result) string {
	header := table.Row{"requests", "answered", "failed", "ran on the dead node", "sent before word came", "word took"}
	return drawTable(header, results, func(r *result) table.Row {
		ran, early := r.doomed()
		total := r.tally.Total()
		return table.Row{total.Sent, total.Answered, r.failed(), ran, early, r.doom.known.Sub(r.doom.from).Round(time.Millisecond)}
	})
}

// failures lists what went wrong but for the node that died, one line each.
func (r *result) failures() (lines []string) {
	found := map[string]int{}
	for _, cut := range r.tally.Cut {
		if !r.doom.took(cut) {
			found[cut.What]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		lines = append(lines, fmt.Sprintf("%s: %d x %s", names[r.spared], found[what], what))
	}
	return lines
}
