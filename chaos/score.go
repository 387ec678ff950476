package chaos

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/chaos/fault"
)

// Watcher shows the progress of a run.
type Watcher interface {
	// Say reports an event.
	Say(line string)
	// Show reports the progress, a few times a second.
	Show(Progress)
}

// showPeriod is how often a Watcher is shown the progress.
const showPeriod = 250 * time.Millisecond

// score counts events for the display during a run. It is not used to judge the run.
type score struct {
	mu      sync.Mutex
	now     Progress
	lastAck time.Time
}

func newScore(faults int) *score {
	return &score{now: Progress{Of: faults, ByKind: make(map[fault.Kind]int)}}
}

func (s *score) change(change func(*Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.now)
}

func (s *score) enter(phase string) { s.change(func(p *Progress) { p.Phase = phase }) }

func (s *score) acknowledged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.lastAck.IsZero() {
		s.now.WorstGap = max(s.now.WorstGap, now.Sub(s.lastAck))
	}
	s.lastAck = now
	s.now.Submitted++
}

func (s *score) progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.now
	if !s.lastAck.IsZero() {
		p.SinceLast = time.Since(s.lastAck)
	}
	p.ByKind, p.Active = maps.Clone(p.ByKind), slices.Clone(p.Active)
	return p
}

func (s *score) show(ctx context.Context, watcher Watcher) {
	for sleep(ctx, showPeriod) == nil {
		watcher.Show(s.progress())
	}
}
