package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"weir/messages/apipb"
)

// TestFailover kills the leader three times while jobs run, and starts it again each
// time. The jobs do not notice.
func TestFailover(t *testing.T) {
	c := newCluster(t, here, "n1", "n2", "n3", "n4")
	agents := []string{"n1", "n2", "n3", "n4"}
	for _, agent := range agents {
		c.startAgent(agent, "--cpu", "4")
	}
	c.ready(t, len(agents))

	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	short, long := small(200, "run", dir, "1s").with("cpu_limit", 0.8), small(4, "run", dir, release).with("cpu_limit", 0.5)
	operation := c.start(t, object{"tasks": object{"short": short, "long": long}})
	// These run through every change of the leader.
	before, known := map[string]int64{}, map[string]int{}
	until(t, "the long jobs run", func() string {
		for _, job := range c.jobs(t, operation, "running") {
			if job.GetTask() == "long" && job.GetPid() != 0 {
				before[job.GetId()] = job.GetPid()
				known[job.GetId()] = pidInside(t, job.GetPid())
			}
		}
		if len(before) == 4 {
			return ""
		}
		return fmt.Sprintf("%d do\n%s", len(before), c.describe(t, operation))
	})

	for _, done := range []int64{20, 70, 120} {
		c.becomes(t, operation, "has progressed", func(op *apipb.Operation) bool { return op.GetProgress().GetCompleted() >= done })
		killed := c.leader(t)
		c.process(killed).kill()
		if next := c.leader(t); next == killed {
			t.Fatalf("%s leads though it was killed", next)
		}
		c.startReplica(killed)
	}
	// One more job than the short ones have ended.
	c.becomes(t, operation, "has done the short jobs", func(op *apipb.Operation) bool { return op.GetProgress().GetCompleted() == 200 })
	for _, job := range c.jobs(t, operation, "running") {
		if pid := before[job.GetId()]; pid != job.GetPid() || pid == 0 {
			t.Errorf("job %s has pid %d, was %d", job.GetId(), job.GetPid(), pid)
		}
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	progress := c.ends(t, operation, "completed").GetProgress()
	if progress.GetCompleted() != 204 || progress.GetAborted() != 0 || progress.GetFailed() != 0 {
		t.Errorf("%v: want 204 completed, none aborted or failed\n%s", progress, c.describe(t, operation))
	}
	cookies := witnessed(t, dir)
	if len(cookies) != 204 {
		t.Errorf("%d cookies ran, want 204", len(cookies))
	}
	for cookie, lines := range cookies {
		if len(lines) != 2 || lines[0].job != lines[1].job || lines[0].pid != lines[1].pid || lines[0].what != "begin" || lines[1].what != "end" {
			t.Errorf("%s did not run exactly once: %v", cookie, lines)
			continue
		}
		if pid, long := known[lines[0].job]; long && lines[0].pid != pid {
			t.Errorf("job %s wrote pid %d, the API shows %d, which is %d in there", lines[0].job, lines[0].pid, before[lines[0].job], pid)
		}
	}
	for _, agent := range agents {
		if c.process(agent).over() {
			t.Errorf("agent %s has ended", agent)
		}
	}
}
