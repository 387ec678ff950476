package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// TestKilledAgentKeepsItsJobs kills a real agent with -9, twice, and starts it again.
// The second time it dies while it writes its journal.
func TestKilledAgentKeepsItsJobs(t *testing.T) {
	dir := t.TempDir()
	jobs := map[string]string{
		"zero":      waitToGo + "exit 0",
		"seven":     waitToGo + "echo so long >&2; exit 7",
		"signal":    waitToGo + "kill -USR1 $$",
		"meanwhile": waitToGo + "exit 3",
		"proxyless": "sleep 1000",
	}
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, Know: jobs,
		Grant: []string{"zero", "seven", "signal", "meanwhile", "proxyless"}}
	agent := startAgent(t, p)
	before := map[string]proctree.Process{}
	for job := range jobs {
		before[job] = agent.process(job)
	}
	agent.kill()

	letGo(t, dir, "meanwhile")
	awaitResult(t, dir, "meanwhile")
	log, err := os.ReadFile(filepath.Join(dir, "jobs", "jobs", "proxyless", proxyproto.LogFile))
	if err == nil {
		proxy, _, _ := proxyproto.CutIdentity(log)
		err = proctree.Signal(proxy, unix.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}

	// The grants are sent again, as a leader does that has not heard of the jobs.
	agent = startAgent(t, p)
	for _, job := range []string{"zero", "seven", "signal"} {
		if now := agent.process(job); now.Identity != before[job].Identity {
			t.Errorf("job %s: process %+v, want %+v to go on", job, now.Identity, before[job].Identity)
		}
	}
	if got := agent.await("ended meanwhile"); got != "failed 3  exited with code 3" {
		t.Errorf("the job that ended meanwhile: %q", got)
	}
	if got := agent.await("ended proxyless"); !strings.HasPrefix(got, "aborted -1 job_proxy_failed weir-jobproxy ended") {
		t.Errorf("the job whose proxy was killed: %q", got)
	}
	if proctree.Alive(before["proxyless"].Identity) {
		t.Error("a job lives on without its proxy")
	}
	agent.kill()

	journal, err := os.OpenFile(folder{dir}.journalFile(), os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = journal.Write([]byte("\x00WJ\xff\x40\x00\x00\x00half a rec"))
	}
	if err == nil {
		err = journal.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Grant = nil
	agent = startAgent(t, p)
	wants := map[string]string{"zero": "completed 0", "seven": "failed 7  exited with code 7", "signal": "failed -1  killed by signal 10 (SIGUSR1)"}
	for job, want := range wants {
		agent.process(job)
		letGo(t, dir, job)
		if got := agent.await("ended " + job); got != want {
			t.Errorf("job %s: %q, want %q", job, got, want)
		}
	}
	for _, line := range agent.close() {
		if fields := strings.Fields(line); fields[0] == "ended" && wants[fields[1]] != "" {
			t.Errorf("told once more: %q", line)
		}
	}
}

// TestAgentThatIsAwayForLongerThanItsLease finds that its jobs have been ended, by
// their proxies, when the lease was over.
func TestAgentThatIsAwayForLongerThanItsLease(t *testing.T) {
	dir := t.TempDir()
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, LastLease: time.Second, Know: map[string]string{"j": "sleep 1000"}, Grant: []string{"j"}}
	agent := startAgent(t, p)
	process := agent.process("j")
	before := time.Now()
	if _, err := agent.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	awaitResult(t, dir, "j")
	if took := time.Since(before); took < p.LastLease || took > p.LastLease+patience {
		t.Errorf("the job went on for %v without an agent, its lease was %v", took, p.LastLease)
	}
	if proctree.Alive(process.Identity) {
		t.Error("the job lives after its lease")
	}
	agent.kill()
	p.Grant, p.LastLease = nil, 0
	agent = startAgent(t, p)
	if got := agent.await("ended j"); !strings.HasPrefix(got, "aborted -1 node_offline") {
		t.Errorf("told %q, want it aborted, node_offline", got)
	}
	agent.close()
}

// TestJobsWithoutAJournalAreEnded removes the journal: the node's life is another,
// and nobody can be told of the jobs.
func TestJobsWithoutAJournalAreEnded(t *testing.T) {
	dir := t.TempDir()
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, Know: map[string]string{"j": "sleep 1000"}, Grant: []string{"j"}}
	agent := startAgent(t, p)
	process := agent.process("j")
	agent.kill()
	if err := os.Remove(folder{dir}.journalFile()); err != nil {
		t.Fatal(err)
	}
	p.Grant, p.Know = []string{"k"}, map[string]string{"k": "echo hello"}
	agent = startAgent(t, p)
	if got := agent.await("ended k"); got != "completed 0" {
		t.Errorf("a job of the new life: %q", got)
	}
	if proctree.Alive(process.Identity) {
		t.Error("a job of the old life goes on")
	}
	agent.close()
}
