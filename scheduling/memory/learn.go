package memory

import "time"

// When a learned reserve is reported.
const (
	// tellMoved is how far the reserve has to have moved, as a part of memory_limit.
	tellMoved = 0.01
	// tellSamples is how many samples may wait that the persisted digests do not include.
	tellSamples = 256
	// TellEvery is the least time between two reports.
	TellEvery = time.Second
)

// Learner updates the digests of a task as its jobs end.
type Learner struct {
	Task        Task
	User, Proxy *Digest
	// Absorbed is how many samples of the task the digests include.
	Absorbed int64
	told     time.Time
}

// NewLearner continues from persisted digests, which include the first absorbed samples of the
// task.
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

// Absorb adds the task's next sample.
func (l *Learner) Absorb(s Sample) error {
	if err := Absorb(l.User, l.Proxy, s); err != nil {
		return err
	}
	l.Absorbed++
	return nil
}

// Reserve returns what the next job needs.
func (l *Learner) Reserve() Reserve { return l.Task.Reserve(l.User, l.Proxy) }

// Learn returns the reserve to report now, and whether to report it: when it has moved from last,
// the one reported before, by a hundredth of memory_limit, or many samples wait, and not within
// TellEvery of the last report. after is how long to wait before asking again; 0 means until the
// next sample.
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
