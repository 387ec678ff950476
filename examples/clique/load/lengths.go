package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Lengths says how long requests take: most are short, a few are long, with an exponential
// tail. So a service can spend most of its time in a few requests.
type Lengths struct {
	// Short requests take a time between these two, uniformly distributed.
	ShortFrom, ShortTo time.Duration
	// LongPart of all requests, from 0 to 1, are long. They take LongFrom, plus a time that is
	// exponentially distributed with the mean LongMean.
	LongPart           float64
	LongFrom, LongMean time.Duration
	// Longest caps the tail.
	Longest time.Duration
}

// DefaultLengths are from 10 ms to 8 s, with a mean of 0.2 s; long requests make up most of
// that.
func DefaultLengths() Lengths {
	return Lengths{
		ShortFrom: 10 * time.Millisecond, ShortTo: 100 * time.Millisecond,
		LongPart: 0.05, LongFrom: 2 * time.Second, LongMean: 600 * time.Millisecond, Longest: 8 * time.Second,
	}
}

// Validate returns an error if the lengths are invalid.
func (l Lengths) Validate() error {
	switch {
	case l.ShortFrom <= 0 || l.ShortTo < l.ShortFrom:
		return fmt.Errorf("lengths: short requests take %v to %v: both must be positive, and the second not less than the first", l.ShortFrom, l.ShortTo)
	case math.IsNaN(l.LongPart) || l.LongPart < 0 || l.LongPart > 1:
		return fmt.Errorf("lengths: %v of all requests are long: must be 0 to 1", l.LongPart)
	case l.LongFrom < 0 || l.LongMean < 0:
		return fmt.Errorf("lengths: long requests take %v and a mean of %v more: must not be negative", l.LongFrom, l.LongMean)
	case l.Longest < l.ShortTo || l.Longest < l.LongFrom:
		return fmt.Errorf("lengths: the longest request takes %v: must be at least %v and %v", l.Longest, l.ShortTo, l.LongFrom)
	}
	return nil
}

// draw returns the length of the next request.
func (l Lengths) draw(r *rand.Rand) time.Duration {
	if r.Float64() >= l.LongPart {
		return l.ShortFrom + time.Duration(r.Float64()*float64(l.ShortTo-l.ShortFrom))
	}
	return min(l.LongFrom+time.Duration(r.ExpFloat64()*float64(l.LongMean)), l.Longest)
}
