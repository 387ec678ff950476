package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/cmd/weir/internal/simulate"
	"weir/scheduling/resource"
)

// simulationText shows a result for people: the cluster, its pools and days, each with
// the control run beside it.
func simulationText(r *simulate.Result) string {
	var b strings.Builder
	if r.Title != "" {
		b.WriteString(r.Title + "\n")
	}
	fmt.Fprintf(&b, "%s of %d nodes with %s, seed %d", longTime(r.Duration), r.Nodes, amounts(shownAmounts(r.Total)), r.Seed)
	if r.Control != nil {
		fmt.Fprintf(&b, "; control run: %s", r.Control.Name)
	}
	b.WriteString("\n\n" + summaryText(r) + "\n" + estimatesText(r) + simulatedPools(r) + "\n" + simulatedDays(r))
	b.WriteString("\n")
	for _, one := range []*simulate.Result{r, r.Control} {
		if one != nil && one.Operations.Refused > 0 {
			fmt.Fprintf(&b, "%s%d operations were rejected, the first because: %s\n", when(one != r, "control run: "), one.Operations.Refused, one.Operations.RefusedBecause)
		}
	}
	return b.String()
}

// sideBySide returns a grid with columns and, if there is a control run, the columns control; the
// first of these begins with the name of that run.
func sideBySide(r *simulate.Result, columns []string, control ...string) grid {
	if r.Control == nil {
		return newGrid(columns...)
	}
	control[0] = r.Control.Name + control[0]
	return newGrid(append(columns, control...)...)
}

func summaryText(r *simulate.Result) string {
	g := sideBySide(r, []string{"figure", "value>"}, ">")
	line := func(name string, of func(*simulate.Result) string) {
		row := []any{name, of(r)}
		if r.Control != nil {
			row = append(row, of(r.Control))
		}
		g.row(row...)
	}
	for k := range resource.Kind(resource.Count) {
		if _, has := r.Utilization[k.String()]; has && k != resource.UserSlots {
			line("utilization of "+k.String(), func(r *simulate.Result) string { return percent(r.Utilization[k.String()]) })
		}
	}
	line("operations submitted", func(r *simulate.Result) string { return strconv.FormatInt(r.Operations.Submitted, 10) })
	line("operations ended", func(r *simulate.Result) string { return strconv.FormatInt(r.Operations.Ended, 10) })
	line("jobs started", func(r *simulate.Result) string { return strconv.FormatInt(r.Jobs.Started, 10) })
	for _, state := range keysOf(r, func(r *simulate.Result) map[string]int64 { return r.Jobs.Ended }) {
		line("jobs ended: "+state, func(r *simulate.Result) string { return strconv.FormatInt(r.Jobs.Ended[state], 10) })
	}
	for _, kind := range keysOf(r, func(r *simulate.Result) map[string]int64 { return r.Preempted }) {
		line("preempted: "+kind, func(r *simulate.Result) string { return strconv.FormatInt(r.Preempted[kind], 10) })
	}
	if r.Memory != nil {
		memory := func(of func(*simulate.Memory) float64) func(*simulate.Result) string {
			return func(r *simulate.Result) string {
				if r.Memory == nil {
					return none
				}
				return size(int64(of(r.Memory)))
			}
		}
		line("memory that jobs may use", memory(func(m *simulate.Memory) float64 { return m.Limit }))
		line("memory reserved", memory(func(m *simulate.Memory) float64 { return m.Reserved }))
		line("memory used", memory(func(m *simulate.Memory) float64 { return m.Used }))
	}
	line("wait of jobs p50", func(r *simulate.Result) string { return waitText(r.JobWaits.P50) })
	line("wait of jobs p95", func(r *simulate.Result) string { return waitText(r.JobWaits.P95) })
	line("wait of jobs max", func(r *simulate.Result) string { return waitText(r.JobWaits.Max) })
	line("wait of operations p50", func(r *simulate.Result) string { return waitText(r.OperationWaits.P50) })
	line("wait of operations p95", func(r *simulate.Result) string { return waitText(r.OperationWaits.P95) })
	line("wait of operations max", func(r *simulate.Result) string { return waitText(r.OperationWaits.Max) })
	line("fairness error", func(r *simulate.Result) string { return percent(r.FairnessError) })
	return g.String()
}

// estimatesText shows how good estimates of starts were; it is empty if none were asked for.
func estimatesText(r *simulate.Result) string {
	if r.Estimates == nil {
		return ""
	}
	g := newEstimatesGrid()
	for _, run := range []*simulate.Result{r, r.Control} {
		if run != nil {
			addEstimates(g, when(run.Name != "", run.Name+": "), run.Estimates)
		}
	}
	return g.String() + "\n"
}

