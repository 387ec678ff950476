package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
	"weir/scheduling/slicing"
)

func readOperation(change ...func(*statepb.MapSpec)) *statepb.Operation {
	m := &statepb.MapSpec{InputPaths: []string{"/in/*"}, Format: "lines", DataSizePerJob: 10, OutputPath: "/out", MaxRecordBytes: 100}
	for _, c := range change {
		c(m)
	}
	return &statepb.Operation{Id: "op", Spec: &statepb.OperationSpec{Type: "map", Map: m, Tasks: []*statepb.TaskSpec{{Name: "mapper"}}}}
}

func twoFiles() *statepb.Input {
	return inputRecord([]*statepb.InputFile{{Path: "/in/a", Size: 15}, {Path: "/in/b", Size: 5}})
}

// cuts writes slices as file:begin-end.
func cuts(all ...*statepb.Slice) string {
	var text []string
	for _, s := range all {
		text = append(text, fmt.Sprintf("%d:%d-%d", s.GetFile(), s.GetBegin(), s.GetEnd()))
	}
	return strings.Join(text, " ")
}

func slice(file int32, begin, end int64) *statepb.Slice {
	return &statepb.Slice{File: file, Begin: begin, End: end}
}

func TestCutTellsWhatEachJobReads(t *testing.T) {
	jobs, err := cut(readOperation().GetSpec().GetMap(), twoFiles(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 2 || cuts(jobs[0].GetSlices()...) != "0:0-10" || cuts(jobs[1].GetSlices()...) != "0:10-15 1:0-5" {
		t.Errorf("jobs %v", jobs)
	}
	if _, err := cut(readOperation().GetSpec().GetMap(), twoFiles(), 1); err == nil {
		t.Error("more jobs than may be")
	}
}

func TestInputOfTooManyFiles(t *testing.T) {
	var files []*statepb.InputFile
	for i := range 40000 {
		files = append(files, &statepb.InputFile{Path: fmt.Sprintf("/in/%0100d", i), Size: 1})
	}
	input := inputRecord(files)
	if err := checkSize(input, nil); err == nil || !strings.Contains(err.Error(), "40000 input files") {
		t.Errorf("error %v", err)
	}
	if err := checkSize(twoFiles(), nil); err != nil {
		t.Error(err)
	}
}

func TestPrepared(t *testing.T) {
	step := prepared(readOperation(), 3, twoFiles(), nil)
	if step.GetEpoch() != 3 || step.GetInput().GetBytes() != 20 || step.GetError() != nil {
		t.Errorf("step %v", step)
	}
	step = prepared(readOperation(), 3, twoFiles(), errors.New("no file"))
	if step.GetInput() != nil || step.GetError().GetMessage() != "no file" {
		t.Errorf("step %v", step)
	}
}

func TestFeedOfAJob(t *testing.T) {
	allocation := &statepb.Allocation{JobId: "j", Cookie: 7}
	got, err := feed(readOperation().GetSpec().GetMap(), twoFiles(), []*statepb.Slice{slice(0, 10, 15), slice(1, 0, 5)}, allocation)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetParts()) != 2 || got.GetParts()[1].GetFile().GetPath() != "/in/b" || got.GetOutputPart() != "part-00007-j" || got.GetMaxRecordBytes() != 100 {
		t.Errorf("feed %v", got)
	}
	for name, slices := range map[string][]*statepb.Slice{"a file that is not there": {slice(2, 0, 1)}, "nothing": nil} {
		if _, err := feed(readOperation().GetSpec().GetMap(), twoFiles(), slices, allocation); err == nil {
			t.Errorf("%s is fed", name)
		}
	}
}

func part(cookie int32, name string, bytes int64, slices ...*statepb.Slice) *statepb.CompletedPart {
	p := &statepb.CompletedPart{Cookie: cookie, Slices: slices}
	if name != "" {
		p.Output = &statepb.JobOutput{Part: name, Bytes: bytes, Rows: bytes}
	}
	return p
}

func TestPartsInTheOrderOfTheInput(t *testing.T) {
	all := &statepb.InputProgress{Bytes: 20, BytesTotal: 20}
	tests := map[string]struct {
		parts     []*statepb.CompletedPart
		progress  *statepb.InputProgress
		want      string
		wantError string
	}{
		"whoever was first": {
			parts:    []*statepb.CompletedPart{part(3, "c", 1, slice(1, 0, 5)), part(0, "a", 2, slice(0, 0, 7)), part(9, "b", 3, slice(0, 7, 15))},
			progress: all, want: "a2 b3 c1",
		},
		"a record that was left out has written nothing": {
			parts: []*statepb.CompletedPart{part(0, "", 0, slice(0, 0, 15)), part(1, "b", 1, slice(1, 0, 5))}, progress: all, want: "b1",
		},
		"nothing was read twice": {
			parts: []*statepb.CompletedPart{part(0, "a", 2, slice(0, 0, 9)), part(9, "b", 3, slice(0, 7, 15))}, progress: all, wantError: "was read by two jobs",
		},
		"not all was read": {
			parts: []*statepb.CompletedPart{part(0, "a", 2, slice(0, 0, 9))}, progress: &statepb.InputProgress{Bytes: 9, BytesTotal: 20}, wantError: "9 of 20 input bytes read",
		},
		"nothing to read": {progress: &statepb.InputProgress{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parts, err := inOrder(test.parts, test.progress)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("error %v, want one with %q", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range parts {
				got = append(got, fmt.Sprint(p.Name, p.Bytes))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("parts %q, want %q", got, test.want)
			}
		})
	}
}

func TestPublished(t *testing.T) {
	step := published(readOperation(), 3, []*statepb.CompletedPart{part(0, "a", 2), part(1, "", 0), part(2, "b", 3)}, nil)
	if out := step.GetOutput(); out.GetPath() != "/out" || out.GetBytes() != 5 || out.GetRows() != 5 || step.GetError() != nil {
		t.Errorf("step %v", step)
	}
	step = published(readOperation(), 3, nil, errors.New("disk full"))
	if step.GetOutput() != nil || !strings.Contains(step.GetError().GetMessage(), "disk full") {
		t.Errorf("step %v", step)
	}
}

func TestClassifyRead(t *testing.T) {
	given := []*statepb.Slice{slice(0, 0, 1600)}
	allocation := &statepb.Allocation{JobId: "j"}
	output := &statepb.JobOutput{Part: partName(allocation), Rows: 1, Bytes: 2}
	all := &statepb.JobInput{Processed: given, Rows: 9}
	half := &statepb.JobInput{Processed: []*statepb.Slice{slice(0, 0, 800)}, Rest: []*statepb.Slice{slice(0, 800, 1600)}, Rows: 5}
	failed := func(attributes ...string) *statepb.Error {
		e := &statepb.Error{Message: "exited", Attributes: map[string]string{}}
		for _, a := range attributes {
			e.Attributes[a] = "x"
		}
		return e
	}
	again := suspicion{before: 1}
	tests := map[string]struct {
		job       *statepb.FinishedJob
		format    string
		suspicion suspicion
		// wantState is the job's, with ! when it is fatal and > when it is to run again.
		wantState string
		// wantKept: what it read and wrote counts.
		wantKept, wantLone bool
		wantParts          int
	}{
		"all was read":                         {job: &statepb.FinishedJob{State: "completed", Input: all, Output: output}, wantState: "completed", wantKept: true},
		"a part was read":                      {job: &statepb.FinishedJob{State: "completed", Input: half, Output: output}, wantState: "completed", wantKept: true},
		"nothing was read yet":                 {job: &statepb.FinishedJob{State: "completed", Input: &statepb.JobInput{Rest: given}, Output: output}, wantState: "completed>"},
		"a word about other slices":            {job: &statepb.FinishedJob{State: "completed", Input: &statepb.JobInput{Processed: []*statepb.Slice{slice(0, 0, 99)}}, Output: output}, wantState: "aborted"},
		"a word about another output":          {job: &statepb.FinishedJob{State: "completed", Input: all, Output: &statepb.JobOutput{Part: "other"}}, wantState: "aborted"},
		"no word at all":                       {job: &statepb.FinishedJob{State: "completed"}, wantState: "aborted"},
		"an aborted job has done nothing":      {job: &statepb.FinishedJob{State: "aborted", Input: half, Output: output}, wantState: "aborted"},
		"a failed one neither":                 {job: &statepb.FinishedJob{State: "failed", Pid: 1, Input: half, Error: failed()}, wantState: "failed"},
		"the second one is divided":            {job: &statepb.FinishedJob{State: "failed", Pid: 1, Input: half, Error: failed()}, suspicion: again, wantState: "failed", wantParts: slicing.Ways + 1},
		"also when it says nothing":            {job: &statepb.FinishedJob{State: "failed", Pid: 1, Error: failed()}, suspicion: again, wantState: "failed", wantParts: slicing.Ways},
		"a part of one is divided at once":     {job: &statepb.FinishedJob{State: "failed", Pid: 1, Input: all, Error: failed()}, suspicion: suspicion{divided: true}, wantState: "failed", wantParts: slicing.Ways},
		"one that never began is not":          {job: &statepb.FinishedJob{State: "failed", Input: &statepb.JobInput{Rest: given}, Error: failed()}, suspicion: again, wantState: "failed"},
		"nor bytes without records":            {job: &statepb.FinishedJob{State: "failed", Pid: 1, Input: all, Error: failed()}, format: "bytes", suspicion: again, wantState: "failed"},
		"nor one whose output was not kept":    {job: &statepb.FinishedJob{State: "failed", Pid: 1, Input: all, Error: failed(statepb.AttributeOutputFault)}, suspicion: again, wantState: "failed"},
		"a bad input is bad for all":           {job: &statepb.FinishedJob{State: "failed", Pid: 1, Input: half, Error: failed(statepb.AttributeInputFault)}, wantState: "failed!"},
		"one record alone":                     {job: &statepb.FinishedJob{State: "failed", Pid: 1, Input: &statepb.JobInput{Processed: given, Rows: 1}, Error: failed()}, suspicion: again, wantState: "failed", wantLone: true},
		"agents do not say what is to be done": {job: &statepb.FinishedJob{State: "failed", Pid: 1, Input: half, Error: failed(), Fatal: true, Split: []*statepb.Slices{{}}, Skipped: &statepb.SkippedRecord{}}, wantState: "failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := readOperation(func(m *statepb.MapSpec) {
				if test.format != "" {
					m.Format = test.format
				}
			}).GetSpec().GetMap()
			job := proto.CloneOf(test.job)
			lone := classifyRead(job, m, allocation, given, test.suspicion)
			state := job.GetState()
			if job.GetFatal() {
				state += "!"
			}
			if job.GetRerun() {
				state += ">"
			}
			if state != test.wantState || lone != test.wantLone || len(job.GetSplit()) != test.wantParts || job.GetSkipped() != nil {
				t.Errorf("job %v, lone %t", job, lone)
			}
			if kept := job.GetInput() != nil && job.GetOutput() != nil; kept != test.wantKept || (job.GetInput() != nil) != kept {
				t.Errorf("kept are %v and %v", job.GetInput(), job.GetOutput())
			}
			var whole []*statepb.Slice
			for _, p := range job.GetSplit() {
				whole = append(whole, p.GetSlices()...)
			}
			if len(whole) > 0 && !slicing.Covers(listed(given), listed(whole), nil) {
				t.Errorf("the parts are %s", cuts(whole...))
			}
		})
	}
}

