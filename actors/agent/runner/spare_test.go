package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

// TestFoldersAreUsedAgain (T2): the folder of a separate job that has ended is the next one's, who finds nothing of
// it, and has a user, an output and a socket of its own. An agent that starts anew begins without such folders. The
// folder of a job that runs as the agent itself goes.
func TestFoldersAreUsedAgain(t *testing.T) {
	needsRoot(t)
	for name, folder := range map[string]string{"sockets in the folder": "a", "a short path": strings.Repeat("long", 30)} {
		t.Run(name, func(t *testing.T) { foldersAreUsedAgain(t, folder) })
	}
}

func foldersAreUsedAgain(t *testing.T, root string) {
	f := newFixture(t, backends["as a process tree"], as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_009}}),
		func(c *runner.Config) { c.Root = filepath.Join(t.TempDir(), root) })
	folder := func(id string) string { return filepath.Join(f.config.Root, "jobs", id) }
	spare := func() (names []string) {
		entries, err := os.ReadDir(filepath.Join(f.config.Root, "spare"))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	before := func() {}
	var discovery string
	const see = `echo "$WEIR_DISCOVERY"; id -u; ls -A . | tr '\n' ' '; echo; stat -c %a "$(dirname "$WEIR_DISCOVERY")"; ls "$(dirname "$WEIR_DISCOVERY")" 2>&1 | tail -n 1; ` +
		`test -S "$WEIR_DISCOVERY" && echo found; echo left > file; mkdir -p deep/er; chmod 0 deep; ln -s /etc/passwd spec.json; `
	stat := func(path string) os.FileInfo {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	run := func(id, uid string) (files []os.FileInfo) {
		job := f.start(t, runner.JobSpec{ID: id, Shell: see + "echo ready"})
		finished(t, job)
		lines := f.awaitOutput(t, job, 7)
		discovery, lines = lines[0], lines[1:]
		if lines[0] != uid || strings.Trim(lines[1], " ") != "" || lines[2] != "711" || !strings.Contains(lines[3], "ermission denied") || lines[4] != "found" {
			t.Errorf("job %s of user %s sees %q", id, uid, lines)
		}
		files = []os.FileInfo{stat(folder(id)), stat(filepath.Join(folder(id), proxyproto.SocketFile)), stat(discovery)}
		if owner := files[2].Sys().(*syscall.Stat_t).Uid; fmt.Sprint(owner) != uid || files[2].Mode().Perm() != 0o600 {
			t.Errorf("the socket of job %s: user %d, %v", id, owner, files[2].Mode())
		}
		before()
		if err := job.Release(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(folder(id)); err == nil {
			t.Errorf("the folder of job %s is there", id)
		}
		return files
	}
	first := run("first", "200000")
	if short := strings.HasPrefix(discovery, "/tmp/weir-"); short != (root != "a") {
		t.Fatalf("the socket is %s", discovery)
	}
	if names := spare(); !slices.Equal(names, []string{"first"}) {
		t.Errorf("spare folders: %q", names)
	}
	for _, name := range []string{proxyproto.SpecFile, proxyproto.LogFile} {
		if info, err := os.Lstat(filepath.Join(f.config.Root, "spare", "first", name)); err != nil || info.Size() != 1 {
			t.Errorf("%s of the spare folder: %v, %v", name, info, err)
		}
	}
	second := run("second", "200001")
	for i, file := range first {
		if !os.SameFile(file, second[i]) {
			t.Errorf("the second job has a new %s", file.Name())
		}
	}
	if names := spare(); !slices.Equal(names, []string{"second"}) {
		t.Errorf("spare folders: %q", names)
	}
	// A job may have given rights to its socket.
	before = func() {
		if err := unix.Setxattr(discovery, "trusted.weir", []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	third := run("third", "200002")
	before = func() {
		if n, err := unix.Llistxattr(discovery, nil); n > 0 || err != nil {
			t.Errorf("the fourth job has the discovery socket that the third changed: %d bytes, %v", n, err)
		}
	}
	if fourth := run("fourth", "200003"); !os.SameFile(third[1], fourth[1]) {
		t.Error("the fourth job has a new control socket")
	}
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(discovery); err == nil {
		t.Errorf("%s is there", discovery)
	}
	f.open(t)
	if names := spare(); len(names) > 0 {
		t.Errorf("a new agent has the spare folders %q", names)
	}
	if f.Job("fourth") != nil {
		t.Error("a released job is there again")
	}
	f = newFixture(t, backends["as a process tree"])
	last := f.start(t, runner.JobSpec{ID: "last", Shell: "echo ready"})
	finished(t, last)
	if err := last.Release(); err != nil {
		t.Fatal(err)
	}
	if names := spare(); len(names) > 0 {
		t.Errorf("after a job that is not separate: spare folders %q", names)
	}
}

// TestProxyThatAcceptsNothing: the agent holds the socket of a separate job open, and notices nevertheless that
// the proxy has ended before it took its connection.
func TestProxyThatAcceptsNothing(t *testing.T) {
	needsRoot(t)
	broken := filepath.Join(t.TempDir(), "broken")
	f := newFixture(t, backends["as a process tree"], as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_009}}), func(c *runner.Config) {
		script := fmt.Sprintf("#!/bin/sh\ntest -e %s && exit 3\nexec %s \"$@\"\n", broken, c.ProxyPath)
		c.ProxyPath = filepath.Join(t.TempDir(), "weir-jobproxy")
		if err := os.WriteFile(c.ProxyPath, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	})
	for i, fails := range []bool{true, false, true, false} {
		if err := os.RemoveAll(broken); err != nil {
			t.Fatal(err)
		}
		// It is another program, so none that waits runs the job.
		at := time.Unix(int64(1_000_000_000+i), 0)
		if err := os.Chtimes(f.config.ProxyPath, at, at); err != nil {
			t.Fatal(err)
		}
		want := proxyproto.OutcomeExited
		if fails {
			want = proxyproto.OutcomeProxyFailed
			if err := os.WriteFile(broken, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		job := f.start(t, runner.JobSpec{ID: fmt.Sprint("job-", i), Shell: "true"})
		if result := finished(t, job); result.Outcome != want {
			t.Errorf("job %d ended with %+v, want %s", i, result, want)
		}
		if err := job.Release(); err != nil {
			t.Fatal(err)
		}
	}
}