func newEstimatesGrid() grid {
	return newGrid("start of", "asked>", "told>", "judged>", "error p50>", "error p90>", "off p50>", "off p90>", "in range>", "range>")
}

// addEstimates adds how good the estimates of a run were.
func addEstimates(g grid, run string, e *simulate.Estimates) {
	add := func(what string, f simulate.Foretold) {
		judged := f.Judged > 0
		g.row(run+what, f.Asked, f.Told, f.Judged, when(judged, percent(f.ErrorP50)), when(judged, percent(f.ErrorP90)),
			when(judged, waitText(f.SecondsP50)), when(judged, waitText(f.SecondsP90)), when(judged, percent(f.Within)), when(judged, percent(f.Width)))
	}
	add("first job", e.First)
	add("next job", e.Next)
}

// keysOf returns the names in a map of either run.
func keysOf(r *simulate.Result, of func(*simulate.Result) map[string]int64) []string {
	all := maps.Clone(of(r))
	if r.Control != nil {
		maps.Copy(all, of(r.Control))
	}
	return slices.Sorted(maps.Keys(all))
}

func simulatedPools(r *simulate.Result) string {
	g := sideBySide(r, []string{"pool", "usage>", "of demand>", "fair share>", "got>", "of it>", "guarantee kept>", "wait p50>", "wait p95>", "wait max>", "operation p50>", "volume lasted>"},
		": usage>", "of demand>")
	for i, p := range r.Pools {
		settled, ran, lasted := p.Outcome.Window > 0, p.Jobs > 0, ""
		if p.Integral != nil && p.Integral.Most > 0 {
			lasted = waitText(p.Integral.LastedSeconds)
		}
		row := []any{
			p.Name, percent(p.UsageShare), partText(p.UsageCPUSeconds, p.DemandCPUSeconds),
			when(settled, percent(p.Outcome.Fair)), when(settled, percent(p.Outcome.Got)), when(settled, partText(p.Outcome.Got, p.Outcome.Fair)),
			share(p.Fulfilment), when(ran, waitText(p.JobWaits.P50)), when(ran, waitText(p.JobWaits.P95)), when(ran, waitText(p.JobWaits.Max)),
			when(p.OperationTimes.Max > 0, waitText(p.OperationTimes.P50)), lasted,
		}
		if r.Control != nil && i < len(r.Control.Pools) {
			other := r.Control.Pools[i]
			row = append(row, percent(other.UsageShare), partText(other.UsageCPUSeconds, other.DemandCPUSeconds))
		}
		g.row(row...)
	}
	return g.String()
}

func simulatedDays(r *simulate.Result) string {
	g := sideBySide(r, []string{"day>", "pool", "cpu on average>", "cpu wanted>", "got>"}, ": cpu>", "got>")
	for i, d := range r.Days {
		length := min(24*time.Hour, r.Duration-time.Duration(i)*24*time.Hour).Seconds()
		for j, p := range d.Pools {
			row := []any{d.Day, p.Pool, number(p.UsageCPUSeconds/length, 1), number(p.DemandCPUSeconds/length, 1), partText(p.UsageCPUSeconds, p.DemandCPUSeconds)}
			if r.Control != nil && i < len(r.Control.Days) && j < len(r.Control.Days[i].Pools) {
				other := r.Control.Days[i].Pools[j]
				row = append(row, number(other.UsageCPUSeconds/length, 1), partText(other.UsageCPUSeconds, other.DemandCPUSeconds))
			}
			g.row(row...)
		}
	}
	return g.String()
}

// partText formats got as a percentage of wanted.
func partText(got, wanted float64) string {
	if wanted <= resource.Epsilon {
		return none
	}
	return strconv.FormatFloat(100*got/wanted, 'f', 2, 64) + "%"
}

func waitText(seconds float64) string {
	return longTime(time.Duration(seconds * float64(time.Second)))
}

