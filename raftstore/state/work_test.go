package state

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// mapOf returns the specification of an operation that reads inputOf and may leave out
// one record.
func mapOf() *statepb.OperationSpec {
	return &statepb.OperationSpec{
		Type: lifecycle.Map, Map: &statepb.MapSpec{MaxSkippedRecords: 1}, MaxFailedJobCount: 10, Tasks: []*statepb.TaskSpec{{Name: "t"}},
	}
}

// prepared leads a map operation along its life until it is materializing.
func (j *journal) prepared(id string) {
	j.t.Helper()
	spec := mapOf()
	j.must(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: spec})
	road := roadOf(id, spec)
	road[2].(*commandpb.PrepareOperation).Input = inputOf(&statepb.Operation{Spec: spec})
	j.must(road[:4]...)
}

// reading returns the definition of a map operation with two jobs.
func reading(id string) *commandpb.DefineTasks {
	return define(id, &commandpb.TaskDefinition{
		Name: "t", JobCount: 2, JobResources: jobSize(), Memory: &statepb.TaskMemory{Profile: "p", Reserve: &statepb.JobReserve{User: 900, Proxy: 100}},
		Slices: []*statepb.Slices{slicesOf(slice(0, 0, 30)), slicesOf(slice(2, 0, 20))},
	})
}

// working is a state with operations that learn, read and run as gangs: "raw" is
// initializing, "cut" materializing, "map" reads, "gang" has two ranks and a job in
// reserve, "over" has a job with a reserve of its own, "written" is completing without
// jobs, and "left" is aborting. There is the profile "old".
func working(t testing.TB) *journal {
	j := newJournal(t)
	j.must(nodeOf("n1", 16))
	j.must(&commandpb.StartOperation{OperationId: "raw", User: "ann", Spec: mapOf()})
	j.must(roadOf("raw", mapOf())[:2]...)
	j.prepared("cut")
	for _, id := range []string{"map", "written", "left"} {
		j.prepared(id)
		j.must(reading(id))
		j.start(id, id+"-0", id+"-1")
	}
	j.finish("map", "failed", "map-1")
	j.finish("written", "completed", "written-0", "written-1")
	j.must(&commandpb.AbortOperation{OperationId: "left", User: "ann"})
	gang := specOf(3)
	gang.Tasks[0].Gang = &statepb.GangSpec{Size: 2}
	j.run("gang", gang)
	j.start("gang", "gang-0", "gang-1", "gang-2")
	j.run("over", specOf(3))
	j.start("over", "over-0", "over-1")
	j.must(&commandpb.FinishJobs{OperationId: "over", Epoch: 1, Jobs: []*statepb.FinishedJob{{
		JobId: "over-0", State: "aborted", AbortReason: "resource_overdraft", Sample: &statepb.MemorySample{User: 0.5},
		NextReserve: &statepb.CookieReserve{Reserve: &statepb.JobReserve{User: 2000}},
	}}})
	j.must(&commandpb.SaveMemoryProfiles{OperationId: "left", Epoch: 1, Profiles: []*commandpb.SavedProfile{
		{Task: "t", Profile: &statepb.MemoryProfile{Key: "p", SampleCount: 5}}}})
	return j
}