func TestBlame(t *testing.T) {
	told := map[string]string{statepb.AttributeRecordOffset: "20", statepb.AttributeRecordEnd: "30", statepb.AttributeRecordHead: `"bad"`}
	for name, test := range map[string]struct {
		attributes map[string]string
		left       int64
		want       string
	}{
		"it is left out":                     {attributes: told, left: 1, want: "skipped 20-30 bad"},
		"no other may be left out":           {attributes: told, want: `fatal every job fails on the record at byte 20 of /in/a, which begins with "bad": fix it, or set max_skipped_records to skip it`},
		"the job proxy has not told it":      {left: 1, want: "skipped 10-40 "},
		"the job proxy tells of another":     {attributes: map[string]string{statepb.AttributeRecordOffset: "5", statepb.AttributeRecordEnd: "9"}, left: 1, want: "skipped 10-40 "},
		"the head is not quoted as it is to": {attributes: map[string]string{statepb.AttributeRecordOffset: "20", statepb.AttributeRecordEnd: "30", statepb.AttributeRecordHead: "bad"}, left: 1, want: "skipped 20-30 bad"},
	} {
		t.Run(name, func(t *testing.T) {
			job := &statepb.FinishedJob{State: "failed", Error: &statepb.Error{Message: "exited with code 7", Attributes: test.attributes}}
			blame(job, twoFiles().GetFiles()[0], slice(0, 10, 40), test.left)
			got := ""
			if r := job.GetSkipped(); r != nil {
				got = fmt.Sprintf("skipped %d-%d %s", r.GetBegin(), r.GetEnd(), r.GetHead())
			}
			if job.GetFatal() {
				got += "fatal " + job.GetError().GetMessage()
				if job.GetError().GetInner()[0].GetMessage() != "exited with code 7" {
					t.Errorf("error %v", job.GetError())
				}
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if job.GetError().GetAttributes()[statepb.AttributeInputPath] != "/in/a" || job.GetError().GetAttributes()[statepb.AttributeRecordOffset] == "" {
				t.Errorf("attributes %v", job.GetError().GetAttributes())
			}
		})
	}
}

func TestSuspicionsComeBackWithTheRecord(t *testing.T) {
	job := func(cookie int32, state, divided string) *statepb.FinishedJob {
		return &statepb.FinishedJob{Cookie: cookie, State: state, Error: &statepb.Error{Attributes: map[string]string{attrDivided: divided}}}
	}
	finished := []*statepb.FinishedJob{job(1, "failed", ""), job(2, "failed", ""), job(1, "aborted", ""), job(1, "failed", "16"), job(1, "failed", ""), job(2, "failed", "")}
	for cookie, want := range map[int32]suspicion{0: {}, 1: {before: 1, divided: true}, 2: {before: 2}, 9: {divided: true}} {
		if got := suspect(finished, cookie, 5); got != want {
			t.Errorf("cookie %d: %v, want %v", cookie, got, want)
		}
	}
}
