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
	step time.Duration
	// doubt hears of a watch that has waited for half of its limit; nil: nobody does.
	doubt *doubt
	late  func()

	mu    sync.Mutex
	timer *time.Timer
	left  int
	// doubting says that doubt counts this watch.
	doubting bool
}

// doubt counts watches that have waited for half of their limit.
type doubt struct {
	// now counts those that wait still, total all that ever did.
	now   atomic.Int32
	total atomic.Uint64
	// tell is called once for each, when its half is over; nil: nobody is told.
	tell func()
}

// watch returns a watchdog that calls late, in a goroutine of its own, when it is
// not stopped within limit. From half of the limit on until it is stopped, doubt, if
// there is one, counts it.
func watch(limit time.Duration, doubt *doubt, late func()) *watchdog {
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
	doubted := w.left == watchdogSteps/2 && w.doubt != nil
	if doubted {
		w.doubting = true
		w.doubt.now.Add(1)
		w.doubt.total.Add(1)
	}
	if w.left > 0 {
		w.timer.Reset(w.step)
	}
	w.mu.Unlock()
	if doubted && w.doubt.tell != nil {
		w.doubt.tell()
	}
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
		w.doubt.now.Add(-1)
	}
}
