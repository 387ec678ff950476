package storm

import (
	"time"

	"weir/cmd/chart"
	"weir/examples/clique/playground"
)

// files are the names of the pictures.
var files = map[bool]string{true: "storm-handed-over", false: "storm-plain"}

// bars are the titles and colours of each kind of event.
var bars = [kinds]struct {
	title string
	color int
}{drain: {"a node is drained", 2}, rival: {"a rival runs", 1}, upgrade: {"an agent is upgraded", 5}, death: {"a node is dead", 4}}

// outcome returns the rest of the report, apart from the tables: the ready instances, the events
// and the failures.
func (r *result) outcome(instances int) playground.Outcome {
	_, _, others := r.judge()
	c := chart.Chart{
		Title: r.failed("%s: %d of %d requests failed, and %d on the dead node"), Y: "instances",
		Series: []chart.Series{
			playground.Series("instances that are ready", chart.Area, 0, r.moments, func(s state) float64 { return float64(s.ready) }),
			playground.Series("instances that run", chart.Steps, 7, r.moments, func(s state) float64 { return float64(s.present) }),
		},
	}
	// One place in the legend is enough for lines of the same name.
	named := map[string]bool{}
	line := func(name string, color int, from, to chart.Point) {
		if named[name] {
			name = ""
		}
		named[name] = true
		c.Series = append(c.Series, chart.Series{Name: name, Color: color, Points: []chart.Point{from, to}})
	}
	row := float64(instances) + 3
	for _, e := range r.events {
		y := row + float64(e.kind)
		line(bars[e.kind].title, bars[e.kind].color, chart.Point{At: e.from, Y: y}, chart.Point{At: e.to, Y: y})
	}
	row += float64(kinds)
	for _, cut := range r.tally.Cut {
		at := cut.Ended.Sub(r.began).Truncate(time.Second)
		line("requests fail", 3, chart.Point{At: at, Y: row}, chart.Point{At: at, Y: row + 0.8})
	}
	c.Top = row + 1
	return playground.Outcome{Name: names[r.spared], Picture: files[r.spared], Chart: c, Cut: others}
}
