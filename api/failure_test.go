package api

import (
	"fmt"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestFailedJobsAreCountedAlike: jobs that fail at the same time as the one that was too many
// count in the error too, as they do in the progress, the lists of operations and of jobs.
func TestFailedJobsAreCountedAlike(t *testing.T) {
	for name, limit := range map[string]string{
		"of the operation": `{"spec": {"max_failed_job_count": 2, "tasks": {"t": {"job_count": 5, "command": ["run"]}}}}`,
		"of a task":        `{"spec": {"tasks": {"t": {"job_count": 5, "command": ["run"], "max_failed_job_count": 2}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			id := s.runAs(limit, 5, "j1", "j2", "j3", "j4", "j5")
			s.finish(id, "j1", "failed")
			// One command has three, of which the first is one too many.
			s.must(&commandpb.FinishJobs{OperationId: id, Epoch: 1, Jobs: []*statepb.FinishedJob{
				{JobId: "j2", State: "failed", ExitCode: 3}, {JobId: "j3", State: "failed", ExitCode: 3}, {JobId: "j4", State: "completed"},
			}})
			agree := func(failed int) {
				t.Helper()
				of := fmt.Sprintf(`{"operation": "%s"}`, id)
				op := at(t, s.get("OperationService/Get", of), "operation")
				want(t, op, "failing", "state")
				want(t, op, fmt.Sprint(failed), "result", "attributes", "failed_job_count")
				want(t, op, fmt.Sprintf("%d failed jobs: limit reached", failed), "result", "message")
				want(t, op, "2", "result", "attributes", "max_failed_job_count")
				want(t, op, fmt.Sprint(failed), "progress", "failed")
				want(t, op, fmt.Sprint(failed), "tasks", 0, "failed")
				want(t, s.get("OperationService/List", `{}`), fmt.Sprint(failed), "operations", 0, "result", "attributes", "failed_job_count")
				jobs := at(t, s.get("JobService/List", fmt.Sprintf(`{"operation": "%s", "state": "failed"}`, id)), "jobs").([]any)
				if len(jobs) != failed {
					t.Errorf("%d failed jobs are listed, want %d", len(jobs), failed)
				}
			}
			agree(3)
			s.finish(id, "j5", "failed")
			agree(4)
		})
	}
}

// TestFailuresOfATaskWithAttempts: in the error of a task with max_attempts those failed jobs are
// counted that are compared with its limit: the last of each cookie that is given up.
func TestFailuresOfATaskWithAttempts(t *testing.T) {
	s := newSite(t)
	id := s.runAs(sweepBody(3, `, "max_attempts": 2, "max_failed_job_count": 1`, ""), 3, "a1", "b1", "c1")
	for _, job := range []string{"a1", "b1", "c1"} {
		s.finish(id, job, "failed")
	}
	// A job of one of the cookies again.
	s.grants(id, "again")
	s.finish(id, "again", "failed")
	op := at(t, s.get("OperationService/Get", fmt.Sprintf(`{"operation": "%s"}`, id)), "operation")
	want(t, op, "failing", "state")
	want(t, op, "task", "result", "attributes", "limited")
	want(t, op, "1", "result", "attributes", "max_failed_job_count")
	want(t, op, "1", "result", "attributes", "failed_job_count")
	want(t, op, "1 failed job: limit reached", "result", "message")
	want(t, op, "4", "progress", "failed")
}
