package e2e

import (
	"slices"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// TestALimitTakesWhatIsProtected lowers the limit of a pool to two cores in which four
// operations of one job each run, on two nodes: nothing of them is preemptible, and the two
// that started last leave.
func TestALimitTakesWhatIsProtected(t *testing.T) {
	c := newCluster(t, here, "n1", "n2")
	c.startAgent("n1", "--cpu", "2")
	c.startAgent("n2", "--cpu", "2")
	c.ready(t, 2)
	c.pool(t, "default", "four", object{"allow_normal_preemption": false, "preemption_rate_limit": 0, "min_run_time": "1h"})
	var operations, jobs []string
	dir := c.folder(t)
	for range 4 {
		operation := c.start(t, one(leaving(1, "leave", dir, "0").with("cpu_limit", 1).with("restart_completed_jobs", true), object{"pool": "four"}))
		operations = append(operations, operation)
		job := c.runs(t, operation, 1)[0].GetId()
		until(t, "job "+job+" hears signals", func() string {
			if hears(t, dir, job) {
				return ""
			}
			return "it does not"
		})
		jobs = append(jobs, job)
	}

	c.change(t, "default", "four", object{"resource_limits": object{"cpu": 2}})
	c.fallsTo(t, 2, operations...)
	for i, operation := range operations {
		gone := c.preempted(t, operation, "resource_limits_violated")
		if want := max(0, min(1, i-1)); len(gone) != want {
			t.Errorf("of operation %d %v went, want %d", i, gone, want)
		}
		if i < 2 {
			if stays := c.staying(t, operation); len(stays) != 1 || stays[0].GetId() != jobs[i] {
				t.Errorf("of operation %d %v stay, want %s", i, stays, jobs[i])
			}
		}
	}
	for _, id := range jobs[2:] {
		how := c.job(t, id).GetInterruption()
		if want := "pool four uses"; !strings.Contains(how.GetMessage(), want) || how.GetPreemptedForOperation() != "" {
			t.Errorf("job %s was told %v, want %q, for nobody", id, how, want)
		}
	}
	if pool := c.pools(t, "default")["four"]; pool.GetUsage().GetCpu() != 2 {
		t.Errorf("the pool uses %v", pool.GetUsage())
	}
	// The limit that is raised lets one start again, and nobody else leaves.
	c.change(t, "default", "four", object{"resource_limits": object{"cpu": 3}})
	c.fallsTo(t, 3, operations...)
	all := 0
	for _, operation := range operations {
		all += len(slices.DeleteFunc(c.jobs(t, operation), func(job *apipb.Job) bool { return job.GetInterruption() == nil }))
	}
	if all != 2 {
		t.Errorf("%d jobs were told to leave, want 2", all)
	}
	c.abort(t, operations...)
}
