package explain

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestRangesHoldWhatTheyPromise has estimates that are wrong in many ways: whatever the way is, in the end
// 9 of 10 starts are within ranges that are corrected by what came before.
func TestRangesHoldWhatTheyPromise(t *testing.T) {
	for name, test := range map[string]struct {
		// comes draws a start, as a part of the time that was told. Ranges are told from .5 to 1.5.
		comes func(chance *rand.Rand) float64
		// before and after are the factors that follow.
		before, after [2]float64
	}{
		"right":                          {func(r *rand.Rand) float64 { return .45 + 1.1*r.Float64() }, [2]float64{.9, 1.1}, [2]float64{.9, 1.1}},
		"too wide":                       {func(r *rand.Rand) float64 { return .9 + .2*r.Float64() }, [2]float64{leastWidth, .7}, [2]float64{leastWidth, .7}},
		"too late by half":               {func(r *rand.Rand) float64 { return 1.3 + .4*r.Float64() }, [2]float64{leastWidth, .7}, [2]float64{1.2, 1.4}},
		"now and then ten times as late": {func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) }, [2]float64{1, 2}, [2]float64{5, mostWidth}},
	} {
		t.Run(name, func(t *testing.T) {
			var record Record
			chance, now, in, asked := rand.New(rand.NewPCG(1, 2)), time.Unix(1_000_000, 0), 0, 0
			for i := range 2000 {
				e := estimate{at: now.Add(100 * time.Second), earliest: now.Add(50 * time.Second), latest: now.Add(150 * time.Second)}
				widths := record.Widths(now, nil)
				told, raw := widths.corrected(e, now, false)
				started := now.Add(seconds(100 * test.comes(chance)))
				if i >= 1000 {
					asked++
					if !started.Before(told.earliest) && !started.After(told.latest) {
						in++
					}
				}
				record.Note(raw, started)
				now = now.Add(time.Second)
			}
			if part := float64(in) / float64(asked); part < .9 {
				t.Errorf("%.1f%% of the starts are within the range, want 90%%", 100*part)
			}
			got := record.Widths(now, nil).First
			if got.Before < test.before[0] || got.Before > test.before[1] || got.After < test.after[0] || got.After > test.after[1] {
				t.Errorf("ranges are changed by %+v, want %v before and %v after", got, test.before, test.after)
			}
			if next := record.Widths(now, nil).Next; next != new(Record).Widths(now, nil).Next {
				t.Errorf("estimates of the other kind are changed: %+v", next)
			}
		})
	}
}

// TestOverdueStartsCount: a start that has not come is late by what has passed, before it is known by how much.
func TestOverdueStartsCount(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	open := make([]Told, 50)
	for i := range open {
		open[i] = Told{Asked: now.Add(-time.Hour), In: 10 * time.Minute, Before: 10 * time.Minute, After: 10 * time.Minute, Begun: true}
	}
	var record Record
	if w := record.Widths(now, open); w.Next.After < 4.9 || w.Next.After > 5.1 || w.First.After > 1 {
		t.Errorf("ranges are changed by %+v, want 5 after estimates for operations that have begun", w)
	}
	if w := record.Widths(now.Add(-45*time.Minute), open); w.Next.After > 1 {
		t.Errorf("before they are overdue, ranges are changed by %+v", w)
	}
}
