package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
)

// shell is a task of jobs that run a line of shell.
func shell(count int, line string) object {
	return small(count).with("shell", true).with("command", line)
}

// TestWhatJobsFind is what a node gives its jobs besides room: files, GPUs, and who they
// are.
func TestWhatJobsFind(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	arguments := []string{"--gpu", "4", "--file-cache-size", "1MiB"}
	if os.Geteuid() == 0 {
		arguments = append(arguments, "--job-user", "nobody")
	}
	c.startAgent("n1", arguments...)
	c.ready(t, 1)
	for name, part := range map[string]func(*testing.T, *cluster){
		"files":                       filesOfJobs,
		"files that cannot be had":    filesThatCannotBeHad,
		"GPUs, never one for two":     gpusOfJobs,
		"the user that the node says": userOfJobs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, c)
		})
	}
}

// given makes a file for jobs, which all may read.
func (c *cluster) given(t *testing.T, name string, data []byte) string {
	t.Helper()
	dir, err := os.MkdirTemp(c.files(), "given-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	path := filepath.Join(dir, name)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// filesOfJobs are placed as they are asked for, and what one job does to its copy is
// nothing to the next.
func filesOfJobs(t *testing.T, c *cluster) {
	text, tool := c.given(t, "text", []byte("as it was\n")), c.given(t, "tool", []byte("#!/bin/sh\ncat \"$@\"\n"))
	line := `test "$(deep/run text)" = "as it was" && test ! -w text && mv text gone && echo mine > text`
	task := shell(6, line).with("file_paths", []any{text, object{"source": tool, "path": "deep/run", "executable": true}})
	operation := c.start(t, one(task))
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 6 || p.GetFailed() != 0 {
		t.Errorf("progress %v", p)
	}
	until(t, "the node tells of its files", func() string {
		node := c.nodeRecord(t, "n1")
		if files := node.GetFileCache(); files.GetFiles() < 2 || files.GetLimit() != 1<<20 {
			return protojson.Format(node)
		}
		return ""
	})
}

// filesThatCannotBeHad fail the job, whose error says why.
func filesThatCannotBeHad(t *testing.T, c *cluster) {
	tests := map[string]struct {
		file any
		want []string
	}{
		"missing":               {c.files() + "/no/such/file", []string{"/no/such/file", "no such file or directory"}},
		"larger than the cache": {c.given(t, "large", make([]byte, 1<<20+1)), []string{"has 1048577 bytes", "holds 1048576", "--file-cache-size"}},
		"a folder":              {c.files(), []string{c.files(), "is not a regular file"}},
	}
	if os.Geteuid() == 0 {
		secret := c.given(t, "secret", nil)
		if err := os.Chmod(secret, 0o600); err != nil {
			t.Fatal(err)
		}
		tests["one that the job's user may not read"] = struct {
			file any
			want []string
		}{secret, []string{secret, "permission denied"}}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operation := c.start(t, one(shell(1, "true").with("file_paths", []any{test.file}), object{"max_failed_job_count": 1}))
			op := c.ends(t, operation, "failed")
			wantIn(t, "the operation's error", protojson.Format(op.GetResult()), test.want)
		})
	}
}

// gpusOfJobs has more jobs than GPUs; each job keeps a note of its own as long as it runs.
func gpusOfJobs(t *testing.T, c *cluster) {
	dir := c.folder(t)
	line := `echo "$WEIR_GPUS" >> ` + dir + `/all; for g in $(echo "$WEIR_GPUS" | tr , ' '); do mkdir ` + dir + `/$g || exit 9; done; sleep 0.3; ` +
		`for g in $(echo "$WEIR_GPUS" | tr , ' '); do rmdir ` + dir + `/$g; done`
	operation := c.start(t, one(shell(8, line).with("gpu_limit", 2)))
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetFailed() != 0 || p.GetAborted() != 0 {
		t.Errorf("progress %v", p)
	}
	data, err := os.ReadFile(filepath.Join(dir, "all"))
	if err != nil {
		t.Fatal(err)
	}
	lists := strings.Fields(string(data))
	slices.Sort(lists)
	t.Logf("jobs had %v", lists)
	for _, list := range lists {
		if numbers := strings.Split(list, ","); len(numbers) != 2 || strings.Trim(list, "0123,") != "" {
			t.Errorf("a job had %q, want two of 0 to 3", list)
		}
	}
	if len(lists) != 8 {
		t.Errorf("%d jobs had GPUs, want 8", len(lists))
	}
}

// userOfJobs is the node's, or the task's.
func userOfJobs(t *testing.T, c *cluster) {
	if os.Geteuid() != 0 {
		t.Skip("only root can have jobs that are others")
	}
	for user, task := range map[string]object{"65534": small(1), "12345": small(1).with("user", "12345")} {
		operation := c.start(t, one(task.with("shell", true).with("command", "id -u; touch mine")))
		c.ends(t, operation, "completed")
		if got := strings.TrimSpace(c.output(t, c.jobs(t, operation)[0].GetId(), "stdout")); got != user {
			t.Errorf("a job was %q, want %s", got, user)
		}
	}
}
