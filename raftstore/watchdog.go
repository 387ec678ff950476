package raftstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// watchdogSteps is in how many steps a watchdog waits.
const watchdogSteps = 10

// watchdog calls a function when it is not stopped in time. It waits in steps, so
// that a while in which the whole process stood still, paused or with its machine,
// counts for one step alone: what was waited for stood still as well.
type watchdog struct {
	step  time.Duration
	doubt *atomic.Int32
	late  func()

	mu    sync.Mutex
	timer *time.Timer
	left  int
	// doubting says that doubt counts this watch.
	doubting bool
}

// watch returns a watchdog that calls late, in a goroutine of its own, when it is
// not stopped within limit. From half of the limit on until it is stopped, doubt
// counts it.
func watch(limit time.Duration, doubt *atomic.Int32, late func()) *watchdog {
	w := &watchdog{step: max(limit/watchdogSteps, 1), doubt: doubt, late: late, left: watchdogSteps}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.step, w.tick)
	return w
}

func (w *watchdog) tick() {
	w.mu.Lock()
	w.left--
	last := w.left == 0
	if w.left == watchdogSteps/2 {
		w.doubting = true
		w.doubt.Add(1)
	}
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
	if w.doubting {
		w.doubting = false
		w.doubt.Add(-1)
	}
}
