package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/messages/apipb"
)

// aMap has jobs that read, and no setting about interruption. By hand, by preemption and
// by a drain they are asked to leave, complete with what they have read, and leave the
// rest to others (I1, I2).
func aMap(t *testing.T, c *cluster) {
	dir := c.folder(t)
	const lines = 200_000
	// It reads line by line, slowly until a file is there, and knows of nothing.
	mapper := fmt.Sprintf(`while read -r line; do echo "$line"; touch %s/$WEIR_JOB_ID; [ -e %[1]s/go ] && exec cat; sleep 0.05; done`, dir)
	c.pool(t, "maps", "readers", object{})
	c.pool(t, "maps", "rivals", object{})
	operation := c.start(t, reading(dir+"/out", mapper, write(t, dir+"/in", numbered(0, lines))).
		with("job_count", 4).with("pool", "readers").with("pool_trees", []string{"maps"}).
		with("mapper", object{"command": mapper, "shell": true, "cpu_limit": 1, "memory_limit": "64MiB"}))
	c.runs(t, operation, 4)
	asked := map[string]int{}
	// leaves waits until a job of a cause more has ended well.
	leaves := func(cause string) {
		t.Helper()
		until(t, "a job has left by "+cause, func() string {
			count := 0
			for _, job := range c.jobs(t, operation) {
				if job.GetFinishTime() == nil || job.GetInterruption().GetReason() != cause {
					continue
				}
				if job.GetState() != "completed" {
					t.Fatalf("the job has not completed: %v", job)
				}
				count++
			}
			if count > asked[cause] {
				asked[cause] = count
				return ""
			}
			return fmt.Sprintf("%d have", count)
		})
	}
	haveRead(t, dir, c.runs(t, operation, 4))
	c.interrupt(t, c.runs(t, operation, 4)[0].GetId(), time.Minute)
	leaves("user_request")

	haveRead(t, dir, c.runs(t, operation, 4))
	rival := c.start(t, one(small(2, "run", c.folder(t), "1h").with("cpu_limit", 1), object{"pool": "rivals"}, in("maps")))
	c.runs(t, rival, 2)
	leaves("preemption")
	c.ask(t, "OperationService/Abort", object{"operation": rival, "reason": "a test"}, &apipb.AbortOperationResponse{})
	c.ends(t, rival, "aborted")

	running := c.runs(t, operation, 4)
	haveRead(t, dir, running)
	node := object{"node": running[0].GetNode()}
	c.ask(t, "NodeService/Drain", node.with("interrupt_timeout_millis", "60000"), &apipb.DrainNodeResponse{})
	leaves("node_drain")
	c.ask(t, "NodeService/Undrain", node, &apipb.UndrainNodeResponse{})

	release(t, dir)
	progress := c.ends(t, operation, "completed").GetProgress()
	if read(t, dir+"/out") != numbered(0, lines) {
		t.Error("the output is not the input")
	}
	if in := progress.GetInput(); in.GetRows() != lines || progress.GetFailed() != 0 || progress.GetAborted() != 0 {
		t.Errorf("progress %v, want %d rows read once", progress, lines)
	}
}

// haveRead waits until jobs have read something.
func haveRead(t testing.TB, dir string, jobs []*apipb.Job) {
	t.Helper()
	for _, job := range jobs {
		until(t, "job "+job.GetId()+" has read", func() string {
			if _, err := os.Stat(filepath.Join(dir, job.GetId())); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}
