package controller

import (
	"bytes"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/memory"
	"weir/scheduling/statistics"
)

const mebi = 1 << 20

// sorting is an operation whose jobs may use 100 MiB.
func sorting() *statepb.OperationSpec {
	return &statepb.OperationSpec{Type: "vanilla", Tasks: []*statepb.TaskSpec{{
		Name: "sort", Argv: []string{"sort", "-n"}, MemoryLimit: 100 * mebi, Memory: &statepb.MemorySpec{Profile: "sorting"},
	}}}
}

func digestOf(t *testing.T, n int, v float64) []byte {
	t.Helper()
	d := new(memory.Digest)
	for range n {
		if err := d.Add(v); err != nil {
			t.Fatal(err)
		}
	}
	return d.Encode()
}

func TestExpect(t *testing.T) {
	at := func(minute int) *timestamppb.Timestamp { return timestamppb.New(time.Unix(int64(60*minute), 0)) }
	profile := &statepb.MemoryProfile{UserDigest: digestOf(t, 100, .2), MemoryLimit: 100 * mebi, SampleCount: 100, UpdatedTime: at(10), LastOperation: "op-1"}
	one := []*statepb.MemorySample{{User: .3, Proxy: 1}}
	for story, test := range map[string]struct {
		profile *statepb.MemoryProfile
		heard   *Learning
		want    int64
		wantNot bool
		wantErr bool
	}{
		"the first of its kind has the default":          {nil, nil, 50 * mebi, true, false},
		"a profile is where it begins":                   {profile, nil, 20 * mebi, false, false},
		"bytes count, not shares of another limit":       {&statepb.MemoryProfile{UserDigest: digestOf(t, 100, .2), MemoryLimit: 400 * mebi}, nil, 80 * mebi, false, false},
		"what one in progress has learned counts too":    {profile, &Learning{&statepb.TaskMemory{UserDigest: digestOf(t, 20, .3)}, 200 * mebi}, 60 * mebi, false, false},
		"also where its digest has nothing yet":          {nil, &Learning{&statepb.TaskMemory{Samples: one}, 200 * mebi}, 60 * mebi, false, false},
		"one sample more is not much":                    {profile, &Learning{&statepb.TaskMemory{Samples: one}, 200 * mebi}, 20 * mebi, false, false},
		"what a small operation has left counts as much": {&statepb.MemoryProfile{UserDigest: digestOf(t, 5, .2), MemoryLimit: 100 * mebi, SampleCount: 5}, nil, 20 * mebi, false, false},
		"what cannot be read is as if there were none":   {&statepb.MemoryProfile{UserDigest: []byte{77}}, nil, 50 * mebi, true, true},
		"of what was heard as well":                      {profile, &Learning{&statepb.TaskMemory{UserDigest: []byte{77}}, 0}, 50 * mebi, true, true},
	} {
		t.Run(story, func(t *testing.T) {
			spec := sorting()
			m, err := Expect(spec, spec.GetTasks()[0], spec.MemoryProfileKey("ann", spec.GetTasks()[0]), test.profile, test.heard)
			if (err != nil) != test.wantErr {
				t.Errorf("error %v", err)
			}
			if m.GetReserve().GetUser() != test.want || m.GetFromProfile() == test.wantNot || m.GetProfile() != "ann:"+spec.FormerProfileKey(spec.GetTasks()[0]) || m.GetSampleCount() != 0 {
				t.Errorf("got a reserve of %d MiB, from a profile: %v; want %d", m.GetReserve().GetUser()/mebi, m.GetFromProfile(), test.want/mebi)
			}
			if again, err := memory.Decode(m.GetUserDigest()); err != nil || again.Count() != 0 {
				t.Errorf("its digest has %d samples of its own, %v", again.Count(), err)
			}
		})
	}
}

