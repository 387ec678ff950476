package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/messages/actorpb"
)

// playHog is a job that holds so many mebibytes until it finds a file called go.
func playHog(size string) {
	mebibytes, err := strconv.Atoi(size)
	if err != nil {
		panic(err)
	}
	held, err := unix.Mmap(-1, 0, mebibytes<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat("go"); err == nil {
			fmt.Println(len(held))
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// hog is what a job runs that holds so many mebibytes.
func hog(t *testing.T, mebibytes int) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("WEIR_TEST_HOG=%d exec %s", mebibytes, self)
}

// scans reports whether a text begins as a format says, and takes what stands there.
func scans(text, format string, into ...any) bool {
	n, _ := fmt.Sscanf(text, format, into...)
	return n == len(into)
}

// TestOverdraftOfRealJobs fills a node: only the job that is farthest above its reserve
// goes, and it is told why. However the three begin side by side, the node is not full before
// that job is farther above its reserve than the others.
func TestOverdraftOfRealJobs(t *testing.T) {
	dir := t.TempDir()
	p := play{
		StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, Memory: 1000, Grant: []string{"within", "above", "far"},
		Know:     map[string]string{"within": hog(t, 400), "above": hog(t, 290), "far": hog(t, 400)},
		Reserves: map[string]int64{"within": 500, "above": 280, "far": 20},
	}
	agent := startAgent(t, p)
	// The node may be full before the job has all that it wants.
	var used float64
	if end := agent.await("ended far"); !scans(end, "aborted -1 resource_overdraft memory overdraft: the job uses %f MiB", &used) || used < 100 || used > 500 {
		t.Errorf("far ended as %q", end)
	}
	var job, proxy int64
	if _, err := fmt.Sscan(agent.await("measured far"), &job, &proxy); err != nil || job < 100<<20 || job > 500<<20 || proxy < 1<<20 || proxy > 100<<20 {
		t.Errorf("far used %d bytes, its proxy %d, %v", job, proxy, err)
	}
	// The others have room now, and stay.
	for _, job := range []string{"within", "above"} {
		letGo(t, dir, job)
		if end := agent.await("ended " + job); end != "completed 0" {
			t.Errorf("%s ended as %q", job, end)
		}
	}
	agent.close()
}

// TestAJobAboveItsReserveMayFinish on a node that has room.
func TestAJobAboveItsReserveMayFinish(t *testing.T) {
	dir := t.TempDir()
	p := play{
		StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, Grant: []string{"above"},
		Know: map[string]string{"above": hog(t, 200)}, Reserves: map[string]int64{"above": 20},
	}
	agent := startAgent(t, p)
	agent.process("above")
	for hundreds := 0; hundreds < 2; {
		if _, err := fmt.Sscan(agent.await("memory above"), &hundreds); err != nil {
			t.Fatal(err)
		}
	}
	letGo(t, dir, "above")
	if end := agent.await("ended above"); end != "completed 0" {
		t.Errorf("ended as %q", end)
	}
	agent.close()
}

// TestFilesOfRealJobs places a program and what it reads.
func TestFilesOfRealJobs(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"tool": "#!/bin/sh\ncat data/in; echo spoilt > data/in || exit 9\n", "in": "so far so good\n"} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := play{
		StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, Grant: []string{"first", "second"},
		Know: map[string]string{"first": `test "$(bin/tool)" = "so far so good"`, "second": `test "$(bin/tool)" = "so far so good"`},
		Files: []*actorpb.JobFile{
			{Source: filepath.Join(files, "tool"), Path: "bin/tool", Executable: true},
			{Source: filepath.Join(files, "in"), Path: "data/in"},
		},
	}
	agent := startAgent(t, p)
	for _, job := range p.Grant {
		if end := agent.await("ended " + job); end != "completed 0" {
			t.Errorf("%s ended as %q", job, end)
		}
	}
	agent.close()
}
