package chart

import (
	"fmt"
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
	for _, s := range strides {
		if span/s <= wantedTicks {
			stride = s
			break
		}
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
	days, rest := at/day, at%day
	hours, minutes, seconds := rest/time.Hour, rest%time.Hour/time.Minute, rest%time.Minute
	switch {
	case at == 0:
		return "0"
	case days > 0 && hours == 0:
		return fmt.Sprintf("%dd", days)
	case days > 0:
		return fmt.Sprintf("%dd %dh", days, hours)
	case hours > 0 && minutes == 0:
		return fmt.Sprintf("%dh", hours)
	case hours > 0:
		return fmt.Sprintf("%dh %dm", hours, minutes)
	case minutes > 0 && seconds == 0:
		return fmt.Sprintf("%dm", minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm %ds", minutes, seconds/time.Second)
	}
	return seconds.String()
}