func TestTeach(t *testing.T) {
	spec := sorting()
	learner := NewLessons(spec).Of("sort")
	had := &statepb.JobReserve{User: 50 * mebi, Proxy: 16 * mebi, UserFactor: .5, ProxyFactor: 1}
	for story, test := range map[string]struct {
		state, reason string
		used          int64
		before        *statepb.CookieReserve
		wantSample    float64
		wantNext      int64
	}{
		"a completed job":                      {"completed", "", 20 * mebi, nil, .2, 0},
		"a job that was never measured":        {"completed", "", 0, nil, 0, 0},
		"a failed job teaches nothing":         {"failed", "", 20 * mebi, nil, 0, 0},
		"nor one that was preempted":           {"aborted", "preemption", 20 * mebi, nil, 0, 0},
		"an overdraft gets the limit":          {"aborted", "resource_overdraft", 60 * mebi, nil, .66, 100 * mebi},
		"an overdraft of less than it had":     {"aborted", "resource_overdraft", 40 * mebi, nil, .55, 100 * mebi},
		"an overdraft that was never measured": {"aborted", "resource_overdraft", 0, &statepb.CookieReserve{UserOverdrafts: 1}, .55, 100 * mebi},
	} {
		t.Run(story, func(t *testing.T) {
			job := &statepb.FinishedJob{
				JobId: "j1", State: test.state, AbortReason: test.reason, Reserve: had, NextReserve: &statepb.CookieReserve{}, Sample: &statepb.MemorySample{User: 9},
				Statistics: &statepb.JobStatistics{Values: map[string]int64{statistics.UserMaxMemory: test.used}},
			}
			teach(job, learner, test.before)
			if got := job.GetSample().GetUser(); got < test.wantSample-1e-9 || got > test.wantSample+1e-9 || (job.GetSample() == nil) != (test.wantSample == 0) {
				t.Errorf("teaches %v, want %v", job.GetSample(), test.wantSample)
			}
			next := job.GetNextReserve()
			if next.GetReserve().GetUser() != test.wantNext || next != nil && (next.GetReserve().GetPredecessor() != "j1" || next.GetUserOverdrafts() != test.before.GetUserOverdrafts()+1) {
				t.Errorf("runs again with %v, want %d", next, test.wantNext)
			}
		})
	}
}

// TestTmpfsIsTheUsers: a job that has filled its tmpfs, and uses as much beside it, has used
// more than its reserve, and its proxy has not.
func TestTmpfsIsTheUsers(t *testing.T) {
	spec := sorting()
	spec.Tasks[0].Tmpfs = []*statepb.Tmpfs{{Path: "tmp", Size: 50 * mebi}}
	job := &statepb.FinishedJob{
		JobId: "j1", State: "aborted", AbortReason: "resource_overdraft",
		Reserve: &statepb.JobReserve{User: 50 * mebi, Proxy: 17 * mebi, UserFactor: .5, ProxyFactor: 1, ProxyEstimate: mebi},
		Statistics: &statepb.JobStatistics{MaxMemory: 85 * mebi, Values: map[string]int64{
			statistics.UserMaxMemory: 40 * mebi, statistics.UserMaxTmpfsSize: 45 * mebi, statistics.ProxyMaxMemory: 15 * mebi}},
	}
	teach(job, NewLessons(spec).Of("sort"), nil)
	next := job.GetNextReserve()
	if next.GetUserOverdrafts() != 1 || next.GetProxyOverdrafts() != 0 || next.GetReserve().GetUser() != 100*mebi {
		t.Errorf("runs again with %v, want all of the limit for the user's processes", next)
	}
	if got := job.GetSample().GetUser(); got < .93 || got > .94 {
		t.Errorf("teaches %v, want 1.1 times 0.85", job.GetSample())
	}
}

