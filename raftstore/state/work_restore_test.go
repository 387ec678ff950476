package state

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// TestWorkThatIsWrong spoils the records of a snapshot in one place.
func TestWorkThatIsWrong(t *testing.T) {
	type records = []*statepb.Record
	frozen := working(t).state.Freeze()
	taskOf := func(r records, id string) *statepb.Task { return operationRecord(r, id).GetTasks()[0] }
	for story, test := range map[string]struct {
		spoil func(records)
		want  string
	}{
		"a byte that nobody reads":        {func(r records) { taskOf(r, "map").Slices[0].Slices[0].End-- }, `input 0, "a"`},
		"a byte that was read twice":      {func(r records) { taskOf(r, "written").Parts[0].Slices[0].Begin++ }, "of 50 bytes have been read, but counted as"},
		"bytes that nobody counted":       {func(r records) { taskOf(r, "written").Input.Bytes-- }, "50 of 50 bytes have been read, but counted as 49 of 50"},
		"no input":                        {func(r records) { operationRecord(r, "map").Input = nil }, "bytes have been read, but counted as 0 of 50"},
		"no progress":                     {func(r records) { taskOf(r, "written").Input = nil }, "but the operation is of type"},
		"a cookie that reads nothing":     {func(r records) { delete(taskOf(r, "map").Slices, 0) }, "2 cookies, but 1 have input to read and 0 have completed"},
		"a cookie that is none":           {func(r records) { t := taskOf(r, "map"); t.Slices[7] = t.Slices[0]; delete(t.Slices, 0) }, "cookie 7 of 2 is out of range, but reads"},
		"a part of what is not done":      {func(r records) { t := taskOf(r, "map"); t.Parts = append(t.Parts, &statepb.CompletedPart{}) }, "is not completed"},
		"records left out that are none":  {func(r records) { t := taskOf(r, "map"); t.Skipped = []*statepb.SkippedRecord{{}} }, "1 skipped records are listed, but 0 have been counted"},
		"output of what has none":         {func(r records) { operationRecord(r, "gang").Output = &statepb.Output{} }, `of an operation of type "vanilla"`},
		"no gang":                         {func(r records) { taskOf(r, "gang").Gang = nil }, "want size 2"},
		"a rank that is none":             {func(r records) { taskOf(r, "gang").Gang.Completed = []*statepb.Interval{{Begin: 2, End: 3}} }, "completed rank 2 is not in a gang of 2"},
		"ranks out of order":              {func(r records) { taskOf(r, "gang").Gang.Completed = []*statepb.Interval{{Begin: 2, End: 1}} }, "gang: cookie interval 0"},
		"a rank that two have":            {func(r records) { allocationRecord(r, "gang-1").GangRank = proto.Int32(0) }, "which is out of range or held by another job"},
		"a rank that completed, and runs": {func(r records) { taskOf(r, "gang").Gang.Completed = []*statepb.Interval{{Begin: 1, End: 2}} }, `job "gang-1" has rank 1 of 2, which is out of range or held by another job`},
		"samples that nobody counted":     {func(r records) { taskOf(r, "over").Memory.SampleCount = 0 }, "1 memory samples wait, but 0 have been counted"},
		"a reserve of no bytes":           {func(r records) { taskOf(r, "over").Memory.Reserve = &statepb.JobReserve{} }, "0 bytes in all"},
		"a cookie's reserve of no bytes":  {func(r records) { taskOf(r, "over").Reserves[1] = &statepb.CookieReserve{} }, "cookie 1: memory reserve: 0 bytes"},
		"a reserve of no cookie":          {func(r records) { t := taskOf(r, "over"); t.Reserves[9] = t.Reserves[0] }, "cookie 9 has a reserve of its own, but does not run again"},
		"a profile twice":                 {func(r records) { r[1].Record = r[len(r)-2].GetRecord() }, "comes twice"},
		"a profile without a key":         {func(r records) { r[len(r)-2].GetProfile().Key = "" }, `memory profile ""`},
		"more profiles than may be":       {func(r records) { r[0].GetHeader().Limits.MemoryProfiles = -1 }, "limit memory_profiles is -1"},
	} {
		t.Run(story, func(t *testing.T) {
			spoiled := recordsOf(t, frozen)
			test.spoil(spoiled)
			if _, err := restore(spoiled); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to say %q", err, test.want)
			}
		})
	}
}

