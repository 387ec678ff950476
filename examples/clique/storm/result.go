package storm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// names are the names of the runs, by whether the service is protected.
var names = map[bool]string{true: "handed over", false: "not handed over"}

// doom is the death of a node.
type doom struct {
	node string
	// The node died at `from`, discovery reported that at `known`, and the node was started again
	// at `to`.
	from, known, to time.Time
}

// took reports whether a request failed because of the death: it ran on the node, or was sent there
// before the death was known.
func (d doom) took(cut load.Cut) bool {
	return cut.Node == d.node && cut.Ended.After(d.from) && cut.Began.Before(d.to)
}

// had reports whether a job ran on the node when it died.
func (d doom) had(job *apipb.Job) bool {
	return job.GetNode() == d.node && job.GetStartTime().AsTime().Before(d.from) && job.GetFinishTime().AsTime().After(d.from)
}

// result is the result of a run.
type result struct {
	spared bool
	// began and ended are the times of the load.
	began, ended time.Time
	tally        load.Tally
	moments      []playground.Moment[state]
	events       []happening
	doom         doom
	// These count instances that ended: left were ordered to stop and exited by themselves; cut
	// were killed, at their deadline or before they ran; lost died with their node.
	left, cut, lost int
}

// count counts how instances ended during the load.
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

// least returns the minimum number of ready instances during the load.
func (r *result) least() int {
	return slices.MinFunc(r.moments, func(a, b playground.Moment[state]) int { return cmp.Compare(a.Is.ready, b.Is.ready) }).Is.ready
}

// judge counts the requests that the death of the node failed: ran counts those that were running
// on it; early counts those that were sent to it before the death was known. others are the
// requests that failed for another cause.
func (r *result) judge() (ran, early int, others []load.Cut) {
	for _, cut := range r.tally.Cut {
		switch {
		case !r.doom.took(cut):
			others = append(others, cut)
		case cut.Began.Before(r.doom.from):
			ran++
		default:
			early++
		}
	}
	return ran, early, others
}

// failed formats, in this order: the name of the run, the number of requests that failed elsewhere
// than on the dead node, the number of all requests, and the number that failed on the dead node.
func (r *result) failed(format string) string {
	ran, early, others := r.judge()
	return fmt.Sprintf(format, names[r.spared], len(others), r.tally.Total().Sent, ran+early)
}

// happened counts the events, by kind.
func (r *result) happened() (count [kinds]int) {
	for _, e := range r.events {
		count[e.kind]++
	}
	return count
}

// broken lists the promises of a protected service that do not hold.
func (c Config) broken(r *result) []string {
	var faults []string
	if _, _, others := r.judge(); len(others) > 0 {
		faults = append(faults, fmt.Sprintf("%d requests failed on nodes other than the one that died", len(others)))
	}
	if missing := r.tally.Missing(c.Requests); missing != "" {
		faults = append(faults, missing)
	}
	for k, count := range r.happened() {
		if count == 0 {
			faults = append(faults, "there was no event of the kind "+words[k])
		}
	}
	if took := r.doom.known.Sub(r.doom.from); took > playground.Lease/2 {
		// If the broken connection is not noticed, only the silence of nearly a lease reveals
		// the death.
		faults = append(faults, fmt.Sprintf("discovery reported the death of a node after %v, more than half of its lease of %v", took, playground.Lease))
	}
	return faults
}

// summary returns the last line of the report.
func summary(spared, plain *result) string {
	const line = "%s failed %d of %d requests, and %d on the dead node"
	return spared.failed(line) + "; " + plain.failed(line)
}

// eventsTable draws the events, and how the instances ended.
func eventsTable(results ...*result) string {
	var rows []table.Row
	for _, r := range results {
		n := r.happened()
		rows = append(rows, table.Row{names[r.spared], n[drain], n[rival], n[upgrade], n[death], r.left, r.cut, r.lost, r.least()})
	}
	return playground.Table(table.Row{"service", "drains", "preemptions", "upgrades", "deaths", "instances that left", "ended otherwise", "lost", "least ready"}, 1, rows...)
}

// requestsTable draws the results of the requests.
func requestsTable(results ...*result) string {
	var rows []table.Row
	for _, r := range results {
		ran, early, others := r.judge()
		total := r.tally.Total()
		rows = append(rows, table.Row{names[r.spared], total.Sent, total.Answered, len(others), ran, early, r.doom.known.Sub(r.doom.from).Round(time.Millisecond)})
	}
	return playground.Table(table.Row{"service", "requests", "answered", "failed", "ran on the dead node", "sent before the death was known", "death known after"}, 1, rows...)
}
