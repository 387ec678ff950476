package simulate

import "testing"

// BenchmarkEvents simulates part of each example and says how many events a second it
// sees, and how many times faster than real time it is.
func BenchmarkEvents(b *testing.B) {
	for _, test := range []struct{ name, file, duration string }{
		{"100 nodes", "burst-and-relaxed.yaml", "duration=1d"},
		{"10000 nodes", "big.yaml", "duration=1h"},
	} {
		b.Run(test.name, func(b *testing.B) {
			f := example(b, test.file, test.duration)
			var events, simulated, took float64
			for range b.N {
				r := mustRun(b, f)
				events, simulated, took = events+float64(r.Events), simulated+r.Duration.Seconds(), took+r.Took.Seconds()
			}
			b.ReportMetric(events/took, "events/s")
			b.ReportMetric(simulated/took, "x_real_time")
		})
	}
}
