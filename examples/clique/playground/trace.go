package playground

import (
	"sync"
	"time"

	"weir/cmd/chart"
)

// Trace is a state over time: each state holds until the next change. It is safe for concurrent
// use.
type Trace[T comparable] struct {
	mu    sync.Mutex
	noted []noted[T]
}

type noted[T any] struct {
	at time.Time
	is T
}

// Moment is a state that begins at a time of the run and holds until the next moment.
type Moment[T any] struct {
	At time.Duration
	Is T
}

// Note records the state after a change, if the change made a difference.
func (t *Trace[T]) Note(change func(*T)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last T
	if n := len(t.noted); n > 0 {
		last = t.noted[n-1].is
	}
	next := last
	if change(&next); next != last {
		t.noted = append(t.noted, noted[T]{time.Now(), next})
	}
}

// Since returns the moments after the time `began`. The first is the state at that time, the last
// is the present state.
func (t *Trace[T]) Since(began time.Time) []Moment[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	moments := make([]Moment[T], 1)
	for _, n := range t.noted {
		if n.at.After(began) {
			moments = append(moments, Moment[T]{n.at.Sub(began), n.is})
		} else {
			moments[0].Is = n.is
		}
	}
	return append(moments, Moment[T]{time.Since(began), moments[len(moments)-1].Is})
}

// Series makes a series of the numbers that `of` returns for the moments.
func Series[T any](name string, style chart.Style, color int, moments []Moment[T], of func(T) float64) chart.Series {
	s := chart.Series{Name: name, Style: style, Color: color}
	for _, m := range moments {
		s.Points = append(s.Points, chart.Point{At: m.At, Y: of(m.Is)})
	}
	return s
}
