package raftstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// watchdogSteps is the number of steps in which a watchdog waits.
const watchdogSteps = 10

// watchdog calls a function unless it is stopped in time. It waits in steps. A pause of the whole
// process or machine counts as one step only, because the watched work was paused as well.
type watchdog struct {
	step time.Duration
	// doubt, if not nil, counts this watch once it has waited for half of its limit.
	doubt *doubt
	late  func()

	mu    sync.Mutex
	timer *time.Timer
	left  int
	// doubting is set while doubt counts this watch.
	doubting bool
}

// doubt counts watches that have waited for at least half of their limit.
type doubt struct {
	// now is the number of these watches that still wait. total is the number of all such watches
	// so far.
	now   atomic.Int32
	total atomic.Uint64
	// tell, if not nil, is called once for each watch that is counted.
	tell func()
}

// watch returns a watchdog that calls the function `late`, in a goroutine of its own, unless it is
// stopped within the limit. If the parameter doubt is not nil, it counts the watch from half of the
// limit until the watch is stopped.
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

// stop ends the watch. If `late` is already running, stop does not interrupt it.
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
