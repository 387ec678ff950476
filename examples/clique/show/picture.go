package show

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/cmd/chart"
)

// draw draws usage share against fair share, as SVG and PNG, and returns the files.
func (r *result) draw(folder string) (files []string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("draw shares: %w", err)
	}
	base := filepath.Join(folder, names[r.mode])
	if err := r.chart().Save(base); err != nil {
		return nil, err
	}
	return []string{base + ".svg", base + ".png"}, nil
}

func (r *result) chart() chart.Chart {
	total := r.tally.Total()
	return chart.Chart{
		Title: fmt.Sprintf("%s preemption: %d of %d requests failed", names[r.mode], total.Failed, total.Sent),
		Y:     "share of the cluster", Top: 1.2,
		Series: []chart.Series{
			r.series("instances that may stay", chart.Area, 0, func(m moment) float64 { return m.service.live }),
			r.series("usage share of the service", chart.Steps, 3, func(m moment) float64 { return m.service.used() }),
			r.series("usage share of the heavy operation", chart.Steps, 2, func(m moment) float64 { return m.heavy.used() }),
			r.series("fair share of the service", chart.Dashed, 7, func(m moment) float64 { return m.service.fair }),
		},
		Marks: []chart.Mark{{At: r.arrived, Text: "heavy arrives"}, {At: r.departed, Text: "heavy goes"}},
	}
}

func (r *result) series(name string, style chart.Style, color int, of func(moment) float64) chart.Series {
	s := chart.Series{Name: name, Style: style, Color: color}
	for _, m := range r.moments {
		s.Points = append(s.Points, chart.Point{At: m.at, Y: of(m)})
	}
	return s
}