// TestVerifySeesWorkThatIsWrong spoils what a restore makes anew.
func TestVerifySeesWorkThatIsWrong(t *testing.T) {
	workOf := func(s *State, id scheduling.OperationID) *work { return &s.operations[id].tasks[0] }
	for story, test := range map[string]struct {
		spoil func(*State)
		want  string
	}{
		"a cookie in another group":    {func(s *State) { w := workOf(s, "over"); w.pending.add(7, mustPop(t, &w.pending, 2000)) }, "cookie 0 waits in group 7, but its reserve is 2000"},
		"a cookie without its reserve": {func(s *State) { w := workOf(s, "over"); w.pending.add(2000, mustPop(t, &w.pending, 0)) }, "waits in group 2000 without a reserve"},
		"an empty group":               {func(s *State) { workOf(s, "over").pending.dedicated[0].memory = -1 }, "need -1 bytes"},
		"a free rank that runs":        {func(s *State) { workOf(s, "gang").gang.free.Add(0) }, "are free"},
		"a stale job that is none":     {func(s *State) { workOf(s, "gang").gang.stale++ }, "jobs are of earlier incarnations"},
		"slices too few":               {func(s *State) { w := workOf(s, "map"); w.slices = w.slices[1:] }, "1 cookies have slices, but the task has 2"},
		"slices of what is completed":  {func(s *State) { w := workOf(s, "written"); w.slices[0] = slicesOf() }, "cookie 0: completed: true"},
		"a part too few":               {func(s *State) { w := workOf(s, "written"); w.parts = w.parts[1:] }, "1 parts, but 2 completed cookies"},
		"slices of what reads nothing": {func(s *State) { workOf(s, "gang").slices = []*statepb.Slices{nil} }, "the operation has no input or has ended"},
		"the input in the record":      {func(s *State) { s.operations["map"].record.Input = &statepb.Input{} }, "its input is in the record itself"},
		"a profile under another key":  {func(s *State) { s.profiles["q"] = s.profiles["p"] }, `memory profile "q": its record has key "p"`},
		"too many profiles":            {func(s *State) { s.limits = proto.CloneOf(s.limits); s.limits.MemoryProfiles = 0 }, "1 memory profiles, the limit is 0"},
	} {
		t.Run(story, func(t *testing.T) {
			j := working(t)
			test.spoil(j.state)
			if err := j.state.Verify(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to say %q", err, test.want)
			}
		})
	}
}

func mustPop(t *testing.T, q *queue, group int64) scheduling.Cookie {
	t.Helper()
	c, ok := q.pop(group)
	if !ok {
		t.Fatalf("nothing waits in group %d", group)
	}
	return c
}

// TestRecordsOfOldAreRead restores a state whose records know nothing of reserves, inputs
// and gangs, and goes on with it.
func TestRecordsOfOldAreRead(t *testing.T) {
	j := busy(t)
	records := recordsOf(t, j.state.Freeze())
	records[0].GetHeader().Limits.MemoryProfiles = 0
	restored, err := restore(records)
	if err != nil {
		t.Fatal(err)
	}
	if got := restored.Limits().GetMemoryProfiles(); got != DefaultLimits().GetMemoryProfiles() {
		t.Errorf("limit of memory profiles %d", got)
	}
	j.state = restored
	j.must(&commandpb.FinishJobs{OperationId: "ann", Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "ann-0", State: "completed", Sample: &statepb.MemorySample{User: 0.5}}}},
		&commandpb.UpdateReserves{OperationId: "ann", Epoch: 1, Tasks: []*commandpb.TaskReserve{{Task: "t", Samples: 1, Reserve: &statepb.JobReserve{User: 300}}}})
	if task := j.operation("ann").GetTasks()[0]; task.GetJobResources().GetMemory() != 300 || task.GetMemory().GetSampleCount() != 1 {
		t.Errorf("an operation of old does not learn: %v", task)
	}
}

// TestFrozenWorkStays reads a snapshot of work while commands go on with it.
func TestFrozenWorkStays(t *testing.T) {
	j := working(t)
	measured := func(job string) *commandpb.FinishJobs {
		return &commandpb.FinishJobs{OperationId: "over", Epoch: 1, Jobs: []*statepb.FinishedJob{
			{JobId: job, State: "failed", Statistics: &statepb.JobStatistics{Values: map[string]int64{"time/exec": 1}}}}}
	}
	j.start("over", "x")
	j.must(measured("over-1"))
	frozen := j.state.Freeze()
	want := bytesOf(t, frozen)
	read := make(chan []byte)
	go func() { read <- bytesOf(t, frozen) }()
	j.must(&commandpb.FinishJobs{OperationId: "map", Epoch: 1, Jobs: []*statepb.FinishedJob{{
		JobId: "map-0", State: "completed", Statistics: &statepb.JobStatistics{Values: map[string]int64{"time/exec": 1}},
		Input: &statepb.JobInput{Processed: []*statepb.Slice{slice(0, 0, 9)}, Rest: []*statepb.Slice{slice(0, 9, 30)}},
	}}})
	j.finish("gang", "failed", "gang-0")
	j.must(measured("x"))
	j.must(&commandpb.UpdateReserves{OperationId: "over", Epoch: 1, Tasks: []*commandpb.TaskReserve{{Task: "t", Samples: 1, Reserve: &statepb.JobReserve{User: 300}}}},
		&commandpb.PublishOutput{OperationId: "written", Epoch: 1, Output: &statepb.Output{Path: "out"}},
		&commandpb.AdvanceOperation{OperationId: "written", Term: 1, From: "completing", To: "completed"}, &commandpb.RemoveMemoryProfiles{})
	if got := <-read; string(got) != string(want) || string(bytesOf(t, frozen)) != string(want) {
		t.Error("what is frozen has changed")
	}
	mustRestore(t, j.state.Freeze())
}
