package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/messages/apipb"
)

// failingJobs are run again, until the operation has had enough.
func failingJobs(t *testing.T, c *cluster) {
	line := func(text string) object { return small(1).with("command", text).with("shell", true) }
	for name, test := range map[string]struct {
		task object
		// wantJob and wantOperation are parts of the errors, with those inside.
		wantJob, wantOperation []string
		wantExit               int32
	}{
		"missing program": {
			small(1).with("command", []string{"/no/such/program"}), []string{"/no/such/program", "no such file or directory"},
			[]string{"no such file or directory"}, 0,
		},
		"program that is a folder": {small(1).with("command", []string{"/tmp"}), []string{"/tmp", "permission denied"}, []string{"permission denied"}, 0},
		"exit code": {
			line("echo first >&2; echo the reason >&2; exit 7"), []string{"code 7"}, []string{"code 7", "the reason"}, 7,
		},
		"signal":         {line("kill -SEGV $$"), []string{"SIGSEGV"}, []string{"SIGSEGV"}, -1},
		"memory limit":   {small(1, "hog", "2000"), []string{"Memory limit exceeded"}, []string{"Memory limit exceeded"}, -1},
		"job time limit": {small(1, "deaf", os.DevNull).with("job_time_limit", "1s"), []string{"time limit"}, []string{"time limit"}, -1},
		"not UTF-8":      {line(`printf 'bad \377 text' >&2; exit 3`), []string{"code 3"}, []string{"code 3", "bad"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operation := c.start(t, one(test.task, object{"max_failed_job_count": 2}))
			op := c.ends(t, operation, "failed")
			if p := op.GetProgress(); p.GetFailed() != 2 || p.GetCompleted() != 0 || p.GetAborted() != 0 {
				t.Errorf("progress %v, want 2 failed", p)
			}
			wantIn(t, "the operation's error", protojson.Format(op.GetResult()), test.wantOperation)
			failed := c.jobs(t, operation, "failed")
			if len(failed) != 2 {
				t.Errorf("jobs: %s\nwant 2 failed", c.describe(t, operation))
			}
			for _, job := range failed {
				wantIn(t, "the job's error", protojson.Format(job.GetError()), test.wantJob)
				if test.wantExit > 0 && job.GetExitCode() != test.wantExit {
					t.Errorf("exit code %d, want %d", job.GetExitCode(), test.wantExit)
				}
			}
		})
	}
}

func wantIn(t *testing.T, what, text string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q is not in %s", what, part, text)
		}
	}
}

// failuresInBetween do not keep an operation from completing.
func failuresInBetween(t *testing.T, c *cluster) {
	dir := c.folder(t)
	// Each cookie fails once.
	task := small(6).with("shell", true).with("command", "mkdir "+dir+"/$WEIR_JOB_COOKIE && exit 5; exit 0")
	op := c.ends(t, c.start(t, one(task)), "completed")
	if p := op.GetProgress(); p.GetCompleted() != 6 || p.GetFailed() != 6 {
		t.Errorf("progress %v, want 6 failed and 6 completed", p)
	}
}

// floodingJob prints two GiB: beginning and end are kept.
func floodingJob(t *testing.T, c *cluster) {
	const size = 2 << 30
	operation := c.start(t, one(small(1, "flood", fmt.Sprint(size>>20))))
	c.ends(t, operation, "completed")
	job := c.jobs(t, operation)[0]
	text := c.output(t, job.GetId(), "stdout")
	if len(text) > 1<<20+4096 || len(text) < 1<<19 {
		t.Errorf("%d bytes are kept, the limit is 1 MiB", len(text))
	}
	if !strings.HasPrefix(text, "the first line\n0123456789") || !strings.HasSuffix(text, "abcde\nthe last line\n") {
		t.Errorf("it begins with %.60q and ends with %q", text, tail(text, 2))
	}
	s := job.GetStatistics()
	printed := int64(size + len("the first line\nthe last line\n"))
	if s.GetStdoutBytes() != printed || s.GetStdoutDroppedBytes() < printed-1<<20 || s.GetStdoutDroppedBytes() >= printed {
		t.Errorf("statistics %v, want %d bytes and nearly as many dropped", s, printed)
	}
	// On the disk, too.
	var kept int64
	err := filepath.WalkDir(filepath.Join(c.dir, "data"), func(path string, entry fs.DirEntry, _ error) error {
		if entry == nil || !strings.Contains(path, job.GetId()) {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			kept += info.Size()
		}
		return nil
	})
	if err != nil || kept > 3<<20 || kept == 0 {
		t.Errorf("%d bytes of it on disk, %v", kept, err)
	}
}

