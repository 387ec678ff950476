package raftstore

import (
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling/lifecycle"
)

func TestTallyCountsEndsAndRefusals(t *testing.T) {
	tally := newTally()
	ended := state.AllocationsEnded{Ended: []state.Ended{
		{Finished: &statepb.FinishedJob{State: "completed"}},
		{Finished: &statepb.FinishedJob{State: "aborted", AbortReason: "node_offline"}},
	}}
	tally.count(&commandpb.FinishJobs{}, &commandpb.Result{Value: &commandpb.Result_FinishJobs{FinishJobs: &commandpb.FinishJobsResult{
		Jobs: []*commandpb.FinishJobResult{{}, {}, {Refusal: state.CodeUnknownAllocation}},
	}}}, []state.Event{ended,
		state.OperationChanged{From: lifecycle.Completing, To: lifecycle.Completed},
		state.OperationChanged{From: lifecycle.Running, To: lifecycle.Running, Suspended: true},
	}, state.New())
	tally.count(&commandpb.BeginTerm{}, &commandpb.Result{Refusal: &commandpb.Refusal{Code: state.CodeStaleTerm}}, nil, state.New())
	for end, want := range map[JobEnd]uint64{{"completed", ""}: 1, {"aborted", "node_offline"}: 1, {"failed", ""}: 0} {
		if got := tally.Jobs[end]; got != want {
			t.Errorf("jobs %v: got %d, want %d", end, got, want)
		}
	}
	for refusal, want := range map[Refusal]uint64{{"FinishJobs", state.CodeUnknownAllocation}: 1, {"BeginTerm", state.CodeStaleTerm}: 1} {
		if got := tally.Refusals[refusal]; got != want {
			t.Errorf("refusals %v: got %d, want %d", refusal, got, want)
		}
	}
	if len(tally.Operations) != 1 || tally.Operations["completed"] != 1 {
		t.Errorf("operations: got %v, want one completed", tally.Operations)
	}
	copied := tally.clone()
	tally.Operations["failed"]++
	if copied.Operations["failed"] != 0 {
		t.Error("a clone changes with its original")
	}
}

// TestTallyCountsWhatJobsLeave counts the input of jobs that completed for good alone: what
// others have read is read again.
func TestTallyCountsWhatJobsLeave(t *testing.T) {
	job := func(end lifecycle.JobState, change func(*statepb.FinishedJob)) state.Ended {
		finished := &statepb.FinishedJob{
			State: end.String(), Sample: &statepb.MemorySample{User: 0.5}, Input: &statepb.JobInput{Rows: 3, Bytes: 30}, Output: &statepb.JobOutput{Rows: 1, Bytes: 10},
		}
		if change != nil {
			change(finished)
		}
		return state.Ended{Finished: finished}
	}
	tally := newTally()
	tally.count(&commandpb.FinishJobs{}, nil, []state.Event{
		state.AllocationsEnded{Ended: []state.Ended{
			job(lifecycle.JobCompleted, nil), job(lifecycle.JobCompleted, nil),
			job(lifecycle.JobCompleted, func(j *statepb.FinishedJob) { j.Rerun = true }),
			job(lifecycle.JobAborted, nil),
			job(lifecycle.JobFailed, func(j *statepb.FinishedJob) { j.Sample = nil }),
		}},
		state.GangRestarted{}, state.RecordSkipped{}, state.RecordSkipped{},
	}, state.New())
	want := DataTally{ReadRows: 6, ReadBytes: 60, WrittenRows: 2, WrittenBytes: 20, SkippedRows: 2}
	if tally.Samples != 4 || tally.GangRestarts != 1 || tally.Data != want {
		t.Errorf("got %d samples, %d restarts, %+v, want 4, 1, %+v", tally.Samples, tally.GangRestarts, tally.Data, want)
	}
}

