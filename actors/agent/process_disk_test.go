package agent

import (
	"os"
	"path/filepath"
	"testing"

	"weir/actors/agent/disktest"
)

// TestJobFillsTheDiskOfItsAgent has a real job take all space that a real agent's state
// has: it fails, its end is in the journal and told, and the other job goes on, also when
// the agent is killed on the full disk.
func TestJobFillsTheDiskOfItsAgent(t *testing.T) {
	dir := disktest.Small(t, 16<<20)
	jobs := map[string]string{"hog": waitToGo + "cat /dev/zero > all || exit 9", "other": waitToGo + "exit 3"}
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, Know: jobs, Grant: []string{"hog", "other"}}
	agent := startAgent(t, p)
	// Both have begun before there is no space for it.
	before := agent.process("other")
	agent.process("hog")
	letGo(t, dir, "hog")
	if got := agent.await("ended hog"); got != "failed 9  exited with code 9" {
		t.Errorf("the hog: %q", got)
	}
	awaitRelease(t, dir, "hog")
	ballast := disktest.Fill(t, dir, 0)
	agent.kill()
	p.Grant = nil
	agent = startAgent(t, p)
	if now := agent.process("other"); now.Identity != before.Identity {
		t.Errorf("the other job: process %+v, want %+v to go on", now.Identity, before.Identity)
	}
	letGo(t, dir, "other")
	if got := agent.await("ended other"); got != "failed 3  exited with code 3" {
		t.Errorf("the other job: %q", got)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	agent.close()
	if left, err := filepath.Glob(filepath.Join(dir, "jobs", "jobs", "*")); err != nil || len(left) > 0 {
		t.Errorf("left of the jobs: %v, %v", left, err)
	}
}
