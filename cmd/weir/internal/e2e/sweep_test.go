package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/messages/apipb"
)

// TestSweep runs jobs that stand each for itself: they find files of their own, and fail now
// and then.
func TestSweep(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	for name, part := range map[string]func(*testing.T, *cluster){
		"every job fails once":     jobsThatFailOnce,
		"one job is never done":    jobGivenUp,
		"ended by too many before": sweepCutShort,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, c)
		})
	}
}

// sweep is a task of count jobs. Each reads a file of its own and leaves one, says in a file
// that it ran, and fails the first time; one that is told to by a file fails always. While there is a
// file hold, none ends.
func sweep(t *testing.T, dir string, count int) object {
	t.Helper()
	for cookie := range count {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("in-%d", cookie)), []byte(fmt.Sprintf("input of %d", cookie)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	line := strings.ReplaceAll(`before=$(ls @DIR | grep -c "^ran-$WEIR_JOB_COOKIE-"); : > @DIR/ran-$WEIR_JOB_COOKIE-$WEIR_JOB_ID
test "$(cat in)" = "input of $WEIR_JOB_COOKIE" && test "$WEIR_TASK_JOB_COUNT" = @JOBS || exit 9
test ! -e @DIR/broken-$WEIR_JOB_COOKIE || exit 5
while test -e @DIR/hold; do sleep 0.1; done
cp in out; test $before -gt 0`, "@DIR", dir)
	return shell(count, strings.ReplaceAll(line, "@JOBS", fmt.Sprint(count))).
		with("file_paths", []any{object{"source": dir + "/in-{cookie}", "path": "in"}, dir + "/in-{cookie}"}).
		with("output_paths", []any{object{"path": "out", "destination": dir + "/out-{cookie}"}})
}

// attempts returns how often jobs of a sweep ran, by cookie.
func attempts(t *testing.T, dir string, count int) []int {
	t.Helper()
	ran := make([]int, count)
	for cookie := range ran {
		files, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("ran-%d-*", cookie)))
		if err != nil {
			t.Fatal(err)
		}
		ran[cookie] = len(files)
	}
	return ran
}

// jobsThatFailOnce are no reason to fail the operation, however many they are.
func jobsThatFailOnce(t *testing.T, c *cluster) {
	dir := c.folder(t)
	op := c.ends(t, c.start(t, one(sweep(t, dir, 20).with("max_attempts", 3), object{"max_failed_job_count": 1})), "completed")
	if p := op.GetProgress(); p.GetCompleted() != 20 || p.GetFailed() != 20 || p.GetGivenUp() != 0 {
		t.Errorf("progress %v, want 20 failed and 20 completed", p)
	}
	for cookie, ran := range attempts(t, dir, 20) {
		out, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("out-%d", cookie)))
		if ran != 2 || string(out) != fmt.Sprintf("input of %d", cookie) {
			t.Errorf("cookie %d ran %d times and left %q, %v", cookie, ran, out, err)
		}
	}
}

// jobGivenUp leaves the others to complete; it alone is run again when it is mended.
func jobGivenUp(t *testing.T, c *cluster) {
	dir := c.folder(t)
	broken := filepath.Join(dir, "broken-7")
	if err := os.WriteFile(broken, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	first := c.start(t, one(sweep(t, dir, 20).with("max_attempts", 3), object{"max_failed_job_count": 2}))
	op := c.ends(t, first, "failed")
	if p := op.GetProgress(); p.GetCompleted() != 19 || p.GetFailed() != 22 || p.GetGivenUp() != 1 || p.GetPending() != 0 {
		t.Errorf("progress %v, want 19 completed and one given up", p)
	}
	wantIn(t, "the operation's error", protojson.Format(op.GetResult()), []string{"1 of 20 jobs failed in all of their attempts", "task: 7", "code 5"})
	gaveUp := 0
	for _, job := range c.jobs(t, first, "failed") {
		if job.GetGivenUp() {
			gaveUp++
			if job.GetCookie() != 7 || job.GetFailures() != 3 || job.GetMaxAttempts() != 3 {
				t.Errorf("given up is %v", job)
			}
		}
	}
	if ran := attempts(t, dir, 20); ran[7] != 3 || gaveUp != 1 {
		t.Errorf("the jobs ran %v times, %d were given up", ran, gaveUp)
	}
	printed, code := c.verb(t, "op", "get", first)
	wantIn(t, "op get", printed, []string{"given up in task task: 1 job, after 3 attempts; cookies 7", "weir op retry " + first + " --failed"})
	if code != 0 {
		t.Errorf("op get: exit code %d", code)
	}

	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	printed, code = c.verb(t, "op", "retry", first, "--failed", "--wait", "--quiet", "-o", "table")
	if code != 0 {
		t.Fatalf("op retry: exit code %d\n%s", code, printed)
	}
	lines := strings.Fields(printed)
	second := lines[len(lines)-1]
	again := c.ends(t, second, "completed")
	if p := again.GetProgress(); p.GetTotal() != 1 || p.GetCompleted() != 1 || p.GetFailed() != 0 || again.GetRetryOf() != first {
		t.Errorf("the retry is %v", again)
	}
	ran := attempts(t, dir, 20)
	if job := c.jobs(t, second, "completed"); len(job) != 1 || job[0].GetCookie() != 7 || ran[7] != 4 {
		t.Errorf("jobs %v ran again; all ran %v times", job, ran)
	}
	if out, err := os.ReadFile(filepath.Join(dir, "out-7")); string(out) != "input of 7" {
		t.Errorf("the job that ran again left %q, %v", out, err)
	}
	if printed, code := c.verb(t, "op", "retry", second, "--failed"); code == 0 || !strings.Contains(printed, "all of its jobs have completed") {
		t.Errorf("a retry of nothing: exit code %d, %s", code, printed)
	}
}

// sweepCutShort is one without attempts: as many failures as may be end it, and what had not
// completed is run again.
func sweepCutShort(t *testing.T, c *cluster) {
	dir := c.folder(t)
	first := c.start(t, one(sweep(t, dir, 6), object{"max_failed_job_count": 3}))
	op := c.ends(t, first, "failed")
	completed := op.GetProgress().GetCompleted()
	if op.GetProgress().GetFailed() < 3 || completed > 3 {
		t.Errorf("progress %v, want three or more to have failed", op.GetProgress())
	}
	var failed []int32
	for _, job := range c.jobs(t, first, "failed") {
		failed = append(failed, job.GetCookie())
	}
	done := c.jobs(t, first, "completed")
	failed = slices.DeleteFunc(failed, func(cookie int32) bool {
		return slices.ContainsFunc(done, func(job *apipb.Job) bool { return job.GetCookie() == cookie })
	})
	// The jobs of the retries run until they are aborted.
	put(t, filepath.Join(dir, "hold"), "")
	for which, want := range map[string]int64{"failed": int64(len(failed)), "unfinished": 6 - completed} {
		var started apipb.RetryOperationResponse
		c.ask(t, "OperationService/Retry", object{"operation": first, "jobs": which, "mutation_id": which + first}, &started)
		if started.GetJobCount() != want || started.GetRetryOf() != first {
			t.Errorf("%s: %v, want %d jobs", which, &started, want)
		}
		c.ask(t, "OperationService/Abort", object{"operation": started.GetOperationId()}, &apipb.AbortOperationResponse{})
		c.ends(t, started.GetOperationId(), "aborted")
	}
}
