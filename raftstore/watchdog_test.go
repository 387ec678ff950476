package raftstore

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchdog(t *testing.T) {
	const limit = time.Second
	cases := map[string]struct {
		// lasts is how long the work takes of the process's own time.
		lasts    time.Duration
		wantLate bool
	}{
		"work that ends in time":  {lasts: limit - time.Millisecond},
		"work that takes longer":  {lasts: limit + time.Millisecond, wantLate: true},
		"work that never ends":    {lasts: time.Hour, wantLate: true},
		"work that ends at once":  {},
		"work for half the limit": {lasts: limit / 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := false
				var doubt atomic.Int32
				w := watch(limit, &doubt, func() { late = true })
				time.Sleep(tc.lasts)
				synctest.Wait()
				if doubted := doubt.Load() == 1; doubted != (tc.lasts >= limit/2) {
					t.Errorf("doubted: %t after %s of %s", doubted, tc.lasts, limit)
				}
				w.stop()
				if left := doubt.Load(); left != 0 {
					t.Errorf("%d doubts are left after the stop", left)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if late != tc.wantLate {
					t.Errorf("late: %t after %s of %s", late, tc.lasts, limit)
				}
			})
		})
	}
}

// TestWatchdogOfAPausedProcess has ticks come late, as they do when the process
// was paused: a pause is one step, however long it was.
func TestWatchdogOfAPausedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := false
		w := watch(time.Hour, new(atomic.Int32), func() { late = true })
		// What the runtime does after a pause: the one timer that is due fires.
		w.tick()
		synctest.Wait()
		if late || w.left != watchdogSteps-1 {
			t.Errorf("late: %t with %d steps left after one pause", late, w.left)
		}
		w.stop()
	})
}