func TestWorkThatIsRefused(t *testing.T) {
	prepare := func(in *statepb.Input) *commandpb.PrepareOperation {
		return &commandpb.PrepareOperation{OperationId: "raw", Epoch: 1, Input: in}
	}
	cut := func(change func(*commandpb.TaskDefinition)) *commandpb.DefineTasks {
		m := reading("cut")
		change(m.GetTasks()[0])
		return m
	}
	learn := func(r *commandpb.TaskReserve) *commandpb.UpdateReserves {
		return &commandpb.UpdateReserves{OperationId: "over", Epoch: 1, Tasks: []*commandpb.TaskReserve{r}}
	}
	save := func(id string, p *commandpb.SavedProfile) *commandpb.SaveMemoryProfiles {
		return &commandpb.SaveMemoryProfiles{OperationId: id, Epoch: 1, Profiles: []*commandpb.SavedProfile{p}}
	}
	profile := func(key string, samples int64) *statepb.MemoryProfile {
		return &statepb.MemoryProfile{Key: key, SampleCount: samples}
	}
	checkRefusalsOf(t, working, map[string]refused{
		"a map without an input": {startWith(func(s *statepb.OperationSpec) { s.Type = "map" }), CodeInvalidSpec, "must have exactly one task, the mapper, and an input: it has"},
		"a map of two tasks": {startWith(func(s *statepb.OperationSpec) {
			s.Type, s.Map, s.Tasks = lifecycle.Map, &statepb.MapSpec{}, append(s.Tasks, &statepb.TaskSpec{Name: "u", JobCount: 1})
		}), CodeInvalidSpec, "it has 2"},
		"less than none left out":   {startWith(func(s *statepb.OperationSpec) { s.Map = &statepb.MapSpec{MaxSkippedRecords: -1} }), CodeInvalidSpec, "max_skipped_records -1 is negative"},
		"a gang greater than it is": {startWith(func(s *statepb.OperationSpec) { s.Tasks[0].Gang = &statepb.GangSpec{Size: 2} }), CodeInvalidSpec, "size 2: it must be from 1 to job_count, 1"},
		"a gang that never ends": {startWith(func(s *statepb.OperationSpec) {
			s.Tasks[0].Gang = &statepb.GangSpec{Size: 1}
			s.Tasks[0].RestartCompletedJobs = true
		}), CodeInvalidSpec, "gang_options are not allowed with restart_completed_jobs or in an operation of type"},
		"a map that never ends": {startWith(func(s *statepb.OperationSpec) {
			s.Type, s.Map, s.Tasks[0].RestartCompletedJobs = "map", &statepb.MapSpec{}, true
		}), CodeInvalidSpec, "done when their input is read"},
		"no input for a map":          {prepare(nil), CodeInvalidCommand, "it has no input, but an operation of type map needs one"},
		"a file of less than nothing": {prepare(&statepb.Input{Files: []*statepb.InputFile{{Path: "a", Size: -1}}}), CodeInvalidCommand, `input "a": size of -1 bytes is negative`},
		"bytes that are in no file":   {prepare(&statepb.Input{Bytes: 1}), CodeInvalidCommand, "the input has 1 bytes, but its files have 0"},
		"more than can be counted": {prepare(&statepb.Input{Bytes: math.MaxInt64, Files: []*statepb.InputFile{{Size: math.MaxInt64}, {Size: 1}}}),
			CodeInvalidCommand, "its files have"},
		"a byte that nobody reads":        {cut(func(d *commandpb.TaskDefinition) { d.Slices[0].Slices[0].End-- }), CodeInvalidCommand, `input 0, "a": slice {2[0, 20)}`},
		"a byte that two read":            {cut(func(d *commandpb.TaskDefinition) { d.Slices[1].Slices[0].Begin = 0; d.Slices[1].Slices[0].File = 0 }), CodeInvalidCommand, "slice"},
		"a file that is none":             {cut(func(d *commandpb.TaskDefinition) { d.Slices[1].Slices = append(d.Slices[1].Slices, slice(3, 0, 1)) }), CodeInvalidCommand, "input of 3 files"},
		"bytes behind the last":           {cut(func(d *commandpb.TaskDefinition) { d.Slices[1].Slices[0].End++ }), CodeInvalidCommand, "but it has only 20 bytes"},
		"a job without anything":          {cut(func(d *commandpb.TaskDefinition) { d.JobCount++; d.Slices = append(d.Slices, slicesOf()) }), CodeInvalidCommand, "cookie 2 has nothing to read"},
		"a job too many":                  {cut(func(d *commandpb.TaskDefinition) { d.JobCount++ }), CodeInvalidCommand, "job_count is 3, but 2 jobs have slices"},
		"samples before a job":            {cut(func(d *commandpb.TaskDefinition) { d.Memory.SampleCount = 1 }), CodeInvalidCommand, "before any job has run"},
		"saved before a job":              {cut(func(d *commandpb.TaskDefinition) { d.Memory.Saved = true }), CodeInvalidCommand, "nothing has been learned yet"},
		"a reserve of nothing":            {cut(func(d *commandpb.TaskDefinition) { d.Memory.Reserve = &statepb.JobReserve{} }), CodeInvalidCommand, "0 bytes in all"},
		"a reserve below nothing":         {cut(func(d *commandpb.TaskDefinition) { d.Memory.Reserve.User = -1 }), CodeInvalidCommand, "-1 bytes for the job or its proxy: must not be negative"},
		"a factor that is none":           {cut(func(d *commandpb.TaskDefinition) { d.Memory.Reserve.UserFactor = math.NaN() }), CodeInvalidCommand, "factor NaN must be finite and not negative"},
		"a digest that is a book":         {cut(func(d *commandpb.TaskDefinition) { d.Memory.UserDigest = make([]byte, maxDigest+1) }), CodeInvalidCommand, "bytes: the limit is 1048576"},
		"reserves of no task":             {learn(&commandpb.TaskReserve{Task: "u"}), CodeUnknownTask, `no task "u"`},
		"reserves of a task, twice":       {&commandpb.UpdateReserves{OperationId: "over", Epoch: 1, Tasks: []*commandpb.TaskReserve{{Task: "t"}, {Task: "t"}}}, CodeInvalidCommand, `task "t" comes twice`},
		"samples of the future":           {learn(&commandpb.TaskReserve{Task: "t", Samples: 2}), CodeInvalidCommand, "its digests have 2 samples, but there have been only 1"},
		"digests of the past":             {learn(&commandpb.TaskReserve{Task: "t", Samples: -1}), CodeStaleDigest, "samples, but those in the state have 0: start from the state"},
		"a learned reserve below nothing": {learn(&commandpb.TaskReserve{Task: "t", Reserve: &statepb.JobReserve{Proxy: -1}}), CodeInvalidCommand, "negative"},
		"a learned digest that is a book": {learn(&commandpb.TaskReserve{Task: "t", ProxyDigest: make([]byte, maxDigest+1)}), CodeInvalidCommand, "1048576"},
		"reserves of another epoch":       {&commandpb.UpdateReserves{OperationId: "over", Epoch: 2}, CodeStaleEpoch, "epoch 2"},
		"a profile while it runs":         {save("over", &commandpb.SavedProfile{Task: "t"}), CodeInvalidOperationState, "it is running"},
		"a profile of no task":            {save("written", &commandpb.SavedProfile{Task: "u"}), CodeUnknownTask, `no task "u"`},
		"a profile of another":            {save("written", &commandpb.SavedProfile{Task: "t", Profile: profile("q", 9)}), CodeInvalidCommand, `its profile is "p", not "q"`},
		"a profile read long ago":         {save("written", &commandpb.SavedProfile{Task: "t", Profile: profile("p", 9)}), CodeStaleProfile, `has 5 samples, not 0`},
		"a profile that forgets":          {save("written", &commandpb.SavedProfile{Task: "t", ExpectedSampleCount: 5, Profile: profile("p", 4)}), CodeInvalidCommand, "would drop to 4 samples from 5"},
		"a profile that is a book": {save("written", &commandpb.SavedProfile{Task: "t", ExpectedSampleCount: 5,
			Profile: &statepb.MemoryProfile{Key: "p", SampleCount: 5, UserDigest: make([]byte, maxDigest+1)}}), CodeInvalidCommand, "1048576"},
		"a task's profile twice": {&commandpb.SaveMemoryProfiles{OperationId: "written", Epoch: 1, Profiles: []*commandpb.SavedProfile{
			{Task: "t", ExpectedSampleCount: 5, Profile: profile("p", 6)}, {Task: "t", ExpectedSampleCount: 6, Profile: profile("p", 7)}}}, CodeInvalidCommand, `task "t" comes twice`},
		"an unknown profile":          {&commandpb.RemoveMemoryProfiles{Keys: []string{"p", "q"}}, CodeUnknownProfile, `no profile "q"`},
		"the output of what runs":     {&commandpb.PublishOutput{OperationId: "map", Epoch: 1, Output: &statepb.Output{}}, CodeInvalidOperationState, "it is running, not completing"},
		"the output of what has none": {&commandpb.PublishOutput{OperationId: "gang", Epoch: 1, Output: &statepb.Output{}}, CodeInvalidCommand, `an operation of type "vanilla" has no output`},
		"no output":                   {&commandpb.PublishOutput{OperationId: "written", Epoch: 1}, CodeInvalidCommand, "neither an output nor an error"},
		"an end without the output": {&commandpb.AdvanceOperation{OperationId: "written", Term: 1, From: "completing", To: "completed"},
			CodeOutputNotPublished, "has not published the output yet"},
	})
}

