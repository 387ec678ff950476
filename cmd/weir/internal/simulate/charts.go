package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"weir/cmd/chart"
)

// SaveCharts draws the series of a result into a folder, which it creates: usage, demand, jobs
// and, if any pool has them, volumes, each as SVG and PNG. File names of the control run begin
// with control-.
func (r *Result) SaveCharts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save charts: %w", err)
	}
	return r.each(func(prefix string, r *Result) error {
		for name, picture := range r.charts() {
			if err := picture.Save(filepath.Join(dir, prefix+name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// charts returns the charts by file name.
func (r *Result) charts() map[string]chart.Chart {
	all := map[string]chart.Chart{
		"usage":  {Title: r.titled("usage (filled) and fair share (dashed)"), Y: "% of the cluster", Top: 105, Series: append(r.shares(chart.Area, usageOf), r.shares(chart.Dashed, fairOf)...)},
		"demand": {Title: r.titled("demand (line) and usage (filled)"), Y: "% of the cluster", Top: 105, Series: append(r.shares(chart.Area, usageOf), r.shares(chart.Steps, demandOf)...)},
		"jobs": {Title: r.titled("jobs"), Y: "jobs", Series: []chart.Series{
			r.line("running", 0, func(s sample) float64 { return float64(s.running) }),
			r.line("preempted so far", 3, func(s sample) float64 { return float64(s.preempted) }),
		}},
	}
	if slices.ContainsFunc(r.Pools, func(p Pool) bool { return p.Integral != nil }) {
		all["volumes"] = chart.Chart{Title: r.titled("volumes"), Y: "seconds of the whole cluster", Series: r.shares(chart.Line, func(p poolSample) float64 { return p.volume })}
	}
	for name, picture := range all {
		picture.Marks = r.marks
		all[name] = picture
	}
	return all
}

func (r *Result) titled(what string) string {
	title := what
	if r.Title != "" {
		title = r.Title + ": " + what
	}
	if r.Name != "" {
		title += " (" + r.Name + ")"
	}
	return title
}

func usageOf(p poolSample) float64  { return 100 * p.usage }
func fairOf(p poolSample) float64   { return 100 * p.fair }
func demandOf(p poolSample) float64 { return 100 * p.demand }

// maxPoints bounds the points of a line: more cannot be seen.
const maxPoints = 2000

// shares returns a series for each leaf pool. All series of a pool share its colour, so the
// legend names the pool once.
func (r *Result) shares(style chart.Style, of func(poolSample) float64) []chart.Series {
	var out []chart.Series
	for i, pool := range r.series.pools {
		if !pool.leaf {
			continue
		}
		s := chart.Series{Name: string(pool.name), Style: style, Color: len(out)}
		if style != chart.Area && style != chart.Line {
			s.Name = ""
		}
		s.Points = r.points(func(s sample) float64 { return of(s.pools[i]) })
		out = append(out, s)
	}
	return out
}

func (r *Result) line(name string, color int, of func(sample) float64) chart.Series {
	return chart.Series{Name: name, Style: chart.Steps, Color: color, Points: r.points(of)}
}

// points returns the points of a series, thinned out when there are many samples.
func (r *Result) points(of func(sample) float64) []chart.Point {
	stride := (len(r.series.samples) + maxPoints - 1) / maxPoints
	var out []chart.Point
	for i, s := range r.series.samples {
		if i%max(stride, 1) == 0 || i == len(r.series.samples)-1 {
			out = append(out, chart.Point{At: s.at, Y: of(s)})
		}
	}
	return out
}

// marksOf returns the marks of a file's failures.
func marksOf(f *File) []chart.Mark {
	var marks []chart.Mark
	for _, failure := range f.Failures {
		switch {
		case *failure.Leader:
			marks = append(marks, chart.Mark{At: failure.At.Duration, Text: "leader lost"})
		default:
			marks = append(marks, chart.Mark{At: failure.At.Duration, Text: fmt.Sprintf("%d nodes lost", *failure.Nodes)})
			if back := failure.At.Duration + failure.BackAfter.Duration; failure.BackAfter.Duration > 0 && back < f.Duration {
				marks = append(marks, chart.Mark{At: back, Text: "back"})
			}
		}
	}
	return marks
}