func TestMeasured(t *testing.T) {
	task := memory.Task{Limit: 100 * mebi, Tmpfs: 7, ProxyEstimate: 2 * mebi}
	job := &statepb.FinishedJob{
		StartTime: timestamppb.New(time.Unix(100, 0)), FinishTime: timestamppb.New(time.Unix(102, 500e6)),
		Reserve: &statepb.JobReserve{User: 40 * mebi, Proxy: 17 * mebi, UserFactor: .4, ProxyFactor: .5, ProxyEstimate: 2 * mebi},
		Input:   &statepb.JobInput{Rows: 3, Bytes: 30}, Output: &statepb.JobOutput{Rows: 2, Bytes: 20},
		Statistics: &statepb.JobStatistics{MaxMemory: 11, CpuUserMicros: 12, RunMillis: 13, StderrBytes: 14, Values: map[string]int64{
			statistics.UserMaxMemory: 10 * mebi, statistics.UserCPUThrottled: 5, statistics.ProxyMaxMemory: 4 * mebi,
			"user_job/mood": 1, statistics.UserCPUWait: -1,
		}},
	}
	measured(job, task, &statepb.TaskSpec{DiskLimit: 99})
	want := map[string]int64{
		statistics.UserMaxMemory: 10 * mebi, statistics.ProxyMaxMemory: 4 * mebi, statistics.UserCPUThrottled: 5, statistics.UserCPUUser: 12,
		statistics.UserCPUSystem: 0, statistics.TimeExec: 13, statistics.TimePrepare: 0, statistics.TimeTotal: 2500, statistics.UserMemoryIntegral: 0,
		statistics.UserPipesStdout: 0, statistics.UserPipesStdoutDropped: 0, statistics.UserPipesStderr: 14, statistics.UserPipesStderrDropped: 0,
		statistics.UserMemoryLimit: 100 * mebi, statistics.UserMemoryReserve: 40 * mebi, statistics.UserReserveFactor: 4000,
		statistics.ProxyEstimatedMemory: 2 * mebi, statistics.ProxyMemoryReserve: 17 * mebi, statistics.ProxyReserveFactor: 5000,
		statistics.UserTmpfsLimit: 7, statistics.UserDiskLimit: 99,
		statistics.DataInputRows: 3, statistics.DataInputBytes: 30, statistics.DataOutputRows: 2, statistics.DataOutputBytes: 20,
		statistics.UserCumulativeMaxMemory: 25 * mebi, statistics.UserCumulativeReserve: 100 * mebi, statistics.UserCumulativeMemoryLimit: 250 * mebi,
		statistics.ProxyCumulativeMaxMemory: 10 * mebi, statistics.ProxyCumulativeEstimate: 5 * mebi, statistics.ProxyCumulativeReserve: 17 * mebi * 5 / 2,
	}
	if got := job.GetStatistics().Measured(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	prepared := &statepb.FinishedJob{
		StartTime: job.GetStartTime(), FinishTime: job.GetFinishTime(), Reserve: job.GetReserve(),
		Statistics: &statepb.JobStatistics{RunMillis: 2500, PrepareMillis: 1500, Values: map[string]int64{statistics.TimeTotal: 4000}},
	}
	measured(prepared, task, &statepb.TaskSpec{})
	if got := prepared.GetStatistics().Measured(); got[statistics.TimeTotal] != 4000 || got[statistics.UserCumulativeReserve] != 160*mebi {
		t.Errorf("a job that ran for 2.5 s after 1.5 s of preparation took %d ms, and %d bytes x seconds were held for it", got[statistics.TimeTotal], got[statistics.UserCumulativeReserve])
	}
	again := &statepb.FinishedJob{State: "completed", Rerun: true, Statistics: &statepb.JobStatistics{Values: map[string]int64{statistics.DataInputRows: 3}}}
	measured(again, task, &statepb.TaskSpec{})
	if rows, counted := again.GetStatistics().Measured()[statistics.DataInputRows]; counted {
		t.Errorf("%d rows are counted that are read again", rows)
	}
	bare := &statepb.FinishedJob{}
	measured(bare, task, &statepb.TaskSpec{})
	if _, known := bare.GetStatistics().Measured()[statistics.UserMaxMemory]; known || bare.GetStatistics().Measured()[statistics.UserMemoryLimit] != 100*mebi {
		t.Errorf("a job that never ran has %v", bare.GetStatistics().Measured())
	}
}

// committed is a task in the replicated state: it keeps what it is told, and no more.
type committed struct{ task *statepb.Task }

func (c *committed) append(sample float64) {
	m := c.task.Memory
	m.Samples = append(m.Samples, &statepb.MemorySample{User: sample, Proxy: sample / 2})
	m.SampleCount++
}

func (c *committed) update(r *commandpb.TaskReserve) {
	m := c.task.Memory
	m.Samples = m.Samples[int64(len(m.Samples))-(m.SampleCount-r.GetSamples()):]
	m.UserDigest, m.ProxyDigest, m.Reserve = r.GetUserDigest(), r.GetProxyDigest(), r.GetReserve()
}

// TestControllersContinue has another controller take over after each sample, and the
// reserves and digests of all are those of one that was there all the time.
func TestControllersContinue(t *testing.T) {
	spec := sorting()
	first, err := Expect(spec, spec.GetTasks()[0], "ann:sorting", &statepb.MemoryProfile{UserDigest: digestOf(t, 30, .7), ProxyDigest: digestOf(t, 30, .7)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := &committed{&statepb.Task{Name: "sort", Memory: first}}
	steady := NewLessons(spec)
	random := rand.New(rand.NewSource(3))
	now := time.Unix(0, 0)
	for i := range 700 {
		now = now.Add(300 * time.Millisecond)
		state.append(.2 + .1*random.Float64())
		after := NewLessons(spec)
		for _, l := range []*Lessons{steady, after} {
			if err := l.Take([]*statepb.Task{proto.CloneOf(state.task)}); err != nil {
				t.Fatal(err)
			}
		}
		a, b := steady.Of("sort"), after.Of("sort")
		if a.Reserve() != b.Reserve() || !bytes.Equal(a.User.Encode(), b.User.Encode()) || !bytes.Equal(a.Proxy.Encode(), b.Proxy.Encode()) || a.Absorbed != b.Absorbed {
			t.Fatalf("after %d samples a new controller has learned something else: %+v and %+v", i+1, a.Reserve(), b.Reserve())
		}
		// Either of the two may be the one that tells.
		teller := steady
		if i%3 == 0 {
			teller = after
		}
		reserves, _ := teller.Learn(now)
		for _, r := range reserves {
			state.update(r)
		}
	}
	if waiting := len(state.task.GetMemory().GetSamples()); waiting > 256 || state.task.GetMemory().GetSampleCount() != 700 {
		t.Errorf("%d samples wait of %d", waiting, state.task.GetMemory().GetSampleCount())
	}
	if got := state.task.GetMemory().GetReserve().GetUserFactor(); got < .28 || got > .3 {
		t.Errorf("p95 of 0.2 to 0.3 is told to be %v", got)
	}
}

func TestLessons(t *testing.T) {
	spec := sorting()
	l := NewLessons(spec)
	task := func(samples int, count int64) []*statepb.Task {
		m := &statepb.TaskMemory{SampleCount: count}
		for range samples {
			m.Samples = append(m.Samples, &statepb.MemorySample{User: .2})
		}
		return []*statepb.Task{{Name: "sort", Memory: m}}
	}
	if l.Complete() {
		t.Error("complete without anything")
	}
	for _, step := range []struct {
		story          string
		samples        int
		count          int64
		wantErr        bool
		wantAbsorbed   int64
		wantIncomplete bool
	}{
		{"two samples", 2, 2, false, 2, false},
		{"the same state again", 2, 2, false, 2, false},
		{"an older state", 1, 1, false, 2, false},
		{"two more, one of which is digested", 3, 4, false, 4, false},
		{"all digested", 0, 4, false, 4, false},
		{"digested by another", 1, 9, true, 0, true},
		{"read again", 1, 9, false, 9, false},
	} {
		err := l.Take(task(step.samples, step.count))
		if (err != nil) != step.wantErr || l.Of("sort").Absorbed != step.wantAbsorbed || l.Complete() == step.wantIncomplete {
			t.Errorf("%s: %d samples, complete: %v, %v", step.story, l.Of("sort").Absorbed, l.Complete(), err)
		}
	}
	broken := NewLessons(spec)
	state := task(1, 5)
	state[0].Memory.UserDigest = []byte{77}
	if err := broken.Take(state); err == nil || !strings.Contains(err.Error(), `"sort"`) {
		t.Errorf("a digest that cannot be read: %v", err)
	}
	if err := broken.Take(state); err != nil || broken.Of("sort").Absorbed != 5 {
		t.Errorf("it is begun anew: %v, %d samples", err, broken.Of("sort").Absorbed)
	}
}

func TestLeave(t *testing.T) {
	spec := sorting()
	spec.Tasks = append(spec.Tasks, &statepb.TaskSpec{Name: "merge", Shell: "sort -m", MemoryLimit: 100 * mebi})
	l := NewLessons(spec)
	tasks := []*statepb.Task{
		{Name: "sort", Memory: &statepb.TaskMemory{Profile: "sorting"}},
		{Name: "merge", Memory: &statepb.TaskMemory{Profile: "sorting"}},
	}
	for i := range tasks {
		for range 12 * i {
			(&committed{tasks[i]}).append(.3)
		}
	}
	if err := l.Take(tasks); err != nil {
		t.Fatal(err)
	}
	profiles := map[string]*statepb.MemoryProfile{"sorting": {Key: "sorting", SampleCount: 1000, OperationCount: 4, UserDigest: digestOf(t, 100, .1), MemoryLimit: 50 * mebi}}
	present := func(key string) *statepb.MemoryProfile { return profiles[key] }
	saved := l.Leave("op-5", present)
	if len(saved) != 1 || saved[0].GetTask() != "merge" {
		t.Fatalf("leaves %v, want merge alone: the other one has learned nothing", saved)
	}
	p := saved[0].GetProfile()
	if saved[0].GetExpectedSampleCount() != 1000 || p.GetSampleCount() != 1012 || p.GetOperationCount() != 5 || p.GetMemoryLimit() != 100*mebi ||
		p.GetCommand() != "sort -m" || p.GetLastOperation() != "op-5" || p.GetReserve() != 30*mebi {
		t.Errorf("leaves %v", saved[0])
	}
	(&committed{tasks[0]}).append(.3)
	if err := l.Take(tasks); err != nil {
		t.Fatal(err)
	}
	saved = l.Leave("op-5", present)
	if len(saved) != 2 || saved[1].GetExpectedSampleCount() != 1001 || saved[1].GetProfile().GetSampleCount() != 1013 || saved[1].GetProfile().GetOperationCount() != 6 {
		t.Errorf("two tasks of one profile leave %v: the second goes on from the first", saved)
	}
	tasks[0].Memory.Saved, tasks[1].Memory.Profile = true, ""
	if err := l.Take(tasks); err != nil {
		t.Fatal(err)
	}
	if saved = l.Leave("op-5", present); len(saved) != 0 {
		t.Errorf("what was left, and what has no profile, is left: %v", saved)
	}
}