// TestOutputWaitsForJobs completes an operation by hand while a job of it runs.
func TestOutputWaitsForJobs(t *testing.T) {
	j := working(t)
	j.must(&commandpb.CompleteOperation{OperationId: "map", User: "ann"})
	publish := &commandpb.PublishOutput{OperationId: "map", Epoch: 1, Output: &statepb.Output{Path: "out"}}
	result, _ := j.apply(publish)
	if got := result.GetRefusal().GetCode(); got != CodeAllocationsLeft {
		t.Fatalf("got %v, want %s", result, CodeAllocationsLeft)
	}
	j.finish("map", "completed", "map-0")
	j.must(proto.CloneOf(publish), &commandpb.AdvanceOperation{OperationId: "map", Term: 1, From: "completing", To: "completed"})
}

func TestEndsThatAreRefused(t *testing.T) {
	processed := func(done ...*statepb.Slice) *statepb.JobInput { return &statepb.JobInput{Processed: done} }
	for story, test := range map[string]struct {
		operation   string
		job         *statepb.FinishedJob
		wantCode    string
		wantMessage string
	}{
		"an input of a job that reads nothing": {"over", &statepb.FinishedJob{JobId: "over-1", State: "completed", Input: &statepb.JobInput{}}, CodeInvalidCommand, "its operation has none"},
		"a completed job that fails all":       {"over", &statepb.FinishedJob{JobId: "over-1", State: "completed", Fatal: true}, CodeInvalidCommand, "it is marked as fatal, but is"},
		"a sample that is no number": {"over", &statepb.FinishedJob{JobId: "over-1", State: "completed", Sample: &statepb.MemorySample{User: math.Inf(1)}},
			CodeInvalidCommand, "must be finite and not negative"},
		"a next reserve of nothing": {"over", &statepb.FinishedJob{JobId: "over-1", State: "aborted", AbortReason: "resource_overdraft", NextReserve: &statepb.CookieReserve{}},
			CodeInvalidCommand, "0 bytes in all"},
		"a byte less than was given":    {"map", &statepb.FinishedJob{JobId: "map-0", State: "completed", Input: processed(slice(0, 0, 29))}, CodeInvalidCommand, "but was given"},
		"a byte of another":             {"map", &statepb.FinishedJob{JobId: "map-0", State: "completed", Input: processed(slice(0, 0, 31))}, CodeInvalidCommand, "but was given"},
		"there and back":                {"map", &statepb.FinishedJob{JobId: "map-0", State: "completed", Input: processed(slice(0, 0, 30), slice(0, 30, 20), slice(0, 20, 30))}, CodeInvalidCommand, "but was given"},
		"a split that loses a byte":     {"map", &statepb.FinishedJob{JobId: "map-0", State: "failed", Split: []*statepb.Slices{slicesOf(slice(0, 0, 10)), slicesOf(slice(0, 11, 30))}}, CodeInvalidCommand, "is split into"},
		"a split into nothing":          {"map", &statepb.FinishedJob{JobId: "map-0", State: "failed", Split: []*statepb.Slices{slicesOf(slice(0, 0, 30)), slicesOf(slice(0, 30, 30))}}, CodeInvalidCommand, "its input is split, but part 1 is empty"},
		"a split of what is done":       {"map", &statepb.FinishedJob{JobId: "map-0", State: "completed", Split: []*statepb.Slices{slicesOf(slice(0, 0, 30))}}, CodeInvalidCommand, "only the input of failed jobs"},
		"split and left out at once":    {"map", &statepb.FinishedJob{JobId: "map-0", State: "failed", Split: []*statepb.Slices{slicesOf(slice(0, 0, 30))}, Skipped: &statepb.SkippedRecord{End: 30}}, CodeInvalidCommand, "both split and skipped"},
		"a record of another left out":  {"map", &statepb.FinishedJob{JobId: "map-0", State: "failed", Skipped: &statepb.SkippedRecord{File: 2, End: 20}}, CodeInvalidCommand, "split that first"},
		"a record that ends at once":    {"map", &statepb.FinishedJob{JobId: "map-0", State: "failed", Skipped: &statepb.SkippedRecord{}}, CodeInvalidCommand, "split that first"},
		"empty slices are no news":      {"map", &statepb.FinishedJob{JobId: "map-0", State: "completed", Input: processed(slice(0, 0, 30), slice(0, 30, 30))}, "", ""},
		"what is to run again is whole": {"map", &statepb.FinishedJob{JobId: "map-0", State: "failed", Input: processed(slice(0, 0, 5))}, "", ""},
	} {
		t.Run(story, func(t *testing.T) {
			j := working(t)
			result, _ := j.apply(&commandpb.FinishJobs{OperationId: test.operation, Epoch: 1, Jobs: []*statepb.FinishedJob{test.job}})
			got := result.GetFinishJobs().GetJobs()[0]
			if got.GetRefusal() != test.wantCode || !strings.Contains(got.GetMessage(), test.wantMessage) {
				t.Errorf("got %v, want %s: …%s…", got, test.wantCode, test.wantMessage)
			}
		})
	}
}

