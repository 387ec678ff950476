package raftstore

import (
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
				told := 0
				doubt := doubt{tell: func() { told++ }}
				w := watch(limit, &doubt, func() { late = true })
				<-time.After(tc.lasts)
				synctest.Wait()
				wantDoubts := 0
				if tc.lasts >= limit/2 {
					wantDoubts = 1
				}
				if now := doubt.now.Load(); int(now) != wantDoubts || told != wantDoubts {
					t.Errorf("%d doubts, told %d, after %s of %s: want %d", now, told, tc.lasts, limit, wantDoubts)
				}
				w.stop()
				if left, total := doubt.now.Load(), doubt.total.Load(); left != 0 || int(total) != wantDoubts {
					t.Errorf("after the stop %d doubts are left of %d, want none of %d", left, total, wantDoubts)
				}
				<-time.After(time.Hour)
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
		w := watch(time.Hour, new(doubt), func() { late = true })
		// What the runtime does after a pause: the one timer that is due fires.
		w.tick()
		synctest.Wait()
		if late || w.left != watchdogSteps-1 {
			t.Errorf("late: %t with %d steps left after one pause", late, w.left)
		}
		w.stop()
	})
}
