package fleet

import (
	"fmt"
	"testing"
	"time"
)

// TestEndedJobsAreForgotten ends ten jobs a second for an hour: each is remembered for a minute, and no more
// than those of two minutes are held.
func TestEndedJobsAreForgotten(t *testing.T) {
	const rate = 10
	var jobs ended
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	most := 0
	for i := range int(time.Hour.Seconds()) * rate {
		now := start.Add(time.Duration(i) * time.Second / rate)
		jobs.add(fmt.Sprint(i), now)
		most = max(most, len(jobs.recent)+len(jobs.earlier))
		if since := i - int(remembered.Seconds())*rate; since >= 0 && !jobs.has(fmt.Sprint(since)) {
			t.Fatalf("job %d is forgotten after %v", since, remembered)
		}
	}
	if limit := 2 * int(remembered.Seconds()) * rate; most > limit {
		t.Errorf("holds %d jobs, want at most %d", most, limit)
	}
	if jobs.has("0") {
		t.Error("a job is remembered after an hour")
	}
	// After a pause, nothing of what was before it is held.
	jobs.add("late", start.Add(2*time.Hour))
	if n := len(jobs.recent) + len(jobs.earlier); n != 1 {
		t.Errorf("holds %d jobs after a pause, want 1", n)
	}
}
