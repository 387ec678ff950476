package api

import (
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// reads starts a map operation of two jobs, j1 and j2, over two files.
func (s *site) reads() (operation string) {
	s.t.Helper()
	body := `{"spec": {"type": "map", "input_paths": ["/data/"], "output_path": "/out", "max_skipped_records": 1, "mapper": {"command": ["cat"]}}}`
	operation = at(s.t, s.get("OperationService/Start", body), "operation_id").(string)
	size := &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1 << 20}
	grants := &commandpb.StartAllocations{Term: 1}
	for _, job := range []string{"j1", "j2"} {
		grants.Grants = append(grants.Grants, &commandpb.Grant{JobId: job, OperationId: operation, Task: "mapper", Node: "n1", NodeIncarnation: 1, Resources: size})
	}
	s.must(
		&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n1", Incarnation: 1, Resources: &statepb.Resources{UserSlots: 10, CpuHundredths: 1000, Memory: 1 << 30}}},
		&commandpb.AdvanceOperation{OperationId: operation, Term: 1, From: "starting", To: "waiting_for_agent"},
		&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: operation, Replica: "r1", Epoch: 1}}},
		&commandpb.PrepareOperation{OperationId: operation, Epoch: 1, Input: &statepb.Input{
			Files: []*statepb.InputFile{{Path: "/data/a", Size: 100}, {Path: "/data/b", Size: 50}}, Bytes: 150,
		}},
		&commandpb.AdvanceOperation{OperationId: operation, Term: 1, From: "pending", To: "materializing", Trees: []string{"default"}},
		&commandpb.DefineTasks{OperationId: operation, Epoch: 1, Tasks: []*commandpb.TaskDefinition{{
			Name: "mapper", JobCount: 2, JobResources: size, Slices: []*statepb.Slices{{Slices: []*statepb.Slice{{File: 0, End: 100}}}, {Slices: []*statepb.Slice{{File: 1, End: 50}}}},
		}}},
		grants,
	)
	return operation
}

func TestProgressOfMaps(t *testing.T) {
	s := newSite(t)
	op := s.reads()
	reading := at(t, s.get("JobService/Get", `{"job_id": "j1"}`), "job", "input")
	want(t, reading, "/data/a", "slices", 0, "file")
	want(t, reading, "100", "slices", 0, "end")

	s.must(&commandpb.FinishJobs{OperationId: op, Epoch: 1, Jobs: []*statepb.FinishedJob{
		{
			JobId: "j1", State: lifecycle.JobCompleted.String(),
			Input:  &statepb.JobInput{Processed: []*statepb.Slice{{End: 60}}, Rest: []*statepb.Slice{{Begin: 60, End: 100}}, Rows: 6, Bytes: 60, Hash: 7},
			Output: &statepb.JobOutput{Part: "p", Rows: 2, Bytes: 20},
		},
		{
			JobId: "j2", State: lifecycle.JobFailed.String(), Error: &statepb.Error{Message: "it breaks"},
			Skipped: &statepb.SkippedRecord{File: 1, Begin: 0, End: 50, Head: []byte("torn\xff")},
		},
	}})
	got := at(t, s.get("OperationService/Get", `{"operation": "`+op+`"}`), "operation")
	want(t, got, "map", "type")
	want(t, got, "2", "input", "files")
	want(t, got, "150", "input", "bytes")
	progress := at(t, got, "progress", "input")
	want(t, progress, "150", "bytes_total")
	want(t, progress, "110", "bytes")
	want(t, progress, "6", "rows")
	want(t, progress, "1", "skipped_records")
	skipped := at(t, got, "tasks", 0, "input", "skipped", 0)
	want(t, skipped, "/data/b", "file")
	want(t, skipped, "torn�", "head")
	// What was left waits as a job of its own.
	want(t, got, "3", "progress", "total")
	want(t, got, "1", "progress", "pending")

	job := at(t, s.get("JobService/Get", `{"job_id": "j1"}`), "job")
	want(t, job, "60", "input", "slices", 0, "end")
	want(t, job, "40", "input", "rest_bytes")
	want(t, job, "6", "input", "rows")
	want(t, job, "20", "output", "bytes")
}

