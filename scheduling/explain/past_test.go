package explain

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestArrivals: those that come last are kept, in order, and a copy that was taken before does not change.
func TestArrivals(t *testing.T) {
	var p Past
	now := time.Unix(1_000_000, 0)
	for i := range 50 {
		before := p
		was := len(before.Arrivals)
		p.NoteArrival(Arrival{At: now.Add(time.Duration(i^1) * 10 * time.Second), Jobs: int64(i)})
		if len(before.Arrivals) != was || was > 0 && &before.Arrivals[0] == &p.Arrivals[0] {
			t.Fatal("a copy shares what is noted later")
		}
	}
	if len(p.Arrivals) != keptArrivals {
		t.Fatalf("%d are kept, want %d", len(p.Arrivals), keptArrivals)
	}
	for i := 1; i < keptArrivals; i++ {
		if p.Arrivals[i].At.Before(p.Arrivals[i-1].At) {
			t.Fatalf("%d comes before %d", i, i-1)
		}
	}
	chance, sum := rand.New(rand.NewPCG(1, 2)), 0.0
	for range 1000 {
		sum += p.rate(now.Add(500*time.Second), chance)
	}
	if mean := sum / 1000; mean < .08 || mean > .12 {
		t.Errorf("the mean rate is %g a second, want one in 10 s", mean)
	}
	if rate := (&Past{Arrivals: []Arrival{{At: now}, {At: now}}}).rate(now.Add(time.Hour), chance); rate != 0 {
		t.Errorf("of operations that came at once, the rate is %g, want 0", rate)
	}
}

// TestExampleOf: what is taken as an example fits what is known.
func TestExampleOf(t *testing.T) {
	runs := []Lengths{LengthsOf([]float64{9, 10, 11}, 3), LengthsOf([]float64{95, 100, 105}, 3)}
	for name, test := range map[string]struct {
		own  Lengths
		ran  ages
		want [2]float64
	}{
		"nothing is known":               {Lengths{}, ages{}, [2]float64{.3, .7}},
		"its jobs have run for a minute": {Lengths{}, ages{running: 3, first: []float64{60, 60, 59}}, [2]float64{.9, 1}},
		"one has ended soon":             {LengthsOf([]float64{10}, 1), ages{running: 1, first: []float64{1}}, [2]float64{0, .05}},
	} {
		t.Run(name, func(t *testing.T) {
			chance, long := rand.New(rand.NewPCG(1, 2)), 0.0
			for range 1000 {
				example, pace := exampleOf(runs, &test.own, &test.ran, chance)
				if example == &runs[1] {
					long++
				}
				if math.Abs(math.Log(pace)) > 2 {
					t.Fatalf("the pace is %g", pace)
				}
			}
			if part := long / 1000; part < test.want[0] || part > test.want[1] {
				t.Errorf("the long ones are the example in %.2f of the trials, want %v", part, test.want)
			}
		})
	}
}
