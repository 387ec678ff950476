package bench

import (
	"fmt"
	"testing"
	"time"

	"weir/cmd/weir/internal/rolling"
)

// handovers is how often leadership is handed over.
const handovers = 9

// BenchmarkHandover is V1: for how long no write is acknowledged when leadership is handed over, with
// the client that does nothing but write, and with simulated nodes that all turn to the next leader.
// What bounds it: the leader refuses writes from the moment at which it asks the next one to stand;
// that one's vote, the vote of one more and the first entry of the term are an fsync each.
func BenchmarkHandover(b *testing.B) {
	const goal = 300 * time.Millisecond
	for _, nodes := range []int{0, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := startClusterOf(b, "default", 3, 0)
			if nodes > 0 {
				c.startFleet(b, nodes, nil)
			}
			meter, err := rolling.NewMeter(b.Context(), c.Client, "meter")
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				var pauses, before times
				for range handovers {
					before = append(before, rests(b, meter))
					began := time.Now()
					if _, err := c.Transfer(b.Context(), ""); err != nil {
						b.Fatal(err)
					}
					// With what comes after it: nodes turn to the next leader all at once.
					pauses = append(pauses, pauseFor(b, meter, began))
				}
				b.ReportMetric(millis(pauses.percentile(50)), "p50-ms")
				b.ReportMetric(millis(pauses.worst()), "worst-ms")
				b.ReportMetric(millis(goal), "goal-ms")
				tell("V1: leadership handed over %d times, %d simulated nodes: writes paused p50 %.0f ms, worst %.0f ms; goal %.0f ms; the longest of a second without, %.0f ms",
					handovers, nodes, millis(pauses.percentile(50)), millis(pauses.worst()), millis(goal), millis(before.percentile(50)))
			}
			if err := meter.Close(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
}

// span is how long writes are watched.
const span = time.Second

// pauseFor watches writes for a span that began at a moment, and returns the longest time without one.
func pauseFor(b *testing.B, meter *rolling.Meter, from time.Time) time.Duration {
	b.Helper()
	for {
		longest, err := meter.Pause(b.Context(), from)
		if err != nil {
			b.Fatal(err)
		}
		if time.Since(from) > span {
			return longest
		}
	}
}

// rests waits until nodes have turned to their leader, and returns the longest time without a write in a span.
func rests(b *testing.B, meter *rolling.Meter) time.Duration {
	b.Helper()
	// On a machine that does other work it may never come.
	const rest, most = 100 * time.Millisecond, 15 * time.Second
	for began := time.Now(); ; {
		if longest := pauseFor(b, meter, time.Now()); longest < rest || time.Since(began) > most {
			return longest
		}
	}
}
