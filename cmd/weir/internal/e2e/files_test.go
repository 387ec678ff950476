package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// TestFilesOfARunningJob (T2) lists and reads the files of a job that runs, through a replica, and copies one; of a job that has
// ended it reads what was kept.
func TestFilesOfARunningJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	operation := c.start(t, one(shell(1, `seq 200000 > long; mkdir sub; echo secret > sub/note; ln -s /etc/passwd out; : > empty; touch `+dir+`/made; until test -e `+release+`; do sleep 0.1; done`).
		with("output_paths", []object{{"path": "sub", "destination": dir + "/kept-{job_id}"}, {"path": "long", "destination": dir + "/{cookie}.txt"}})))
	until(t, "the job has made its files", func() string {
		if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
			return err.Error()
		}
		return ""
	})
	job := c.runs(t, operation, 1)[0].GetId()
	for _, want := range []string{"-rw", " long\n", "drwx", " sub\n", "out -> /etc/passwd"} {
		if printed := c.cli(t, "job", "files", job); !strings.Contains(printed, want) {
			t.Errorf("no %q in the list of files:\n%s", want, printed)
		}
	}
	if printed := c.cli(t, "job", "files", job, "sub/note"); printed != "secret\n" {
		t.Errorf("the note is %q", printed)
	}
	for name, wantLines := range map[string]int{"long": 200_000, "empty": 0} {
		to := filepath.Join(t.TempDir(), name)
		c.cli(t, "job", "files", job, name, "--to", to)
		data, err := os.ReadFile(to)
		if lines := strings.Count(string(data), "\n"); err != nil || lines != wantLines || lines > 0 && !strings.HasSuffix(string(data), "\n200000\n") {
			t.Errorf("the copy of %s has %d lines, %v, want %d", name, lines, err, wantLines)
		}
		if printed, code := c.verb(t, "job", "files", job, name, "--to", to); code == 0 || !strings.Contains(printed, "exists") {
			t.Errorf("a file that exists was replaced: exit code %d\n%s", code, printed)
		}
	}
	to := filepath.Join(t.TempDir(), "copy")
	for name, wantError := range map[string]string{"out": "leads out of the job's workspace", "../spec.json": "leads out", "nothing": "no such file", "sub": "is a folder"} {
		printed, code := c.verb(t, "job", "files", job, name, "--to", to)
		if _, err := os.Stat(to); code == 0 || !strings.Contains(printed, wantError) || !os.IsNotExist(err) {
			t.Errorf("%s: exit code %d, want an error with %q and no copy (%v)\n%s", name, code, wantError, err, printed)
		}
	}
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.ends(t, operation, "completed")
	listed := c.cli(t, "job", "output", job)
	for _, want := range []string{"sub -> " + dir + "/kept-" + job, "long -> " + dir + "/0.txt"} {
		if !strings.Contains(listed, want) {
			t.Errorf("no %q in the list of what was kept:\n%s", want, listed)
		}
	}
	if printed := c.cli(t, "job", "output", job, "sub/note"); printed != "secret\n" {
		t.Errorf("the kept note is %q", printed)
	}
	c.cli(t, "job", "output", job, "long", "--to", to)
	if data, err := os.ReadFile(to); err != nil || strings.Count(string(data), "\n") != 200_000 {
		t.Errorf("the copy of what was kept has %d bytes, %v", len(data), err)
	}
	if printed, code := c.verb(t, "job", "output", job, "sub/../../x"); code == 0 || !strings.Contains(printed, "none of the output_paths") {
		t.Errorf("a path out of what was kept: exit code %d\n%s", code, printed)
	}
	if printed, code := c.verb(t, "job", "files", job); code == 0 || !strings.Contains(printed, apipb.CodeJobEnded) {
		t.Errorf("files of a job that has ended: exit code %d\n%s", code, printed)
	}
}