// longTime formats a duration of up to days without needless precision.
func longTime(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d >= day:
		return fmt.Sprintf("%dd%v", d/day, strings.TrimSuffix((d%day).Round(time.Minute).String(), "0s"))
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// speedText returns the speed of a run. It is not part of the answer: it differs each time.
func speedText(r *simulate.Result) string {
	faster, events := r.Speed()
	text := fmt.Sprintf("simulated %s in %.1f s: %.0f times faster than real time, %d events, %.0f a second", longTime(r.Duration), r.Took.Seconds(), faster, r.Events, events)
	if r.Control != nil {
		_, events := r.Control.Speed()
		text += fmt.Sprintf(" (parallel control run: %.1f s, %.0f a second)", r.Control.Took.Seconds(), events)
	}
	return text
}

// simulationMessage is the result for programs.
func simulationMessage(r *simulate.Result) (*structpb.Struct, error) {
	document := simulationMap(r)
	if r.Control != nil {
		document["control"] = simulationMap(r.Control)
	}
	return messageOf(document)
}

func simulationMap(r *simulate.Result) map[string]any {
	pools := make(map[string]any, len(r.Pools))
	for _, p := range r.Pools {
		pools[string(p.Name)] = simulatedPool(p)
	}
	days := make([]any, len(r.Days))
	for i, d := range r.Days {
		of := make(map[string]any, len(d.Pools))
		for _, p := range d.Pools {
			of[string(p.Pool)] = map[string]any{"demand_cpu_seconds": p.DemandCPUSeconds, "usage_cpu_seconds": p.UsageCPUSeconds}
		}
		days[i] = map[string]any{"day": d.Day, "pools": of}
	}
	document := map[string]any{
		"title": r.Title, "name": r.Name, "seed": r.Seed, "duration_seconds": r.Duration.Seconds(), "nodes": r.Nodes, "resources": r.Total.Map(), "utilization": r.Utilization,
		"operations": map[string]any{
			"submitted": r.Operations.Submitted, "refused": r.Operations.Refused, "ended": r.Operations.Ended, "in_progress": r.Operations.InProgress,
			"refused_because": r.Operations.RefusedBecause,
		},
		"jobs":                   map[string]any{"started": r.Jobs.Started, "running": r.Jobs.Running, "pending": r.Jobs.Pending, "ended": r.Jobs.Ended},
		"told_to_go":             r.Preempted,
		"job_wait_seconds":       waitsMap(r.JobWaits),
		"operation_wait_seconds": waitsMap(r.OperationWaits),
		"fairness_error":         r.FairnessError,
		"events":                 r.Events,
		"pools":                  pools,
		"days":                   days,
	}
	if e := r.Estimates; e != nil {
		document["estimates"] = map[string]any{"first_job": foretoldMap(e.First), "next_job": foretoldMap(e.Next)}
	}
	if m := r.Memory; m != nil {
		document["memory"] = map[string]any{"limit": m.Limit, "reserved": m.Reserved, "used": m.Used, "jobs": m.Jobs, "overdrafts": m.Overdrafts}
	}
	return document
}

func simulatedPool(p simulate.Pool) map[string]any {
	of := map[string]any{
		"parent": string(p.Parent), "demand_cpu_seconds": p.DemandCPUSeconds, "usage_cpu_seconds": p.UsageCPUSeconds, "usage_share": p.UsageShare,
		"guarantee_fulfilment": p.Fulfilment, "outcome": outcomeMap(p.Outcome), "jobs_started": p.Jobs, "job_wait_seconds": waitsMap(p.JobWaits), "operation_seconds": waitsMap(p.OperationTimes), "integral": nil,
	}
	if g := p.Integral; g != nil {
		of["integral"] = map[string]any{
			"granted_share_seconds": g.GrantedSeconds, "volume_share_seconds": g.VolumeSeconds, "greatest_share": g.Most, "lasted_seconds": g.LastedSeconds,
		}
	}
	return of
}

func foretoldMap(f simulate.Foretold) map[string]any {
	of := map[string]any{
		"asked": f.Asked, "told": f.Told, "untold": f.Untold, "judged": f.Judged,
		"error_p50": nil, "error_p90": nil, "off_seconds_p50": nil, "off_seconds_p90": nil, "in_range": nil, "range_width": nil,
	}
	if f.Judged > 0 {
		of["error_p50"], of["error_p90"], of["off_seconds_p50"], of["off_seconds_p90"] = f.ErrorP50, f.ErrorP90, f.SecondsP50, f.SecondsP90
		of["in_range"], of["range_width"] = f.Within, f.Width
	}
	return of
}

func outcomeMap(o simulate.Outcome) map[string]any {
	of := map[string]any{
		"settled_seconds": o.Window.Seconds(), "fair_share": o.Fair, "got_share": o.Got, "ratio": nil, "always_hungry": o.Hungry, "largest_job_share": o.LargestJob,
		"guarantee_asked_share_seconds": o.Asked, "guarantee_had_share_seconds": o.Had, "first_wait_seconds": o.FirstWait.Seconds(), "patience_seconds": o.Patience.Seconds(),
		"preempted_jobs": o.Preempted, "used_share_seconds": o.UsedSeconds, "lost_share_seconds": o.LostSeconds, "over_limits_seconds": o.OverLimits.Seconds(), "out_of_order_jobs": o.OutOfOrder,
	}
	if ratio, ok := o.Ratio(); ok {
		of["ratio"] = ratio
	}
	return of
}

func waitsMap(w simulate.Waits) map[string]any {
	return map[string]any{"p50": w.P50, "p95": w.P95, "max": w.Max}
}
