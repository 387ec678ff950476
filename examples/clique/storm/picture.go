package storm

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"weir/cmd/chart"
)

// files are the names of the pictures.
var files = map[bool]string{true: "storm-handed-over", false: "storm-plain"}

// draw draws the ready instances, the events and the failures, as SVG and PNG, and returns the
// files.
func (r *result) draw(folder string, instances int) (drawn []string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("draw storm: %w", err)
	}
	base := filepath.Join(folder, files[r.spared])
	if err := r.chart(instances).Save(base); err != nil {
		return nil, err
	}
	return []string{base + ".svg", base + ".png"}, nil
}

func (r *result) chart(instances int) chart.Chart {
	ran, early := r.doomed()
	c := chart.Chart{
		Title: fmt.Sprintf("%s: %d of %d requests failed, and %d on the dead node", names[r.spared], r.failed(), r.tally.Total().Sent, ran+early),
		Y:     "instances",
		Series: []chart.Series{
			r.series("instances that are ready", chart.Area, 0, func(m moment) int { return m.ready }),
			r.series("instances that run", chart.Steps, 7, func(m moment) int { return m.present }),
		},
	}
	row := float64(instances) + 2
	for k, colour := range [kinds]int{drain: 2, rival: 1, upgrade: 5, death: 4} {
		row++
		title := map[kind]string{drain: "a node is drained", rival: "a rival is there", upgrade: "an agent is upgraded", death: "a node is dead"}[kind(k)]
		c.Series = append(c.Series, r.bars(title, kind(k), colour, row)...)
	}
	c.Series = append(c.Series, r.ticks(row+1)...)
	c.Top = row + 2
	return c
}

func (r *result) series(name string, style chart.Style, color int, of func(moment) int) chart.Series {
	s := chart.Series{Name: name, Style: style, Color: color}
	for _, m := range r.moments {
		s.Points = append(s.Points, chart.Point{At: m.at.Sub(r.began), Y: float64(of(m))})
	}
	return s
}

// bars are the events of a kind, at a height.
func (r *result) bars(name string, of kind, color int, height float64) (bars []chart.Series) {
	for _, e := range r.events {
		if e.kind != of {
			continue
		}
		bars = append(bars, chart.Series{Name: name, Color: color, Points: []chart.Point{{At: e.from.Sub(r.began), Y: height}, {At: e.to.Sub(r.began), Y: height}}})
		// One place in the legend is enough.
		name = ""
	}
	return bars
}

// ticks are the failed requests, a tick for each second with any, above a height.
func (r *result) ticks(height float64) (ticks []chart.Series) {
	name, last := "requests fail", time.Duration(-1)
	for _, cut := range r.tally.Cut {
		at := cut.Ended.Sub(r.began).Truncate(time.Second)
		if at == last {
			continue
		}
		ticks = append(ticks, chart.Series{Name: name, Color: 3, Points: []chart.Point{{At: at, Y: height}, {At: at, Y: height + 0.8}}})
		// One place in the legend is enough.
		name, last = "", at
	}
	return ticks
}
