package controller

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// TestEndsOfInterruptedJobs has a line for each line of J.3, steps 2 to 4.
func TestEndsOfInterruptedJobs(t *testing.T) {
	allocation := &statepb.Allocation{JobId: "j1", Task: "serve", Cookie: 7, Node: "n1"}
	at := timestamppb.New(time.Unix(9, 0))
	byUser := &statepb.StopOrder{Reason: "interruption_timeout", Interruption: "user_request", GraceMillis: 5000, Time: at}
	preempted := &statepb.StopOrder{Reason: "preemption", Interruption: "preemption", Preemption: "aggressive_preemption", GraceMillis: 5000, Time: at}
	overcommitted := &statepb.StopOrder{
		Reason: "node_resource_overcommit", Interruption: "preemption", Preemption: "resource_overcommit", GraceMillis: 5000, Time: at,
	}
	unsupported := &statepb.StopOrder{Reason: "interruption_unsupported", Time: at}
	killed := &statepb.StopOrder{Reason: "preemption", Preemption: "preemption", Time: at}
	aborted := &statepb.StopOrder{Reason: "user_request", Time: at}

	exits := func(code int32) *statepb.FinishedJob {
		if code == 0 {
			return &statepb.FinishedJob{State: "completed"}
		}
		return &statepb.FinishedJob{State: "failed", ExitCode: code, Error: &statepb.Error{Message: "exited"}}
	}
	stopped := func(reason string) *statepb.FinishedJob {
		return &statepb.FinishedJob{State: "aborted", AbortReason: reason}
	}
	told := func(job *statepb.FinishedJob, order *statepb.StopOrder) *statepb.FinishedJob {
		job.Stop = order
		return job
	}
	tests := map[string]struct {
		order *statepb.StopOrder
		job   *statepb.FinishedJob
		// noCode: the task has no restart_exit_code.
		noCode bool

		wantState, wantAbort string
		wantRerun, wantSaved bool
		wantOrder            *statepb.StopOrder
	}{
		"exits with 0 in time":                        {order: byUser, job: exits(0), wantState: "completed", wantOrder: byUser},
		"exits with 0 when preempted":                 {order: preempted, job: exits(0), wantState: "completed", wantOrder: preempted},
		"exits with restart_exit_code in time":        {order: byUser, job: told(exits(75), byUser), wantState: "completed", wantRerun: true, wantOrder: byUser},
		"the same when preempted":                     {order: preempted, job: told(exits(75), preempted), wantState: "completed", wantRerun: true, wantOrder: preempted},
		"the order is known to the agent only":        {job: told(exits(75), byUser), wantState: "completed", wantRerun: true, wantOrder: byUser},
		"restart_exit_code without an interruption":   {job: exits(75), wantState: "failed"},
		"restart_exit_code before it was told":        {order: byUser, job: exits(75), wantState: "failed", wantOrder: byUser},
		"restart_exit_code of a job that is killed":   {order: aborted, job: exits(75), wantState: "failed", wantOrder: aborted},
		"a code that means nothing to its task":       {order: byUser, job: told(exits(75), byUser), noCode: true, wantState: "failed", wantOrder: byUser},
		"exits with another code":                     {order: byUser, job: exits(7), wantState: "failed", wantOrder: byUser},
		"exits with another code when preempted":      {order: preempted, job: exits(7), wantState: "failed", wantOrder: preempted},
		"is there at the deadline":                    {order: byUser, job: stopped("interruption_timeout"), wantState: "aborted", wantAbort: "interruption_timeout", wantOrder: byUser},
		"is there at the deadline of a preemption":    {order: preempted, job: stopped("preemption"), wantState: "aborted", wantAbort: "preemption", wantOrder: preempted},
		"an agent that does not tell them apart":      {order: preempted, job: stopped("interruption_timeout"), wantState: "aborted", wantAbort: "preemption", wantOrder: preempted},
		"is there when its node has less than it has": {order: overcommitted, job: stopped("interruption_timeout"), wantState: "aborted", wantAbort: "node_resource_overcommit", wantOrder: overcommitted},
		"had not started when a user asked":           {order: byUser, job: stopped("interruption_timeout"), wantState: "aborted", wantAbort: "interruption_timeout", wantOrder: byUser},
		"had not started when it was preempted":       {order: preempted, job: stopped("preemption"), wantState: "aborted", wantAbort: "preemption", wantOrder: preempted},
		"cannot be interrupted":                       {order: unsupported, job: stopped("interruption_unsupported"), wantState: "aborted", wantAbort: "interruption_unsupported", wantOrder: unsupported},
		"cannot be interrupted and is preempted":      {order: killed, job: stopped("preemption"), wantState: "aborted", wantAbort: "preemption", wantOrder: killed},
		"is lost with its node while it leaves":       {order: byUser, job: stopped("node_offline"), wantState: "aborted", wantAbort: "node_offline", wantOrder: byUser},
		"says that its state is saved": {
			order: preempted, job: &statepb.FinishedJob{State: "aborted", AbortReason: "preemption", Acknowledged: true},
			wantState: "aborted", wantAbort: "preemption", wantSaved: true, wantOrder: preempted,
		},
		"says so and exits with 0 before it is ended": {
			order: byUser, job: &statepb.FinishedJob{State: "completed", Acknowledged: true}, wantState: "completed", wantOrder: byUser,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			task := &statepb.TaskSpec{Name: "serve", InterruptionSignal: "SIGTERM", RestartExitCode: proto.Int32(75)}
			if test.noCode {
				task.RestartExitCode = nil
			}
			got := Classify(&actorpb.JobEnded{Job: test.job}, allocation, task, test.order)
			if got.GetState() != test.wantState || got.GetAbortReason() != test.wantAbort {
				t.Errorf("%s %q, want %s %q", got.GetState(), got.GetAbortReason(), test.wantState, test.wantAbort)
			}
			if got.GetRerun() != test.wantRerun || got.GetAcknowledged() != test.wantSaved {
				t.Errorf("rerun %t, acknowledged %t; want %t, %t", got.GetRerun(), got.GetAcknowledged(), test.wantRerun, test.wantSaved)
			}
			if !proto.Equal(got.GetStop(), test.wantOrder) {
				t.Errorf("ended under %v, want %v", got.GetStop(), test.wantOrder)
			}
			if (got.GetState() == "completed") && got.GetError() != nil {
				t.Errorf("a job that completed has an error: %v", got.GetError())
			}
		})
	}
}
