package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Lengths says how long requests take: most are short, some have a long tail. It lets
// the requests in which a service spends most of its time be the rare ones.
type Lengths struct {
	// Short requests take a time between these, each as likely as the others.
	ShortFrom, ShortTo time.Duration
	// LongPart of all requests, from 0 to 1, are long: they take LongFrom and as much
	// more as an exponential distribution with the mean LongMean says.
	LongPart           float64
	LongFrom, LongMean time.Duration
	// Longest is the end of the tail.
	Longest time.Duration
}

// DefaultLengths are from 10 ms to 8 s, with a mean of 0.2 s, of which long ones are the most.
func DefaultLengths() Lengths {
	return Lengths{
		ShortFrom: 10 * time.Millisecond, ShortTo: 100 * time.Millisecond,
		LongPart: 0.05, LongFrom: 2 * time.Second, LongMean: 600 * time.Millisecond, Longest: 8 * time.Second,
	}
}

// Validate says what is wrong with the lengths, if something is.
func (l Lengths) Validate() error {
	switch {
	case l.ShortFrom <= 0 || l.ShortTo < l.ShortFrom:
		return fmt.Errorf("lengths: short requests take %v to %v: both must be positive, and the second not less than the first", l.ShortFrom, l.ShortTo)
	case math.IsNaN(l.LongPart) || l.LongPart < 0 || l.LongPart > 1:
		return fmt.Errorf("lengths: %v of all requests are long: must be 0 to 1", l.LongPart)
	case l.LongFrom < 0 || l.LongMean < 0:
		return fmt.Errorf("lengths: long requests take %v and a mean of %v more: must not be negative", l.LongFrom, l.LongMean)
	case l.Longest < l.ShortTo || l.Longest < l.LongFrom:
		return fmt.Errorf("lengths: the longest takes %v, less than others may: %v and %v", l.Longest, l.ShortTo, l.LongFrom)
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
