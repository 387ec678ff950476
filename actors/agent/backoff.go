package agent

import "time"

// backoff is a pause that doubles each time, with jitter, so that many agents do
// not ask in step.
type backoff struct {
	min, max time.Duration
	// chance returns a number in [0, 1).
	chance func() float64
	last   time.Duration
}

// pause returns the next pause: between half of its nominal length and all of it.
func (b *backoff) pause() time.Duration {
	b.last = min(max(2*b.last, b.min), b.max)
	half := b.last / 2
	return half + time.Duration(b.chance()*float64(half))
}

// beyond returns the next pause of at least some time, no more than max: it is up to twice as long at first, and the part that
// is left to chance doubles each time, within max.
func (b *backoff) beyond(least time.Duration) time.Duration {
	b.last = min(max(2*b.last, least), b.max)
	return least + time.Duration(b.chance()*float64(min(b.last, b.max-least)))
}

// reset starts again at the shortest pause.
func (b *backoff) reset() { b.last = 0 }