// TestSamplesThatWaitAreBounded has a controller that never asks for them.
func TestSamplesThatWaitAreBounded(t *testing.T) {
	s := &statepb.Task{}
	for range maxSamples + 5 {
		learn(s, 0, &statepb.FinishedJob{Sample: &statepb.MemorySample{User: 1}}, true)
	}
	if m := s.GetMemory(); len(m.GetSamples()) != maxSamples || m.GetSampleCount() != maxSamples {
		t.Errorf("%d samples wait of %d, want %d", len(m.GetSamples()), m.GetSampleCount(), maxSamples)
	}
}

// TestWhatIsKeptOfJobs ends many jobs: the latest keep all that was measured, of the
// others there are sums, and no record grows with what a job has read.
func TestWhatIsKeptOfJobs(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 16))
	spec := specOf(1)
	spec.Tasks[0].RestartCompletedJobs = true
	j.run("svc", spec)
	const jobs = keptValues + 20
	for i := range jobs {
		id := fmt.Sprint("job", i)
		j.start("svc", id)
		j.must(&commandpb.FinishJobs{OperationId: "svc", Epoch: 1, Jobs: []*statepb.FinishedJob{
			packed(&statepb.FinishedJob{JobId: id, State: "completed", Statistics: &statepb.JobStatistics{MaxMemory: 1, Values: map[string]int64{"time/exec": int64(i)}}})}})
	}
	finished := j.operation("svc").GetFinishedJobs()
	for i, f := range finished {
		if got, want := len(f.GetStatistics().Measured()) > 0, i >= jobs-keptValues; got != want || f.GetStatistics().GetMaxMemory() != 1 {
			t.Errorf("job %d of %d: all that was measured is kept: %t, want %t", i, len(finished), got, want)
		}
	}
	all := j.state.Statistics("svc")
	if got := all[0].Of("time/exec", "completed"); all[0].Task != "t" || got.Count != jobs || got.Max != jobs-1 || len(got.Buckets) == 0 {
		t.Errorf("statistics %+v", all)
	}
	all[0].Set[0].Counts[0]++
	if err := j.state.Verify(); err != nil || j.state.Statistics("svc")[0].Set[0].Counts[0] == all[0].Set[0].Counts[0] {
		t.Errorf("a reader has changed the state: %v", err)
	}
	many := make([]*statepb.Slice, toldSlices+1)
	for i := range many {
		many[i] = slice(int32(i), 0, 1)
	}
	long := &statepb.FinishedJob{Input: &statepb.JobInput{Processed: many, Rows: 3}, Split: []*statepb.Slices{slicesOf(many...)}}
	told(long)
	if long.GetSplit() != nil || long.GetInput().GetProcessed() != nil || long.GetInput().GetRows() != 3 {
		t.Errorf("the record of a job grows with its input: %v", long)
	}
}

