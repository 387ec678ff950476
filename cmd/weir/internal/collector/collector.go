// Package collector sets how much garbage a process may have before it is collected.
package collector

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// most is GOGC of a small process: it uses up to three times its live memory instead of twice, but a tenth less
	// processor time. least is that of a large one.
	most, least = 200, 50
	// room is how much garbage a process may have whose live memory is between the two.
	room = 512 << 20
	// period is how often the live memory is looked at. It takes longer to fill the room.
	period = time.Second
)

// percent returns GOGC of a process with so many bytes of live memory.
func percent(live uint64) int {
	return int(min(most, max(least, 100*room/max(1, live)))) //nolint:gosec // At most `most`.
}

// Run sets GOGC by the live memory until ctx is done, unless the environment sets it.
func Run(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(most))
	look := time.NewTicker(period)
	defer look.Stop()
	sample, now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, most
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		metrics.Read(sample)
		if next := percent(sample[0].Value.Uint64()); next != now {
			debug.SetGCPercent(next)
			now = next
		}
	}
}
