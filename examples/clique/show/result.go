package show

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"weir/cmd/chart"
	"weir/examples/clique/load"
	"weir/examples/clique/playground"
)

// names are the names of the runs, by mode.
var names = map[string]string{normal: "ordinary", graceful: "graceful"}

// nearly is the difference up to which shares count as equal.
const nearly = 1e-6

// state is the state of both operations.
type state struct{ service, heavy holding }

func serviceOf(s *state) *holding { return &s.service }
func heavyOf(s *state) *holding   { return &s.heavy }

// holding is what an operation holds, in shares of the cluster.
type holding struct {
	// fair is its fair share, 0 while unknown.
	fair float64
	// live is the share of jobs that may stay; draining is the share of jobs that were ordered to
	// stop.
	live, draining float64
}

// used is its usage share: draining jobs still hold resources.
func (h holding) used() float64 { return h.live + h.draining }

// reached returns how long it takes, after the time `from`, until the service uses at most its fair
// share, and the heavy operation at least its own.
func reached(moments []playground.Moment[state], from time.Duration) (took time.Duration, ok bool) {
	for _, m := range moments {
		service, heavy := m.Is.service, m.Is.heavy
		if m.At >= from && heavy.fair != 0 && service.used() <= service.fair+nearly && heavy.used() >= heavy.fair-nearly {
			return m.At - from, true
		}
	}
	return 0, false
}

// result is the result of a run.
type result struct {
	mode    string
	tally   load.Tally
	moments []playground.Moment[state]
	// arrived and departed are when the heavy operation began and ended.
	arrived, departed time.Duration
	// reached is how long after arrived both operations had their fair share.
	reached time.Duration
	// left counts the preempted instances that exited by themselves; cut counts those that were
	// killed.
	left, cut int
}

// broken lists the promises that do not hold.
func (c Config) broken(ordinary, graceful *result) []string {
	var faults []string
	if ordinary.tally.Total().Failed == 0 {
		faults = append(faults, "ordinary preemption failed no request, although some take longer than its timeout")
	}
	if failed := graceful.tally.Total().Failed; failed > 0 {
		faults = append(faults, fmt.Sprintf("graceful preemption failed requests: %d", failed))
	}
	for _, r := range []*result{ordinary, graceful} {
		if missing := r.tally.Missing(c.Requests); missing != "" {
			faults = append(faults, names[r.mode]+": "+missing)
		}
		if longest := c.Load.Lengths.Longest; r.reached > longest {
			faults = append(faults, fmt.Sprintf("%s: usage share took %.1f s to reach fair share, longer than the longest request, %v", names[r.mode], r.reached.Seconds(), longest))
		}
	}
	return faults
}

// summary returns the last line of the report.
func summary(ordinary, graceful *result) string {
	a, b := ordinary.tally.Total(), graceful.tally.Total()
	return fmt.Sprintf("ordinary failed %d of %d requests; graceful failed %d of %d requests", a.Failed, a.Sent, b.Failed, b.Sent)
}

// requestsTable draws the results of the requests.
func requestsTable(results ...*result) string {
	var rows []table.Row
	row := func(r *result, loop string, c load.Count, longest string) {
		rows = append(rows, table.Row{names[r.mode], loop, c.Sent, c.Answered, c.Failed, c.Withheld, longest})
	}
	for i, r := range results {
		if i > 0 {
			rows = append(rows, nil)
		}
		row(r, "closed", r.tally.Closed, "")
		row(r, "open", r.tally.Open, "")
		row(r, "both", r.tally.Total(), fmt.Sprintf("%.1f s", r.tally.Longest.Seconds()))
	}
	return playground.Table(table.Row{"preemption", "loop", "sent", "answered", "failed", "withheld", "longest"}, 2, rows...)
}

// instancesTable draws how the instances ended, and how long the shares took.
func instancesTable(results ...*result) string {
	var rows []table.Row
	for _, r := range results {
		rows = append(rows, table.Row{names[r.mode], r.left + r.cut, r.left, r.cut, fmt.Sprintf("%.1f s", r.reached.Seconds())})
	}
	return playground.Table(table.Row{"preemption", "preempted instances", "ended by themselves", "killed", "fair share reached after"}, 1, rows...)
}

// outcome returns the rest of the report, apart from the tables: the chart of usage shares and fair
// shares.
func (r *result) outcome() playground.Outcome {
	total := r.tally.Total()
	return playground.Outcome{Name: names[r.mode], Picture: names[r.mode], Cut: r.tally.Cut, Chart: chart.Chart{
		Title: fmt.Sprintf("%s preemption: %d of %d requests failed", names[r.mode], total.Failed, total.Sent),
		Y:     "share of the cluster", Top: 1.2,
		Series: []chart.Series{
			playground.Series("instances that may stay", chart.Area, 0, r.moments, func(s state) float64 { return s.service.live }),
			playground.Series("usage share of the service", chart.Steps, 3, r.moments, func(s state) float64 { return s.service.used() }),
			playground.Series("usage share of the heavy operation", chart.Steps, 2, r.moments, func(s state) float64 { return s.heavy.used() }),
			playground.Series("fair share of the service", chart.Dashed, 7, r.moments, func(s state) float64 { return s.service.fair }),
		},
		Marks: []chart.Mark{{At: r.arrived, Text: "heavy arrives"}, {At: r.departed, Text: "heavy ends"}},
	}}
}