// TestPartsKeepTheReserve has a job with a reserve of its own leave a part of its input,
// and then fail on the rest: whoever reads that gets as much.
func TestPartsKeepTheReserve(t *testing.T) {
	j := working(t)
	end := func(f *statepb.FinishedJob) {
		j.must(&commandpb.FinishJobs{OperationId: "map", Epoch: 1, Jobs: []*statepb.FinishedJob{f}})
	}
	start := func(job string) {
		g := grantOf(job, "map")
		g.DedicatedMemory = 2000
		j.must(&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{g}})
	}
	end(&statepb.FinishedJob{JobId: "map-0", State: "aborted", AbortReason: "resource_overdraft", NextReserve: &statepb.CookieReserve{Reserve: &statepb.JobReserve{User: 2000}}})
	start("a")
	end(&statepb.FinishedJob{JobId: "a", State: "completed", Input: &statepb.JobInput{Processed: []*statepb.Slice{slice(0, 0, 9)}, Rest: []*statepb.Slice{slice(0, 9, 30)}}})
	start("b")
	end(&statepb.FinishedJob{JobId: "b", State: "failed", Split: []*statepb.Slices{slicesOf(slice(0, 9, 12)), slicesOf(slice(0, 12, 20)), slicesOf(slice(0, 20, 30))}})
	want := []DemandChanged{{ID: "map", Task: "t", Pending: 1}, {ID: "map", Task: "t", Group: 2000, Pending: 3}}
	if got := j.state.Demand("map"); !slices.Equal(got, want) {
		t.Errorf("%+v wait, want %+v", got, want)
	}
}

