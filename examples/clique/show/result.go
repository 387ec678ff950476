package show

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"weir/cmd/chart"
	"weir/examples/clique/load"
	"weir/examples/clique/playground"
)

// names are those of the runs, by mode.
var names = map[string]string{normal: "ordinary", graceful: "graceful"}

// nearly is how far apart shares may be and count as the same.
const nearly = 1e-6

// state is how things stand.
type state struct{ service, heavy holding }

func serviceOf(s *state) *holding { return &s.service }
func heavyOf(s *state) *holding   { return &s.heavy }

// holding is what an operation has: parts of the cluster.
type holding struct {
	// fair is its fair share, 0 while it is not known.
	fair float64
	// live is held by jobs that may stay, draining by those that were told to go.
	live, draining float64
}

// used is its usage share: jobs that leave have not left.
func (h holding) used() float64 { return h.live + h.draining }

// reached returns how long after from the service uses no more than its fair share, and
// the heavy operation no less than its own.
func reached(moments []playground.Moment[state], from time.Duration) (took time.Duration, ok bool) {
	for _, m := range moments {
		service, heavy := m.Is.service, m.Is.heavy
		if m.At >= from && heavy.fair != 0 && service.used() <= service.fair+nearly && heavy.used() >= heavy.fair-nearly {
			return m.At - from, true
		}
	}
	return 0, false
}

// result is what came out of a run.
type result struct {
	mode    string
	tally   load.Tally
	moments []playground.Moment[state]
	// arrived and departed are when the heavy operation came and went.
	arrived, departed time.Duration
	// reached is how long after it came both operations had their fair share.
	reached time.Duration
	// left of the preempted instances have ended by themselves, cut were killed.
	left, cut int
}

// broken returns what was promised and does not hold.
func (c Config) broken(ordinary, graceful *result) []string {
	var faults []string
	if ordinary.tally.Total().Failed == 0 {
		faults = append(faults, "ordinary preemption has failed no request, though some take longer than its timeout")
	}
	if failed := graceful.tally.Total().Failed; failed > 0 {
		faults = append(faults, fmt.Sprintf("graceful preemption has failed requests: %d", failed))
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

// summary is the last line.
func summary(ordinary, graceful *result) string {
	a, b := ordinary.tally.Total(), graceful.tally.Total()
	return fmt.Sprintf("ordinary failed %d of %d requests; graceful failed %d of %d requests", a.Failed, a.Sent, b.Failed, b.Sent)
}

// requestsTable draws what became of the requests.
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

// instancesTable draws what became of the instances and of the shares.
func instancesTable(results ...*result) string {
	var rows []table.Row
	for _, r := range results {
		rows = append(rows, table.Row{names[r.mode], r.left + r.cut, r.left, r.cut, fmt.Sprintf("%.1f s", r.reached.Seconds())})
	}
	return playground.Table(table.Row{"preemption", "instances that had to go", "ended by themselves", "killed", "usage is fair after"}, 1, rows...)
}

// outcome is what is shown of the run beside the tables: usage share against fair share.
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
		Marks: []chart.Mark{{At: r.arrived, Text: "heavy arrives"}, {At: r.departed, Text: "heavy goes"}},
	}}
}