// timeLimit is that of an operation that comes to it: longer than its processes take to
// begin.
const timeLimit = "30s"

// stubbornJobs do not end when asked to, and have children in sessions of their own.
func stubbornJobs(t *testing.T, c *cluster) {
	for name, test := range map[string]struct {
		part  string
		count int
		end   func(t *testing.T, operation, job string)
	}{
		"deaf, operation aborted": {"deaf", 1, func(t *testing.T, operation, _ string) {
			c.ask(t, "OperationService/Abort", object{"operation": operation, "reason": "enough"}, &apipb.AbortOperationResponse{})
			op := c.ends(t, operation, "aborted")
			wantIn(t, "result", protojson.Format(op.GetResult()), []string{"enough", "admin"})
		}},
		"children, operation aborted": {"breed", 4, func(t *testing.T, operation, _ string) {
			c.ask(t, "OperationService/Abort", object{"operation": operation}, &apipb.AbortOperationResponse{})
			c.ends(t, operation, "aborted")
		}},
		"children, operation completed": {"breed", 4, func(t *testing.T, operation, _ string) {
			c.ask(t, "OperationService/Complete", object{"operation": operation}, &apipb.CompleteOperationResponse{})
			c.ends(t, operation, "completed")
		}},
		"children, job aborted": {"breed", 4, func(t *testing.T, operation, job string) {
			c.ask(t, "JobService/Abort", object{"job_id": job, "reason": "stuck"}, &apipb.AbortJobResponse{})
			op := c.becomes(t, operation, "has an aborted job", func(op *apipb.Operation) bool { return op.GetProgress().GetAborted() == 1 })
			if op.GetProgress().GetAbortedByReason()["user_request"] != 1 {
				t.Errorf("progress %v, want it aborted by request", op.GetProgress())
			}
			// Its cookie runs again.
			if again := c.runs(t, operation, 1); again[0].GetId() == job || again[0].GetCookie() != 0 {
				t.Errorf("%v runs again", again[0])
			}
			c.ask(t, "OperationService/Abort", object{"operation": operation}, &apipb.AbortOperationResponse{})
			c.ends(t, operation, "aborted")
		}},
		"time limit of the operation": {"breed", 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pids := filepath.Join(c.folder(t), "pids")
			spec := one(small(1, test.part, pids))
			if test.end == nil {
				spec["time_limit"] = timeLimit
			}
			operation := c.start(t, spec)
			job := c.runs(t, operation, 1)[0].GetId()
			until(t, "its processes run", func() string {
				if lines := readLines(t, pids); len(lines) < test.count {
					return fmt.Sprint(lines)
				}
				return ""
			})
			if test.end != nil {
				test.end(t, operation, job)
			} else {
				op := c.ends(t, operation, "failed")
				wantIn(t, "result", protojson.Format(op.GetResult()), []string{"time_limit of " + timeLimit})
			}
			if left := processesWith(pids); len(left) > 0 {
				t.Errorf("processes %v are left of %v", left, readLines(t, pids))
			}
		})
	}
}

// workspaces are empty, private and removed.
func workspaces(t *testing.T, c *cluster) {
	dir := c.folder(t)
	task := small(2).with("shell", true).with("environment", object{"COLOR": "blue"}).with("command",
		`[ -z "$(ls -A)" ] || exit 3; echo x > file; echo "$COLOR $HOME $(pwd) $WEIR_OPERATION_ID $WEIR_TASK_NAME $WEIR_TASK_JOB_COUNT $WEIR_ADDRESSES" > `+dir+`/$WEIR_JOB_COOKIE`)
	operation := c.start(t, one(task))
	c.ends(t, operation, "completed")
	for cookie := range 2 {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(cookie)))
		if err != nil {
			t.Fatal(err)
		}
		seen := strings.Fields(string(data))
		if len(seen) != 7 || seen[0] != "blue" || seen[1] != seen[2] || seen[3] != operation || seen[4] != "task" || seen[5] != "2" {
			t.Fatalf("the job saw %q", data)
		}
		for _, address := range c.addresses {
			wantIn(t, "addresses", seen[6], []string{address})
		}
		until(t, "its workspace is removed", func() string {
			if _, err := os.Stat(seen[1]); err == nil {
				return seen[1] + " is there"
			}
			return ""
		})
	}
}
