package show

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"weir/examples/clique/load"
)

// names are those of the runs, by mode.
var names = map[string]string{normal: "ordinary", graceful: "graceful"}

// result is what came out of a run.
type result struct {
	mode    string
	tally   load.Tally
	moments []moment
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
	if graceful.tally.Total().Failed > 0 {
		faults = append(faults, fmt.Sprintf("graceful preemption has failed requests: %v", graceful.tally.Failures))
	}
	for _, r := range []*result{ordinary, graceful} {
		total := r.tally.Total()
		if total.Sent < c.Requests || total.Answered+total.Failed != total.Sent {
			faults = append(faults, fmt.Sprintf("%s: of %d requests, at least %d of which were to be sent, %d were answered and %d failed", names[r.mode], total.Sent, c.Requests, total.Answered, total.Failed))
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
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"preemption", "loop", "sent", "answered", "failed", "withheld", "longest"})
	for i, r := range results {
		if i > 0 {
			t.AppendSeparator()
		}
		for _, row := range []struct {
			loop    string
			count   load.Count
			longest string
		}{{"closed", r.tally.Closed, ""}, {"open", r.tally.Open, ""}, {"both", r.tally.Total(), fmt.Sprintf("%.1f s", r.tally.Longest.Seconds())}} {
			t.AppendRow(table.Row{names[r.mode], row.loop, row.count.Sent, row.count.Answered, row.count.Failed, row.count.Withheld, row.longest})
		}
	}
	return right(t, 3, 7)
}

// instancesTable draws what became of the instances and of the shares.
func instancesTable(results ...*result) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"preemption", "instances that had to go", "ended by themselves", "killed", "usage is fair after"})
	for _, r := range results {
		t.AppendRow(table.Row{names[r.mode], r.left + r.cut, r.left, r.cut, fmt.Sprintf("%.1f s", r.reached.Seconds())})
	}
	return right(t, 2, 5)
}

// right aligns some columns of a table at their right.
func right(t table.Writer, from, to int) string {
	var columns []table.ColumnConfig
	for number := from; number <= to; number++ {
		columns = append(columns, table.ColumnConfig{Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	return t.Render()
}

// failures lists what went wrong, one line each.
func (r *result) failures() (lines []string) {
	for _, what := range slices.Sorted(maps.Keys(r.tally.Failures)) {
		lines = append(lines, fmt.Sprintf("%s: %d x %s", names[r.mode], r.tally.Failures[what], what))
	}
	return lines
}
