package agent

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/actors/agent/disktest"
)

// TestJobEndsWhileTheDiskOfItsAgentHangs has a real disk hang on which all is that a real agent
// keeps, and real jobs are: those that are to go end nevertheless, and that is told; when the
// disk answers again, nothing is left of them.
func TestJobEndsWhileTheDiskOfItsAgentHangs(t *testing.T) {
	disk := disktest.Hanging(t, 64)
	jobs := map[string]string{"waits": waitToGo, "writes": "while :; do echo more > file; done"}
	p := play{StateDir: disk, Proxy: buildProxy(t, t.TempDir()), Lease: longLease, JobEndTimeout: 2 * time.Second, Know: jobs, Grant: []string{"waits", "writes"}}
	agent := startAgent(t, p)
	for job := range jobs {
		agent.process(job)
	}
	agent.kill()
	p.Grant = nil
	agent = startAgent(t, p)
	for job := range jobs {
		agent.process(job)
	}
	thaw := disktest.Freeze(t, disk)
	for job := range jobs {
		agent.abort(job, "user_request", "", 0)
	}
	for job := range jobs {
		got := agent.await("ended " + job)
		if !strings.HasPrefix(got, "aborted ") || !strings.Contains(got, " user_request") {
			t.Errorf("%s: %q", job, got)
		}
	}
	thaw()
	agent.close()
	if left, err := filepath.Glob(filepath.Join(disk, "jobs", "jobs", "*")); err != nil || len(left) > 0 {
		t.Errorf("left of the jobs: %v, %v", left, err)
	}
}
