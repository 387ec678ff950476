package raftstore

import (
	"sync"
	"time"
)

// watchdogSteps is in how many steps a watchdog waits.
const watchdogSteps = 10

// watchdog calls a function when it is not stopped in time. It waits in steps, so
// that a while in which the whole process stood still, paused or with its machine,
// counts for one step alone: what was waited for stood still as well.
type watchdog struct {
	step time.Duration
	late func()

	mu    sync.Mutex
	timer *time.Timer
	left  int
}

// watch returns a watchdog that calls late, in a goroutine of its own, when it is
// not stopped within limit.
func watch(limit time.Duration, late func()) *watchdog {
	w := &watchdog{step: max(limit/watchdogSteps, 1), late: late, left: watchdogSteps}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.step, w.tick)
	return w
}

func (w *watchdog) tick() {
	w.mu.Lock()
	w.left--
	last := w.left == 0
	if w.left > 0 {
		w.timer.Reset(w.step)
	}
	w.mu.Unlock()
	if last {
		w.late()
	}
}

// stop ends the watch. A call of late that has begun goes on.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = 0
	w.timer.Stop()
}
