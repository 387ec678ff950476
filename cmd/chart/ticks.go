package chart

import (
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot"
)

// timeTicks places the ticks of a time axis at round times.
type timeTicks struct{}

// wantedTicks is the maximum number of strides that an axis is divided into.
const wantedTicks = 12

const day = 24 * time.Hour

// strides are the possible distances between ticks. The smallest that is wide enough is
// used.
var strides = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 5 * day, 10 * day, 30 * day, 100 * day,
}

// Ticks implements plot.Ticker for seconds.
func (timeTicks) Ticks(from, to float64) []plot.Tick {
	span := time.Duration((to - from) * float64(time.Second))
	stride := strides[len(strides)-1]
	if i := slices.IndexFunc(strides, func(s time.Duration) bool { return span/s <= wantedTicks }); i >= 0 {
		stride = strides[i]
	}
	first := time.Duration(from*float64(time.Second)) / stride * stride
	var ticks []plot.Tick
	for at := first; at.Seconds() <= to; at += stride {
		if at.Seconds() >= from {
			ticks = append(ticks, plot.Tick{Value: at.Seconds(), Label: moment(at)})
		}
	}
	return ticks
}

// moment formats a time since the beginning in its two largest units, and omits those that
// are 0.
func moment(at time.Duration) string {
	if at == 0 {
		return "0"
	}
	for _, unit := range []struct {
		of, below   time.Duration
		name, small string
	}{{day, time.Hour, "d", "h"}, {time.Hour, time.Minute, "h", "m"}, {time.Minute, time.Second, "m", "s"}} {
		if at >= unit.of {
			text := fmt.Sprintf("%d%s", at/unit.of, unit.name)
			if rest := at % unit.of / unit.below; rest > 0 {
				text += fmt.Sprintf(" %d%s", rest, unit.small)
			}
			return text
		}
	}
	return at.String()
}