// TestAGangRunsAgainWithWhatItNeeds: a rank that completed with a reserve of its own, and
// has to be done again, gets that again.
func TestAGangRunsAgainWithWhatItNeeds(t *testing.T) {
	j := working(t)
	end := func(f *statepb.FinishedJob) {
		j.must(&commandpb.FinishJobs{OperationId: "gang", Epoch: 1, Jobs: []*statepb.FinishedJob{f}})
	}
	end(&statepb.FinishedJob{JobId: "gang-1", State: "aborted", AbortReason: "resource_overdraft", NextReserve: &statepb.CookieReserve{Reserve: &statepb.JobReserve{User: 2000}}})
	j.finish("gang", "aborted", "gang-0", "gang-2")
	g := grantOf("a", "gang")
	g.DedicatedMemory = 2000
	j.must(&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{g}})
	j.start("gang", "b")
	for job, want := range map[scheduling.JobID]int32{"a": 1, "b": 0} {
		if a, _ := j.state.Allocation(job); a.GetGangRank() != want {
			t.Errorf("job %s has rank %d, want %d as before", job, a.GetGangRank(), want)
		}
	}
	end(&statepb.FinishedJob{JobId: "a", State: "completed"})
	if err := j.state.Verify(); err != nil {
		t.Error(err)
	}
	j.finish("gang", "failed", "b")
	want := []DemandChanged{{ID: "gang", Task: "t", Pending: 2}, {ID: "gang", Task: "t", Group: 2000, Pending: 1}}
	if got := j.state.Demand("gang"); !slices.Equal(got, want) {
		t.Errorf("%+v wait, want %+v", got, want)
	}
}

