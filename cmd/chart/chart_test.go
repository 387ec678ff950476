package chart

import (
	"bytes"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sample has a series of each style, and a mark.
func sample() Chart {
	var usage, fair, line []Point
	for i := range 49 {
		at := time.Duration(i) * 30 * time.Minute
		usage = append(usage, Point{at, float64(i % 12 * 100)})
		fair = append(fair, Point{at, 600})
		line = append(line, Point{at, 20 * float64(i)})
	}
	return Chart{
		Title: "usage & fair share", Y: "cpu",
		Series: []Series{
			{Name: "usage of ads", Points: usage, Style: Area},
			{Name: "fair share of ads", Points: fair, Style: Dashed},
			{Name: "usage of batch", Points: fair[:10], Style: Steps, Color: 1},
			{Name: "jobs", Points: line, Color: 2},
		},
		Marks: []Mark{{6 * time.Hour, "node lost"}},
	}
}

func TestChartsAreDrawn(t *testing.T) {
	base := filepath.Join(t.TempDir(), "usage")
	if err := sample().Save(base); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(base + ".svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"usage &amp; fair share", "usage of batch", "node lost", ">12h<", ">cpu<"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the SVG lacks %q", want)
		}
	}
	file, err := os.Open(base + ".png")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	colors := make(map[[3]uint32]bool)
	size := picture.Bounds()
	for x := range size.Dx() {
		for y := range size.Dy() {
			r, g, b, _ := picture.At(x, y).RGBA()
			colors[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	if size.Dx() != 1200 || size.Dy() != 540 || !colors[[3]uint32{0xe6, 0x9f, 0x00}] || !colors[[3]uint32{0x00, 0x9e, 0x73}] {
		t.Errorf("the PNG has %v and lacks colours of the series", size)
	}
}

func TestEqualChartsAreEqualFiles(t *testing.T) {
	var files [2][2]bytes.Buffer
	for i := range files {
		c := sample()
		if err := c.SVG(&files[i][0]); err != nil {
			t.Fatal(err)
		}
		if err := c.PNG(&files[i][1]); err != nil {
			t.Fatal(err)
		}
	}
	for kind, name := range []string{"SVG", "PNG"} {
		if !bytes.Equal(files[0][kind].Bytes(), files[1][kind].Bytes()) {
			t.Errorf("%s: two files of one chart differ", name)
		}
	}
}

func TestChartsThatCannotBe(t *testing.T) {
	c := sample()
	c.Series[0].Points[3].Y = math.NaN()
	if err := c.SVG(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "usage of ads") {
		t.Errorf("drawing what is not a number: %v, want an error that names the series", err)
	}
	if err := sample().Save(filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("saving to a folder that is not there: no error")
	}
	if err := (Chart{Title: "nothing"}).PNG(&bytes.Buffer{}); err != nil {
		t.Errorf("a chart without series: %v", err)
	}
}

func TestMarksOfTime(t *testing.T) {
	for name, test := range map[string]struct {
		to   time.Duration
		want []string
	}{
		"a week":   {7 * day, []string{"0", "1d", "2d", "3d", "4d", "5d", "6d", "7d"}},
		"a day":    {day, []string{"0", "2h", "4h", "6h", "8h", "10h", "12h", "14h", "16h", "18h", "20h", "22h", "1d"}},
		"an hour":  {time.Hour, []string{"0", "5m", "10m", "15m", "20m", "25m", "30m", "35m", "40m", "45m", "50m", "55m", "1h"}},
		"a minute": {time.Minute, []string{"0", "5s", "10s", "15s", "20s", "25s", "30s", "35s", "40s", "45s", "50s", "55s", "1m"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, tick := range (timeTicks{}).Ticks(0, test.to.Seconds()) {
				got = append(got, tick.Label)
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("marks %v, want %v", got, test.want)
			}
		})
	}
	for at, want := range map[time.Duration]string{36 * time.Hour: "1d 12h", 90 * time.Minute: "1h 30m", 95 * time.Second: "1m 35s", 200 * time.Millisecond: "200ms"} {
		if got := moment(at); got != want {
			t.Errorf("moment %v is %q, want %q", at, got, want)
		}
	}
}
