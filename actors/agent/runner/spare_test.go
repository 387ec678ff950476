package runner_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

// TestFoldersAreUsedAgain (T2): the folder of a separate job that has ended is the next one's, who finds nothing of
// it, and has a user, an output and a socket of its own. An agent that starts anew begins without such folders. The
// folder of a job that runs as the agent itself goes.
func TestFoldersAreUsedAgain(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, backends["as a process tree"], as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_009}}))
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
	const see = `id -u; ls -A . | tr '\n' ' '; echo; stat -c %a "$(dirname "$WEIR_DISCOVERY")"; ls "$(dirname "$WEIR_DISCOVERY")" 2>&1 | tail -n 1; ` +
		`test -S "$WEIR_DISCOVERY" && echo found; echo left > file; mkdir -p deep/er; chmod 0 deep; ln -s /etc/passwd spec.json; `
	run := func(id, uid string) (inode os.FileInfo) {
		job := f.start(t, runner.JobSpec{ID: id, Shell: see + "echo ready"})
		finished(t, job)
		lines := f.awaitOutput(t, job, 6)
		if lines[0] != uid || strings.Trim(lines[1], " ") != "" || lines[2] != "711" || !strings.Contains(lines[3], "ermission denied") || lines[4] != "found" {
			t.Errorf("job %s of user %s sees %q", id, uid, lines)
		}
		inode, err := os.Stat(folder(id))
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Release(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(folder(id)); err == nil {
			t.Errorf("the folder of job %s is there", id)
		}
		return inode
	}
	first := run("first", "200000")
	if names := spare(); !slices.Equal(names, []string{"first"}) {
		t.Errorf("spare folders: %q", names)
	}
	for _, name := range []string{proxyproto.SpecFile, proxyproto.LogFile} {
		if info, err := os.Lstat(filepath.Join(f.config.Root, "spare", "first", name)); err != nil || info.Size() != 0 {
			t.Errorf("%s of the spare folder: %v, %v", name, info, err)
		}
	}
	second := run("second", "200001")
	if !os.SameFile(first, second) {
		t.Error("the second job has a new folder")
	}
	if names := spare(); !slices.Equal(names, []string{"second"}) {
		t.Errorf("spare folders: %q", names)
	}
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	if names := spare(); len(names) > 0 {
		t.Errorf("a new agent has the spare folders %q", names)
	}
	if f.Job("second") != nil {
		t.Error("a released job is there again")
	}
	f = newFixture(t, backends["as a process tree"])
	third := f.start(t, runner.JobSpec{ID: "third", Shell: "echo ready"})
	finished(t, third)
	if err := third.Release(); err != nil {
		t.Fatal(err)
	}
	if names := spare(); len(names) > 0 {
		t.Errorf("after a job that is not separate: spare folders %q", names)
	}
}
