package api

import (
	"fmt"
	"strings"
	"testing"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// sweepBody returns a request that starts jobs of a task t with these options.
func sweepBody(jobs int, options, more string) string {
	return fmt.Sprintf(`{"spec": {"tasks": {"t": {"job_count": %d, "command": ["run"]%s}}%s}}`, jobs, options, more)
}

// ends lets an operation that is about to end do so.
func (s *site) ends(operation, from, to string) {
	s.t.Helper()
	s.must(&commandpb.AdvanceOperation{OperationId: operation, Term: 1, From: from, To: to})
}

// TestRetry runs the failed jobs of a sweep again, those alone and with the cookies that they
// had.
func TestRetry(t *testing.T) {
	s := newSite(t)
	first := s.runAs(sweepBody(5, `, "max_attempts": 1`, `, "alias": "*sweep", "title": "of five"`), 5, "j0", "j1", "j2", "j3", "j4")
	for job, state := range map[string]string{"j0": "completed", "j1": "failed", "j2": "completed", "j3": "failed", "j4": "failed"} {
		s.finish(first, job, state)
	}
	s.ends(first, "failing", "failed")
	op := at(t, s.get("OperationService/Get", `{"operation": "*sweep"}`), "operation")
	want(t, op, "3 of 5 jobs failed in all of their attempts", "result", "message")
	want(t, op, "t: 1, 3-4", "result", "attributes", "cookies")
	want(t, op, "3", "progress", "given_up")
	want(t, op, 1.0, "tasks", 0, "max_attempts")
	want(t, op, 1.0, "tasks", 0, "given_up_cookies", 0, "first")
	want(t, op, 3.0, "tasks", 0, "given_up_cookies", 1, "first")
	want(t, op, 4.0, "tasks", 0, "given_up_cookies", 1, "last")
	job := at(t, s.get("JobService/Get", `{"job_id": "j1"}`), "job")
	want(t, job, true, "given_up")
	want(t, job, 1.0, "failures")
	want(t, job, 1.0, "max_attempts")

	request := `{"operation": "*sweep", "jobs": "failed", "mutation_id": "again"}`
	answer := s.get("OperationService/Retry", request)
	want(t, answer, first, "retry_of")
	want(t, answer, "3", "job_count")
	second := at(t, answer, "operation_id").(string)
	repeated := s.get("OperationService/Retry", `{"operation": "`+first+`", "jobs": "failed", "mutation_id": "again"}`)
	want(t, repeated, second, "operation_id")
	want(t, repeated, true, "repeated")
	// The alias has gone on to the retry, which has not ended.
	repeated = s.get("OperationService/Retry", request)
	want(t, repeated, second, "operation_id")
	want(t, repeated, true, "repeated")
	want(t, repeated, first, "retry_of")
	want(t, repeated, "3", "job_count")

	op = at(t, s.get("OperationService/Get", `{"operation": "*sweep"}`), "operation")
	want(t, op, second, "id")
	want(t, op, first, "retry_of")
	want(t, op, "of five", "title")
	want(t, op, 5.0, "spec", "tasks", "t", "job_count")
	want(t, op, 1.0, "spec", "tasks", "t", "cookies", 0)
	want(t, op, "3-4", "spec", "tasks", "t", "cookies", 1)
	// It can be started from what is shown of it.
	s.get("OperationService/Start", sweepBody(5, `, "cookies": [1, "3-4"]`, ""))
}

// TestRetryOfUnfinished runs all jobs again that have not completed, whatever became of them.
func TestRetryOfUnfinished(t *testing.T) {
	s := newSite(t)
	first := s.runAs(sweepBody(6, "", `, "max_failed_job_count": 1`), 6, "j0", "j1", "j2")
	s.finish(first, "j1", "completed")
	s.finish(first, "j0", "failed")
	s.finish(first, "j2", "aborted")
	s.ends(first, "failing", "failed")
	retry := func(which, wantJobs string, wantCookies ...any) string {
		t.Helper()
		answer := s.get("OperationService/Retry", fmt.Sprintf(`{"operation": %q, "jobs": %q}`, first, which))
		want(t, answer, wantJobs, "job_count")
		op := at(t, s.get("OperationService/Get", fmt.Sprintf(`{"operation": %q}`, at(t, answer, "operation_id"))), "operation")
		for i, cookie := range wantCookies {
			want(t, op, cookie, "spec", "tasks", "t", "cookies", i)
		}
		return at(t, answer, "operation_id").(string)
	}
	second := retry("unfinished", "5", 0.0, "2-5")
	// What the retry runs is not run beside it, and what it has completed is not run after it.
	got := s.post("OperationService/Retry", fmt.Sprintf(`{"operation": %q, "jobs": "failed"}`, first))
	if !strings.Contains(got.raw, "its retry "+second+" is ") {
		t.Errorf("a second retry beside the first: %d %s", got.status, got.raw)
	}
	s.get("OperationService/Abort", fmt.Sprintf(`{"operation": %q}`, second))
	s.ends(second, "aborting", "aborted")
	third := retry("failed", "1", 0.0)
	s.get("OperationService/Abort", fmt.Sprintf(`{"operation": %q}`, third))
	s.ends(third, "aborting", "aborted")
}

// TestRetryAfterRetries leaves out what earlier retries have completed.
func TestRetryAfterRetries(t *testing.T) {
	s := newSite(t)
	first := s.runAs(sweepBody(3, "", `, "max_failed_job_count": 1`), 3, "j0", "j1", "j2")
	s.finish(first, "j0", "failed")
	s.finish(first, "j1", "aborted")
	s.finish(first, "j2", "aborted")
	s.ends(first, "failing", "failed")
	second := at(t, s.get("OperationService/Retry", fmt.Sprintf(`{"operation": %q, "jobs": "failed"}`, first)), "operation_id").(string)
	s.leadsTo(second, 3, "r0")
	s.finish(second, "r0", "completed")
	s.ends(second, "completing", "completed")
	got := s.post("OperationService/Retry", fmt.Sprintf(`{"operation": %q, "jobs": "failed"}`, first))
	if !strings.Contains(got.raw, "2 have not completed") {
		t.Errorf("what failed has completed since: %d %s", got.status, got.raw)
	}
	answer := s.get("OperationService/Retry", fmt.Sprintf(`{"operation": %q, "jobs": "unfinished"}`, first))
	want(t, answer, "2", "job_count")
}

// TestRetriesThatCannotBe are refused with the reason.
func TestRetriesThatCannotBe(t *testing.T) {
	s := newSite(t)
	running := s.runAs(sweepBody(2, "", `, "alias": "*running"`), 2, "r0", "r1")
	s.finish(running, "r0", "failed")
	well := s.runAs(sweepBody(1, "", `, "alias": "*well"`), 1, "w0")
	s.finish(well, "w0", "completed")
	s.ends(well, "completing", "completed")
	aborted := s.runAs(sweepBody(2, "", `, "alias": "*aborted"`), 2)
	s.get("OperationService/Abort", `{"operation": "*aborted"}`)
	s.ends(aborted, "aborting", "aborted")
	gang := s.runAs(sweepBody(2, `, "gang_options": {}`, `, "alias": "*gang", "max_failed_job_count": 1`), 2, "g0", "g1")
	s.finish(gang, "g0", "failed")
	s.finish(gang, "g1", "aborted")
	s.ends(gang, "failing", "failed")
	service := s.runAs(sweepBody(1, `, "restart_completed_jobs": true`, `, "alias": "*service", "max_failed_job_count": 1`), 1, "s0")
	s.finish(service, "s0", "failed")
	s.ends(service, "failing", "failed")
	early := at(t, s.get("OperationService/Start", startBody(1, `, "alias": "*early"`)), "operation_id").(string)
	s.get("OperationService/Abort", `{"operation": "*early"}`)
	s.ends(early, "aborting", "aborted")
	for name, test := range map[string]struct {
		operation, jobs, wantCode, want string
	}{
		"one that runs":                     {"*running", "failed", "invalid_operation_state", "it is running: wait until it has ended, or end it first"},
		"one that completed":                {"*well", "failed", "nothing_to_retry", "all of its jobs have completed"},
		"one that completed, what is left":  {"*well", "unfinished", "nothing_to_retry", "all of its jobs have completed"},
		"one without failed jobs":           {"*aborted", "failed", "nothing_to_retry", "none of its jobs failed, but 2 have not completed: retry those that are unfinished"},
		"a gang":                            {"*gang", "failed", "nothing_to_retry", `the jobs of task "t" cannot be run again one by one (gang_options)`},
		"a service":                         {"*service", "failed", "nothing_to_retry", `the jobs of task "t" are never done (restart_completed_jobs)`},
		"a service, what is left":           {"*service", "unfinished", "nothing_to_retry", `cannot be run again one by one (restart_completed_jobs)`},
		"one that ended before it had jobs": {"*early", "unfinished", "nothing_to_retry", "it ended before it had jobs"},
		"one that is not known":             {"nope", "failed", "unknown_operation", `operation "nope" not found`},
		"jobs that are not said":            {"*well", "", "invalid_argument", `jobs "": write failed or unfinished`},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.Applied()
			got := s.post("OperationService/Retry", fmt.Sprintf(`{"operation": %q, "jobs": %q}`, test.operation, test.jobs))
			if code := got.header.Get(apipb.HeaderCode); code != test.wantCode || !strings.Contains(strings.ReplaceAll(got.raw, `\"`, `"`), test.want) {
				t.Errorf("%d %q %s, want %q and %s", got.status, code, got.raw, test.wantCode, test.want)
			}
			if s.Applied() != before {
				t.Error("it got as far as the log")
			}
		})
	}
	long := fmt.Sprintf(`{"operation": "*aborted", "jobs": "unfinished", "mutation_id": "%s"}`, strings.Repeat("m", 129))
	if got := s.post("OperationService/Retry", long); got.header.Get(apipb.HeaderCode) != "invalid_argument" || !strings.Contains(got.raw, "mutation_id has 129 bytes, the limit is 128") {
		t.Errorf("a long mutation id: %d %s", got.status, got.raw)
	}
	// One that an earlier version started does not say which jobs failed.
	s.must(&commandpb.StartOperation{OperationId: "old", User: "ann", Spec: &statepb.OperationSpec{
		Type: "vanilla", MaxFailedJobCount: 1, Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 1, Argv: []string{"run"}}},
	}})
	s.leadsTo("old", 1, "o0")
	s.finish("old", "o0", "failed")
	s.ends("old", "failing", "failed")
	if got := s.post("OperationService/Retry", `{"operation": "old", "jobs": "failed"}`); !strings.Contains(got.raw, "an earlier version started it") {
		t.Errorf("%d %s", got.status, got.raw)
	}
	want(t, s.get("OperationService/Retry", `{"operation": "old", "jobs": "unfinished"}`), "1", "job_count")
}
