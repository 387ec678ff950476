// Package chart draws how numbers change over time, as SVG and PNG: lines, steps and areas
// on one time axis.
//
// Equal charts give identical files.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is one picture. The time axis begins at 0 or at the first point, whichever is
// earlier.
type Chart struct {
	Title string
	// Y labels the axis of numbers, with their unit.
	Y string
	// Series are drawn in this order: later ones lie above earlier ones.
	Series []Series
	// Marks are moments that get a vertical line across the chart.
	Marks []Mark
	// Top is the upper end of the axis of numbers; 0 means slightly above the greatest
	// number.
	Top float64
}

// Series is one number over time.
type Series struct {
	// Name is shown in the legend; a series without a name is left out of it.
	Name   string
	Points []Point
	Style  Style
	// Color is an index into the palette, modulo its length. Series that belong together
	// share one.
	Color int
}

// Point is a number at a moment, counted from the beginning.
type Point struct {
	At time.Duration
	Y  float64
}

// Mark is a labelled moment.
type Mark struct {
	At   time.Duration
	Text string
}

// Style is how a series is drawn.
type Style int

const (
	// Line joins the points.
	Line Style = iota
	// Steps keeps each number until the next point.
	Steps
	// Area is Steps, filled down to 0.
	Area
	// Dashed is Steps as a dashed line, for a target drawn next to the actual values.
	Dashed
)

// The size of a picture.
const (
	width  = 10 * vg.Inch
	height = 4.5 * vg.Inch
	// pixelsPerInch is the resolution of PNG files.
	pixelsPerInch = 120
)

// palette can be told apart by people who do not see all colours (Okabe and Ito).
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xd5, 0x5e, 0x00, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x8c, 0x7a, 0x00, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

// Save writes the chart to base.svg and base.png.
func (c Chart) Save(base string) error {
	for suffix, write := range map[string]func(io.Writer) error{".svg": c.SVG, ".png": c.PNG} {
		var picture bytes.Buffer
		if err := write(&picture); err != nil {
			return fmt.Errorf("save chart %s: %w", base+suffix, err)
		}
		if err := os.WriteFile(base+suffix, picture.Bytes(), 0o666); err != nil {
			return fmt.Errorf("save chart: %w", err)
		}
	}
	return nil
}

// SVG writes the chart as a vector graphic.
func (c Chart) SVG(w io.Writer) error { return c.write(w, vgsvg.New(width, height)) }

// PNG writes the chart as an image.
func (c Chart) PNG(w io.Writer) error {
	return c.write(w, vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pixelsPerInch))})
}

// write draws the chart on a canvas and writes the picture.
func (c Chart) write(w io.Writer, canvas interface {
	vg.CanvasSizer
	io.WriterTo
}) error {
	if err := c.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (c Chart) draw(on draw.Canvas) error {
	p := plot.New()
	p.BackgroundColor = color.White
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Title.Text, p.Title.Padding = c.Title, vg.Points(6)
	p.Y.Label.Text = c.Y
	p.Y.Min, p.Y.Max, p.X.Min = 0, 1, 0
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	p.Legend.Top, p.Legend.Left, p.Legend.Padding, p.Legend.ThumbnailWidth = true, true, vg.Points(3), vg.Points(22)
	end, top := 0.0, c.Top
	for _, s := range c.Series {
		points, err := s.points()
		if err != nil {
			return err
		}
		if len(points) == 0 {
			continue
		}
		if err := s.add(p, points); err != nil {
			return fmt.Errorf("series %s: %w", s.Name, err)
		}
		_, last, _, highest := plotter.XYRange(points)
		end = max(end, last)
		if c.Top == 0 {
			top = max(top, highest*headroom)
		}
	}
	if top > 0 {
		p.Y.Max = top
	}
	p.X.Max = max(end, 1)
	p.X.Tick.Marker = timeTicks{}
	if err := c.mark(p); err != nil {
		return err
	}
	legend := p.Legend
	p.Legend = plot.NewLegend()
	// The legend has a column of its own, so that it hides nothing, with room for fonts that are
	// wider than the picture's.
	box := legend.Rectangle(on)
	side := 1.15*(box.Max.X-box.Min.X) + vg.Points(14)
	p.Draw(draw.Crop(on, vg.Points(4), -side, vg.Points(4), -vg.Points(4)))
	legend.Draw(draw.Crop(on, on.Max.X-on.Min.X-side+vg.Points(10), 0, 0, -vg.Points(30)))
	return nil
}

// headroom is the factor by which the axis exceeds the greatest number.
const headroom = 1.08

// points returns the points of the series, with times in seconds. NaN and infinity are
// errors.
func (s Series) points() (plotter.XYs, error) {
	points := make(plotter.XYs, len(s.Points))
	for i, p := range s.Points {
		if math.IsNaN(p.Y) || math.IsInf(p.Y, 0) {
			return nil, fmt.Errorf("series %s: %v at %v is not a finite number", s.Name, p.Y, p.At)
		}
		points[i] = plotter.XY{X: p.At.Seconds(), Y: p.Y}
	}
	return points, nil
}

// add draws the series and names it in the legend.
func (s Series) add(p *plot.Plot, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	shade := palette[s.Color%len(palette)]
	line.Color, line.Width = shade, vg.Points(1.4)
	if s.Style != Line {
		line.StepStyle = plotter.PostStep
	}
	switch s.Style {
	case Area:
		fill := shade
		fill.A = 0x50
		line.FillColor, line.Width = fill, vg.Points(0.7)
	case Dashed:
		line.Dashes, line.Width = []vg.Length{vg.Points(5), vg.Points(3)}, vg.Points(1.1)
	case Line, Steps:
	}
	p.Add(line)
	if s.Name != "" {
		p.Legend.Add(s.Name, line)
	}
	return nil
}

// mark draws the marks. Their texts are at the top, on three levels so that neighbours do
// not overlap.
func (c Chart) mark(p *plot.Plot) error {
	for i, m := range c.Marks {
		x := m.At.Seconds()
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: 0}, {X: x, Y: p.Y.Max}})
		if err != nil {
			return err
		}
		line.Color, line.Dashes = color.Gray{0x70}, []vg.Length{vg.Points(2), vg.Points(2)}
		words, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: p.Y.Max}}, Labels: []string{m.Text}})
		if err != nil {
			return err
		}
		words.TextStyle[0].Font.Variant = "Sans"
		words.Offset = vg.Point{X: vg.Points(3), Y: -vg.Points(10 + 13*float64(i%3))}
		p.Add(line, words)
	}
	return nil
}