// TestOutputsAreShown once they are published, and not before.
func TestOutputsAreShown(t *testing.T) {
	s := newSite(t)
	op := s.reads()
	done := &commandpb.FinishJobs{OperationId: op, Epoch: 1}
	for i, job := range []string{"j1", "j2"} {
		read := []*statepb.Slice{{File: int32(i), End: []int64{100, 50}[i]}}
		done.Jobs = append(done.Jobs, &statepb.FinishedJob{
			JobId: job, State: lifecycle.JobCompleted.String(), Input: &statepb.JobInput{Processed: read, Rows: 5, Bytes: read[0].GetEnd()},
			Output: &statepb.JobOutput{Part: job, Rows: 1, Bytes: 10},
		})
	}
	s.must(done)
	named := `{"operation": "` + op + `"}`
	got := at(t, s.get("OperationService/Get", named), "operation").(map[string]any)
	want(t, got, "completing", "state")
	if got["output"] != nil {
		t.Errorf("an output is shown that is not there: %v", got["output"])
	}
	s.must(&commandpb.PublishOutput{OperationId: op, Epoch: 1, Output: &statepb.Output{Path: "/out", Rows: 2, Bytes: 20}})
	for _, shown := range []any{
		at(t, s.get("OperationService/Get", named), "operation"), at(t, s.get("OperationService/List", "{}"), "operations", 0),
	} {
		want(t, shown, "/out", "output", "path")
		want(t, shown, "2", "output", "rows")
		want(t, shown, "10", "progress", "input", "rows")
	}
}

// TestSkippedRecordsKeepTheirFile when the operation has ended, and the list of its input
// is gone.
func TestSkippedRecordsKeepTheirFile(t *testing.T) {
	s := newSite(t)
	op := s.reads()
	s.must(&commandpb.FinishJobs{OperationId: op, Epoch: 1, Jobs: []*statepb.FinishedJob{
		{
			JobId: "j1", State: lifecycle.JobCompleted.String(), Input: &statepb.JobInput{Processed: []*statepb.Slice{{End: 100}}, Rows: 5, Bytes: 100},
			Output: &statepb.JobOutput{Part: "p", Rows: 1, Bytes: 10},
		},
		{
			JobId: "j2", State: lifecycle.JobFailed.String(), Error: &statepb.Error{Message: "it breaks"},
			Skipped: &statepb.SkippedRecord{File: 1, End: 50, Head: []byte("torn")},
		},
	}})
	s.must(
		&commandpb.PublishOutput{OperationId: op, Epoch: 1, Output: &statepb.Output{Path: "/out", Rows: 1, Bytes: 10}},
		&commandpb.AdvanceOperation{OperationId: op, Term: 1, From: "completing", To: "completed"},
	)
	got := at(t, s.get("OperationService/Get", `{"operation": "`+op+`"}`), "operation").(map[string]any)
	if got["input"] != nil {
		t.Fatalf("the input is listed still, in state %v", got["state"])
	}
	want(t, at(t, got, "tasks", 0, "input", "skipped", 0), "/data/b", "file")
}

func TestGangsAreShown(t *testing.T) {
	s := newSite(t)
	body := `{"spec": {"tasks": {"t": {"job_count": 3, "command": ["x"], "gang_options": {"size": 2}}}}}`
	op := s.runAs(body, 3, "j1", "j2", "j3")
	job := func(id string) map[string]any {
		return at(t, s.get("JobService/Get", `{"job_id": "`+id+`"}`), "job").(map[string]any)
	}
	want(t, job("j1"), float64(0), "gang_rank")
	want(t, job("j2"), float64(1), "gang_rank")
	if rank, has := job("j3")["gang_rank"]; has {
		t.Errorf("a job in reserve has rank %v", rank)
	}
	before := at(t, job("j3"), "gang_incarnation").(string)
	s.must(&commandpb.FinishJobs{OperationId: op, Epoch: 1, Jobs: []*statepb.FinishedJob{
		{JobId: "j2", State: lifecycle.JobFailed.String(), Error: &statepb.Error{Message: "it breaks"}},
	}})
	gang := at(t, s.get("OperationService/Get", `{"operation": "`+op+`"}`), "operation", "tasks", 0, "gang")
	want(t, gang, float64(2), "size")
	if at(t, gang, "incarnation") == before || at(t, gang, "reason") == "" {
		t.Errorf("a gang that has lost a rank is %v, before incarnation %s", gang, before)
	}
	want(t, job("j1"), lifecycle.AbortOperationIncarnationChanged.String(), "stopping")
}