func TestTallyCountsInterruptions(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	byUser := &statepb.StopOrder{Reason: "interruption_timeout", Interruption: "user_request", GraceMillis: 10_000, Time: timestamppb.New(began)}
	after := func(d time.Duration, job *statepb.FinishedJob) state.Ended {
		job.Stop, job.FinishTime = byUser, timestamppb.New(began.Add(d))
		return state.Ended{Finished: job}
	}
	tally := newTally()
	tally.count(&commandpb.FinishJobs{}, nil, []state.Event{state.AllocationsEnded{Ended: []state.Ended{
		after(time.Second, &statepb.FinishedJob{State: "completed"}),
		after(time.Second, &statepb.FinishedJob{State: "completed", Rerun: true}),
		after(time.Second, &statepb.FinishedJob{State: "failed"}),
		after(time.Second, &statepb.FinishedJob{State: "aborted", AbortReason: "interruption_timeout", Acknowledged: true}),
		after(11*time.Second, &statepb.FinishedJob{State: "aborted", AbortReason: "interruption_timeout"}),
		after(16*time.Second, &statepb.FinishedJob{State: "aborted", AbortReason: "interruption_timeout"}),
		after(time.Second, &statepb.FinishedJob{State: "aborted", AbortReason: "node_offline"}),
		{Finished: &statepb.FinishedJob{State: "completed"}},
		{Finished: &statepb.FinishedJob{State: "aborted", AbortReason: "user_request", Stop: &statepb.StopOrder{Reason: "user_request"}}},
	}}}, state.New())
	want := map[Interruption]uint64{
		{"user_request", "completed"}: 1, {"user_request", "rerun"}: 1, {"user_request", "failed"}: 1, {"user_request", "acknowledged"}: 1,
		{"user_request", "timeout"}: 2, {"user_request", "lost"}: 1,
	}
	if !maps.Equal(tally.Interruptions, want) || tally.Overruns != 1 {
		t.Errorf("got %v and %d overruns, want %v and 1", tally.Interruptions, tally.Overruns, want)
	}
}

// TestTallyCountsPreemptions has jobs of a pool that stays go for others, and those of
// pools that come and go with operations: these are counted together.
func TestTallyCountsPreemptions(t *testing.T) {
	s := state.New()
	for i, cmd := range []proto.Message{
		poolCreation("ads"),
		&commandpb.StartOperation{OperationId: "op", User: "ann", Time: timestamppb.New(time.Unix(1, 0)), Spec: &statepb.OperationSpec{
			Type: "vanilla", Pool: "anns", Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 1, Argv: []string{"true"}}},
		}},
	} {
		if result, _ := s.Apply(uint64(i+1), cmd); result.GetRefusal() != nil {
			t.Fatalf("%T: %s", cmd, result.GetRefusal().GetMessage())
		}
	}
	tally := newTally()
	ordered := state.StopsOrdered{Allocations: []*statepb.Allocation{{JobId: "a", Pool: "ads"}, {JobId: "b", Pool: "ads"}, {JobId: "d", Pool: "anns"}}}
	preempt := &commandpb.PreemptAllocations{Tree: "default"}
	for _, job := range []string{"a", "b", "c", "d"} {
		preempt.Preemptions = append(preempt.Preemptions, &commandpb.Preemption{JobId: job, Order: &statepb.StopOrder{Preemption: "graceful_preemption"}})
	}
	tally.count(preempt, nil, []state.Event{ordered}, s)
	tally.count(&commandpb.StopJobs{}, nil, []state.Event{ordered}, s)
	want := map[Preemption]uint64{{"default", "ads", "graceful_preemption"}: 2, {"default", EphemeralPools, "graceful_preemption"}: 1}
	if !maps.Equal(tally.Preemptions, want) {
		t.Errorf("got %v, want %v", tally.Preemptions, want)
	}
}

func TestStatsTellOfBatchesAndRefusals(t *testing.T) {
	c := startCluster(t, 1, nil)
	c.propose(createPool(t, testPool), createPool(t, testPool))
	stats := c.leader().Stats()
	if !stats.Leader || stats.Batches.Entries == 0 || stats.Batches.Commands < 2 || stats.Batches.UpTo[512] != stats.Batches.Entries {
		t.Errorf("got leader %v, batches %+v", stats.Leader, stats.Batches)
	}
	if got := stats.Tally.Refusals[Refusal{"EditTree", state.CodePoolExists}]; got != 1 {
		t.Errorf("got %d refusals, want 1 in %v", got, stats.Tally.Refusals)
	}
	if stats.Disk.RecentWorst == 0 || stats.Disk.RecentWorst > stats.Disk.Worst {
		t.Errorf("recent worst %v, worst %v", stats.Disk.RecentWorst, stats.Disk.Worst)
	}
}

func TestRecentWorstForgets(t *testing.T) {
	var r recentWorst
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.add(begin, time.Second)
	r.add(begin, time.Millisecond)
	for _, step := range []struct {
		after time.Duration
		want  time.Duration
	}{{0, time.Second}, {recentPeriod - 1, time.Second}, {recentPeriod, time.Second}, {2*recentPeriod - 1, time.Second}, {2 * recentPeriod, 0}, {9 * recentPeriod, 0}} {
		if got := r.worst(begin.Add(step.after)); got != step.want {
			t.Errorf("after %v: got %v, want %v", step.after, got, step.want)
		}
	}
}
