package raftstore

import (
	"testing"
	"time"

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
	})
	tally.count(&commandpb.BeginTerm{}, &commandpb.Result{Refusal: &commandpb.Refusal{Code: state.CodeStaleTerm}}, nil)
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
