package e2e

import (
	"fmt"
	"slices"
	"testing"

	"weir/messages/apipb"
)

// TestFIFOIsStrict frees cores one after the other beside a FIFO pool: they go to its first
// operation as long as that has jobs to start, though the second one has nothing of its fair
// share.
func TestFIFOIsStrict(t *testing.T) {
	c := newCluster(t, here, "n1")
	c.startAgent("n1", "--cpu", "8")
	c.ready(t, 1)
	c.ask(t, "TreeService/Set", object{"tree": "default", "options": object{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"}}, &apipb.SetTreeResponse{})
	c.pool(t, "default", "beside", object{})
	c.pool(t, "default", "queue", object{"mode": "fifo"})
	start := func(count int, pool string) string {
		return c.start(t, one(small(count, "run", c.folder(t), "10m").with("cpu_limit", 1), object{"pool": pool}))
	}
	beside := start(20, "beside")
	freed := c.runs(t, beside, 8)
	operations := []string{start(3, "queue"), start(3, "queue")}
	for _, operation := range operations {
		c.becomes(t, operation, "waits for resources", func(op *apipb.Operation) bool { return op.GetState() == "running" })
	}
	until(t, "both have a fair share", func() string {
		for _, operation := range operations {
			if share := c.get(t, operation).GetFairShare(); share <= 0 {
				return fmt.Sprintf("%s has %v", operation, share)
			}
		}
		return ""
	})
	for i, want := range [][]int{{1, 0}, {2, 0}, {3, 0}, {3, 1}} {
		c.ask(t, "JobService/Abort", object{"job_id": freed[i].GetId()}, &apipb.AbortJobResponse{})
		until(t, "a job takes its place", func() string {
			var got []int
			for _, operation := range operations {
				got = append(got, len(c.jobs(t, operation)))
			}
			if got[0]+got[1] > i && !slices.Equal(got, want) {
				t.Fatalf("after %d jobs the queue runs %v, want %v", i+1, got, want)
			}
			if got[0]+got[1] <= i {
				return fmt.Sprint(got)
			}
			return ""
		})
	}
	c.abort(t, append(operations, beside)...)
}
