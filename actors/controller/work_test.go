package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"weir/cluster/vault"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func sortOperation(state string) *statepb.Operation {
	return &statepb.Operation{
		Id: "op-1", State: state,
		Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{
			Name: "sort", JobCount: 12, Argv: []string{"sort", "-n"}, CpuLimitHundredths: 150, MemoryLimit: 1 << 20,
			JobTimeLimit: durationpb.New(time.Minute), Environment: map[string]string{"LANG": "C", "WEIR_JOB_ID": "forged"},
		}}},
	}
}

func TestNext(t *testing.T) {
	tests := map[string]struct {
		state string
		want  string
	}{
		"an initializing operation is prepared":        {"initializing", "prepare"},
		"a materializing operation gets its tasks":     {"materializing", "define sort x12 user_slots=1 cpu=1.5 memory=11010048"},
		"a pending operation waits for its pool":       {"pending", ""},
		"a running operation needs nothing":            {"running", ""},
		"a finishing operation is the leader's affair": {"failing", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			op := sortOperation(test.state)
			expect := func(task *statepb.TaskSpec) *statepb.TaskMemory {
				known, err := Expect(op.GetSpec(), task, op.GetSpec().MemoryProfileKey(op.GetUser(), task), nil, nil)
				if err != nil {
					t.Error(err)
				}
				return known
			}
			switch m := Next(op, 4, expect).(type) {
			case *commandpb.PrepareOperation:
				got = "prepare"
				if m.GetEpoch() != 4 || !m.GetAdmit() || m.GetTasks()[0].GetJobCount() != 12 {
					t.Errorf("%v, want epoch 4 and 12 jobs that are admitted", m)
				}
			case *commandpb.DefineTasks:
				task := m.GetTasks()[0]
				got = "define " + task.GetName() + " x12 " + task.GetJobResources().Amounts().String()
				if task.GetMemory().GetReserve().Total() != task.GetJobResources().GetMemory() {
					t.Errorf("reserve %v is not what a job is granted", task.GetMemory().GetReserve())
				}
				if m.GetEpoch() != 4 || task.GetJobCount() != 12 {
					t.Errorf("epoch %d, %d jobs; want 4, 12", m.GetEpoch(), task.GetJobCount())
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSpec(t *testing.T) {
	allocation := &statepb.Allocation{JobId: "j1", OperationId: "op-1", Task: "sort", Cookie: 7}
	spec, err := Spec(sortOperation("running"), allocation, []string{"h1:1", "h2:2"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"LANG": "C", "WEIR_OPERATION_ID": "op-1", "WEIR_JOB_ID": "j1", "WEIR_JOB_COOKIE": "7",
		"WEIR_TASK_NAME": "sort", "WEIR_TASK_JOB_COUNT": "12", "WEIR_ADDRESSES": "h1:1,h2:2",
	}
	for name, value := range want {
		if got := spec.GetEnvironment()[name]; got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if len(spec.GetEnvironment()) != len(want) {
		t.Errorf("environment %v, want %v", spec.GetEnvironment(), want)
	}
	if spec.GetJobTimeLimitMillis() != 60000 || spec.GetCpuLimitHundredths() != 150 || spec.GetMemoryLimit() != 1<<20 {
		t.Errorf("limits are lost: %v", spec)
	}
	if _, err := Spec(sortOperation("running"), &statepb.Allocation{JobId: "j1", Task: "merge"}, nil); err == nil || !strings.Contains(err.Error(), `"merge"`) {
		t.Errorf("a task that does not exist: got %v, want an error that names it", err)
	}
}

// TestNamesInPlaces: each job finds and leaves files of its own.
func TestNamesInPlaces(t *testing.T) {
	op := sortOperation("running")
	op.Spec.Tasks[0].Files = []*statepb.FileSpec{
		{Source: "/in/{operation_id}/{task}/{cookie}.csv", Path: "{cookie}.csv"}, {Source: "/opt/tool", Path: "tool", Executable: true},
	}
	op.Spec.Tasks[0].Outputs = []*statepb.KeptFile{{Path: "{cookie}", Destination: "s3://out/{operation_id}/{task}/{cookie}/{job_id}"}}
	spec, err := Spec(op, &statepb.Allocation{JobId: "j1", OperationId: "op-1", Task: "sort", Cookie: 7}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &actorpb.JobSpec{
		Files:   []*actorpb.JobFile{{Source: "/in/op-1/sort/7.csv", Path: "7.csv"}, {Source: "/opt/tool", Path: "tool", Executable: true}},
		Outputs: []*statepb.KeptFile{{Path: "{cookie}", Destination: "s3://out/op-1/sort/7/j1"}},
	}
	if diff := cmp.Diff(want, &actorpb.JobSpec{Files: spec.GetFiles(), Outputs: spec.GetOutputs()}, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestClassify(t *testing.T) {
	allocation := &statepb.Allocation{JobId: "j1", Task: "sort", Cookie: 7, Node: "n1", Attempt: 2}
	tests := map[string]struct {
		job       *statepb.FinishedJob
		stderr    string
		wantState string
		wantAbort string
		wantError string
		wantTail  string
	}{
		"a job that ended well":           {job: &statepb.FinishedJob{State: "completed"}, wantState: "completed"},
		"a job that says it completed":    {job: &statepb.FinishedJob{State: "completed", AbortReason: "other", Error: &statepb.Error{Message: "x"}}, wantState: "completed"},
		"a job that failed keeps its end": {job: &statepb.FinishedJob{State: "failed", ExitCode: 3}, stderr: "boom", wantState: "failed", wantError: "job exited with code 3", wantTail: "boom"},
		"a failure that the node explains": {
			job:       &statepb.FinishedJob{State: "failed", Error: &statepb.Error{Message: "memory limit exceeded", Attributes: map[string]string{"limit": "1"}}},
			wantState: "failed", wantError: "memory limit exceeded",
		},
		"stderr that is no text":     {job: &statepb.FinishedJob{State: "failed"}, stderr: "a\xffb", wantState: "failed", wantError: "job exited with code 0", wantTail: "a\uFFFDb"},
		"an aborted job":             {job: &statepb.FinishedJob{State: "aborted", AbortReason: "user_request"}, wantState: "aborted", wantAbort: "user_request"},
		"an abort without reason":    {job: &statepb.FinishedJob{State: "aborted"}, wantState: "aborted", wantAbort: "job_proxy_failed"},
		"an end that has no meaning": {job: &statepb.FinishedJob{State: "running"}, wantState: "aborted", wantAbort: "job_proxy_failed"},
		"a record of another job":    {job: &statepb.FinishedJob{State: "completed", Task: "x", Cookie: 99, Node: "n9"}, wantState: "completed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sent := proto.CloneOf(test.job)
			got := Classify(&actorpb.JobEnded{Job: sent, StderrTail: []byte(test.stderr)}, allocation, &statepb.TaskSpec{Name: "sort"}, nil)
			if got.GetState() != test.wantState || got.GetAbortReason() != test.wantAbort || got.GetError().GetMessage() != test.wantError {
				t.Errorf("got %s %q %q, want %s %q %q", got.GetState(), got.GetAbortReason(), got.GetError().GetMessage(),
					test.wantState, test.wantAbort, test.wantError)
			}
			if tail := got.GetError().GetAttributes()["stderr_tail"]; tail != test.wantTail {
				t.Errorf("stderr tail %q, want %q", tail, test.wantTail)
			}
			if got.GetTask() != "sort" || got.GetCookie() != 7 || got.GetNode() != "n1" || got.GetAttempt() != 2 {
				t.Errorf("the record is not of its allocation: %v", got)
			}
			if !proto.Equal(sent, test.job) {
				t.Error("the agent's message was changed")
			}
		})
	}
}

func TestEnds(t *testing.T) {
	var said []string
	say := func(who string) func(proto.Message) {
		return func(m proto.Message) {
			switch m := m.(type) {
			case *actorpb.JobEndedAck:
				said = append(said, who+":"+m.GetJobId()+m.GetRefusal())
			case *actorpb.Refused:
				said = append(said, who+":"+m.GetCode())
			}
		}
	}
	job := func(id string) *statepb.FinishedJob { return &statepb.FinishedJob{JobId: id} }
	ends := NewEnds(3)
	for _, id := range []string{"a", "b", "c"} {
		if !ends.Add(job(id), say("first")) {
			t.Fatalf("no room for %s", id)
		}
	}
	if ends.Add(job("d"), say("first")) {
		t.Error("a fourth result found room")
	}
	taken := ends.Take(2, 1<<10)
	if len(taken) != 2 || taken[0].GetJobId() != "a" || taken[1].GetJobId() != "b" {
		t.Fatalf("took %v, want a and b", taken)
	}
	if !ends.Add(job("a"), say("again")) || len(ends.Take(0, 1<<10)) != 0 {
		t.Error("a repetition was not taken")
	}
	ends.Settle("a", "")
	ends.Return(taken[1:])
	if first := ends.Take(9, 1); len(first) != 1 || first[0].GetJobId() != "b" {
		t.Errorf("took %v of one byte, want b alone", first)
	} else {
		ends.Return(first)
	}
	if rest := ends.Take(9, 1<<10); len(rest) != 2 || rest[0].GetJobId() != "b" || rest[1].GetJobId() != "c" {
		t.Errorf("took %v, want b, which came back, before c; a was settled", rest)
	}
	ends.Settle("b", "!")
	ends.Settle("b", "!")
	ends.Drop(&actorpb.Refused{Code: "gone"})
	want := "again:a first:b! first:gone"
	if got := strings.Join(said, " "); got != want {
		t.Errorf("answers %q, want %q", got, want)
	}
}

// TestSecretsOfJobs (T3) opens the secrets of an operation, which is an error that the agent tries again
// where the key is missing.
func TestSecretsOfJobs(t *testing.T) {
	key, err := vault.New(vault.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"TOKEN": "hunter2"}
	sealed, err := key.Seal(vault.OfOperation("op-1"), secrets)
	if err != nil {
		t.Fatal(err)
	}
	op := sortOperation("running")
	if got, err := Secrets(op, nil); err != nil || got != nil {
		t.Errorf("without a vault: %v, %v", got, err)
	}
	op.Spec.Vault = &statepb.Vault{Names: []string{"TOKEN"}, Sealed: sealed}
	if got, err := Secrets(op, key); err != nil || got["TOKEN"] != "hunter2" {
		t.Errorf("opened %v, %v", got, err)
	}
	if _, err := Secrets(op, nil); !errors.Is(err, ErrVault) || !strings.Contains(err.Error(), "vault.key") {
		t.Errorf("without a key: %v", err)
	}
	op.Id = "op-2"
	if _, err := Secrets(op, key); !errors.Is(err, ErrVault) {
		t.Errorf("in another operation: %v", err)
	}
}
