package memory

import "time"

// When a reserve that was learned is told.
const (
	// tellMoved is how far it has to have moved, as a part of memory_limit.
	tellMoved = 0.01
	// tellSamples is how many samples may wait that the digests written down do not have.
	tellSamples = 256
	// TellEvery is the least time from one word to the next.
	TellEvery = time.Second
)

// Learner keeps the digests of a task while its jobs end.
type Learner struct {
	Task        Task
	User, Proxy *Digest
	// Absorbed is how many samples of the task the digests have.
	Absorbed int64
	told     time.Time
}

// NewLearner goes on from digests as they were written down, with the first absorbed samples
// of the task in them.
func NewLearner(task Task, user, proxy []byte, absorbed int64) (*Learner, error) {
	l := &Learner{Task: task, Absorbed: absorbed}
	var err error
	if l.User, err = Decode(user); err != nil {
		return nil, err
	}
	if l.Proxy, err = Decode(proxy); err != nil {
		return nil, err
	}
	return l, nil
}

// Absorb takes in the task's next sample.
func (l *Learner) Absorb(s Sample) error {
	if err := Absorb(l.User, l.Proxy, s); err != nil {
		return err
	}
	l.Absorbed++
	return nil
}

// Reserve returns what the next job needs.
func (l *Learner) Reserve() Reserve { return l.Task.Reserve(l.User, l.Proxy) }

// Learn returns the reserve to tell now, and whether to: when it has moved by a hundredth of
// memory_limit from the one that was told last, or many samples wait, and not too soon after
// the last time. after is how long to wait until asking again; 0: until the next sample.
func (l *Learner) Learn(now time.Time, last Reserve, waiting int64) (reserve Reserve, tell bool, after time.Duration) {
	reserve = l.Reserve()
	moved := reserve.Total() - last.Total()
	if moved < 0 {
		moved = -moved
	}
	if waiting <= 0 || float64(moved) < tellMoved*float64(l.Task.Limit) && waiting < tellSamples {
		return reserve, false, 0
	}
	if wait := l.told.Add(TellEvery).Sub(now); !l.told.IsZero() && wait > 0 {
		return reserve, false, min(wait, TellEvery)
	}
	l.told = now
	return reserve, true, 0
}
