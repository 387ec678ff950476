package memory

import "time"

// When a learned reserve is reported.
const (
	// tellMoved is the change of the reserve at which a report is due, as a fraction of
	// memory_limit.
	tellMoved = 0.01
	// tellSamples is the number of samples not in the persisted digests at which a report is due
	// even if the reserve has changed less.
	tellSamples = 256
	// TellEvery is the minimum time between two reports.
	TellEvery = time.Second
)

// Learner updates the digests of a task as its jobs end.
type Learner struct {
	Task        Task
	User, Proxy *Digest
	// Absorbed is how many samples of the task the digests include.
	Absorbed int64
	// `told` is when the reserve was last reported.
	told time.Time
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

// Learn returns the current reserve. The result `tell` says whether to report it. A report is due if
// the reserve differs from `last`, the one reported before, by a hundredth of memory_limit, or if many
// samples wait. It is not due within TellEvery of the last report. The parameter waiting is the number
// of samples that the persisted digests do not include. The result `after` is how long to wait before
// the next call. If it is 0, the next call is due at the next sample.
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