// TestHistogramsOfOldOperationsGo ends more operations than keep theirs.
func TestHistogramsOfOldOperationsGo(t *testing.T) {
	j := working(t)
	one := &statepb.FinishedJob{JobId: "left-0", State: "completed", Sample: &statepb.MemorySample{User: .5}, Statistics: &statepb.JobStatistics{Values: map[string]int64{"time/exec": 7}}}
	j.must(&commandpb.FinishJobs{OperationId: "left", Epoch: 1, Jobs: []*statepb.FinishedJob{one}},
		&commandpb.AbortAllocations{Term: 1, Reason: "node_offline", JobIds: []string{"left-1"}},
		&commandpb.AdvanceOperation{OperationId: "left", Term: 1, From: "aborting", To: "aborted"})
	for i := range keptHistograms + 1 {
		if got := j.state.Statistics("left")[0].Of("time/exec", "completed"); got.Count != 1 || (len(got.Buckets) == 0) != (i >= keptHistograms) {
			t.Fatalf("after %d others: %+v", i, got)
		}
		id := scheduling.OperationID(fmt.Sprint("x", i))
		j.state.Apply(j.state.LastIndex()+1, &commandpb.StartOperation{OperationId: string(id), User: "bob", Spec: specOf(1)})
		j.state.Apply(j.state.LastIndex()+1, &commandpb.AbortOperation{OperationId: string(id)})
		j.state.Apply(j.state.LastIndex()+1, &commandpb.AdvanceOperation{OperationId: string(id), Term: 1, From: "aborting", To: "aborted"})
	}
	if got := j.state.Statistics("left")[0].Of("time/exec", "completed"); got.Sum != 7 || len(got.Buckets) != 0 {
		t.Errorf("of an old operation: %+v, want its sum without a histogram", got)
	}
	o, _ := j.state.Operation("left")
	if m := o.GetTasks()[0].GetMemory(); m.GetSampleCount() == 0 || len(m.GetSamples())+len(m.GetUserDigest())+len(m.GetProxyDigest()) > 0 {
		t.Errorf("of an old operation: %v, want how much was learned, and not what", m)
	}
	if err := j.state.Verify(); err != nil {
		t.Error(err)
	}
}

// TestWorkIsReadBesideTheRecord asks for what is not in the record of an operation.
func TestWorkIsReadBesideTheRecord(t *testing.T) {
	s := working(t).state
	if o, _ := s.Operation("map"); o.GetInput() != nil || len(o.GetTasks()[0].GetSlices()) > 0 || s.Input("map").GetBytes() != 50 {
		t.Errorf("the input is in the record, or nowhere: %v, %v", o.GetInput(), s.Input("map"))
	}
	if got := s.Slices("map", "t", 1); slicesText(got).String() != "{2[0, 20)}" {
		t.Errorf("cookie 1 reads %s", slicesText(got))
	}
	if got := s.Parts("written", "t"); len(got) != 2 || cap(got) != 2 || slicesText(got[0].GetSlices()).String() != "{0[0, 30)}" {
		t.Errorf("parts %v", got)
	}
	nothing := []bool{
		s.Input("gone") == nil, s.Slices("gone", "t", 0) == nil, s.Slices("map", "u", 0) == nil, s.Slices("map", "t", -1) == nil, s.Slices("map", "t", 2) == nil,
		s.Slices("written", "t", 0) == nil, s.Parts("gone", "t") == nil, s.Statistics("gone") == nil, s.Demand("gone") == nil,
	}
	if slices.Contains(nothing, false) {
		t.Errorf("something is where nothing is: %v", nothing)
	}
	if _, ok := s.Profile("gone"); ok {
		t.Error("found a profile that is not there")
	}
	if p, ok := s.Profile("p"); !ok || p.GetLastOperation() != "left" || len(s.Profiles()) != 1 {
		t.Errorf("profile %v of %v", p, s.Profiles())
	}
}
