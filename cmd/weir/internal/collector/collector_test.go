package collector

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{
		0:          200,
		256 * mib:  200,
		512 * mib:  100,
		768 * mib:  66,
		1024 * mib: 50,
		8192 * mib: 50,
	} {
		if got := percent(live); got != want {
			t.Errorf("%d MiB: GOGC %d, want %d", live/mib, got, want)
		}
	}
}

// current returns GOGC.
func current() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

// TestRun has a process whose live memory grows.
func TestRun(t *testing.T) {
	t.Setenv("GOGC", "")
	before := current()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Run(ctx)
	}()
	await := func(what string, so func(percent int) bool) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for !so(current()) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: GOGC is %d after a minute", what, current())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	await("a small process", func(percent int) bool { return percent == most })
	held := make([]byte, 400<<20)
	runtime.GC()
	await("400 MiB more", func(percent int) bool { return percent < 150 })
	runtime.KeepAlive(held)
	stop()
	<-ended
	if got := current(); got != before {
		t.Errorf("GOGC is %d afterwards, want %d", got, before)
	}
}
