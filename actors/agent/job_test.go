package agent

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

func startOrder(job string) *actorpb.StartJob { return plan(1, 1, granted(job, 9)).GetStart()[0] }

func TestEnded(t *testing.T) {
	tests := map[string]struct {
		result    runner.Result
		wantState string
		wantAbort string
		wantError string
		wantMore  map[string]string
	}{
		"a good end":     {result: runner.Result{Outcome: "exited"}, wantState: "completed"},
		"an exit code":   {result: runner.Result{Outcome: "exited", ExitCode: 7}, wantState: "failed", wantError: "exited with code 7"},
		"a signal":       {result: runner.Result{Outcome: "signaled", ExitCode: -1, Signal: "SIGKILL"}, wantState: "failed", wantError: "killed by signal 9 (SIGKILL)"},
		"an odd signal":  {result: runner.Result{Outcome: "signaled", Signal: "signal 63"}, wantState: "failed", wantError: "killed by signal signal 63"},
		"no program":     {result: runner.Result{Outcome: "start_failed", Error: `start "/no": no such file or directory`}, wantState: "failed", wantError: `start "/no": no such file or directory`},
		"too long":       {result: runner.Result{Outcome: "time_limit_exceeded"}, wantState: "failed", wantError: "Job time limit exceeded", wantMore: map[string]string{"job_time_limit": "1m0s"}},
		"too much":       {result: runner.Result{Outcome: "memory_limit_exceeded"}, wantState: "failed", wantError: "Memory limit exceeded"},
		"an order":       {result: runner.Result{Outcome: "stopped", Reason: "preemption", ExitCode: 0}, wantState: "aborted", wantAbort: "preemption"},
		"a closed agent": {result: runner.Result{Outcome: "stopped", Reason: "the agent is closing"}, wantState: "aborted", wantAbort: "node_offline"},
		"a frozen agent": {result: runner.Result{Outcome: "lease_expired", Error: "not heard"}, wantState: "aborted", wantAbort: "node_offline", wantError: "not heard"},
		"a lost proxy":   {result: runner.Result{Outcome: "proxy_failed", Error: "signal: killed"}, wantState: "aborted", wantAbort: "job_proxy_failed", wantError: "signal: killed"},
		"a new outcome":  {result: runner.Result{Outcome: "bored"}, wantState: "aborted", wantAbort: "job_proxy_failed"},
		"who used the memory": {
			result: runner.Result{Outcome: "memory_limit_exceeded", Memory: &proxyproto.MemoryExcess{Usage: 12, Limit: 10,
				Biggest: []proxyproto.ProcessMemory{{Pid: 3, Name: "sort", Bytes: 8}, {Pid: 4, Name: "cat", Bytes: 4}}}},
			wantState: "failed", wantError: "Memory limit exceeded",
			wantMore: map[string]string{"usage": "12", "limit": "10", "biggest_processes": "sort (pid 3, 8 bytes), cat (pid 4, 4 bytes)"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.result.StartTime, test.result.EndTime, test.result.Pid = epoch, epoch.Add(time.Second), 42
			test.result.DurationMicros = 1_000_999
			test.result.Statistics = runner.Statistics{MaxMemory: 1, CPUUserMicros: 2, CPUSystemMicros: 3, StdoutBytes: 4,
				StdoutDroppedBytes: 5, StderrBytes: 6, StderrDroppedBytes: 7, CumulativeMaxMemory: 8.5}
			got := ended(startOrder("j"), &test.result, time.Minute, 250*time.Millisecond)
			if got.GetState() != test.wantState || got.GetAbortReason() != test.wantAbort || got.GetError().GetMessage() != test.wantError {
				t.Errorf("got %s %q %q, want %s %q %q", got.GetState(), got.GetAbortReason(), got.GetError().GetMessage(), test.wantState, test.wantAbort, test.wantError)
			}
			if more := got.GetError().GetAttributes(); len(more)+len(test.wantMore) > 0 && !maps.Equal(more, test.wantMore) {
				t.Errorf("attributes %v, want %v", more, test.wantMore)
			}
			s := got.GetStatistics()
			if fmt.Sprint(s.GetMaxMemory(), s.GetCpuUserMicros(), s.GetCpuSystemMicros(), s.GetStdoutBytes(), s.GetStdoutDroppedBytes(), s.GetStderrBytes(),
				s.GetStderrDroppedBytes(), s.GetCumulativeMaxMemory(), s.GetRunMillis(), s.GetPrepareMillis()) != "1 2 3 4 5 6 7 8.5 1000 250" {
				t.Errorf("statistics are lost: %v", s)
			}
			if got.GetPid() != 42 || got.GetTask() != "sort" || got.GetCookie() != 7 || got.GetJobId() != "j" || !got.GetStartTime().AsTime().Equal(epoch) {
				t.Errorf("the record is not of its job: %v", got)
			}
		})
	}
}

// does takes the next duty, which must be the one that is wanted.
func does(t *testing.T, j *Job, want Duty) {
	t.Helper()
	if got := j.Next(); got != want {
		t.Fatalf("duty %d, want %d (phase %d)", got, want, j.Phase())
	}
}

// notes puts what is due into the journal.
func notes(t *testing.T, j *Job, duty Duty) {
	t.Helper()
	does(t, j, duty)
	does(t, j, Rest)
	j.Noted(duty)
}

func runningJob(t *testing.T) *Job {
	t.Helper()
	j := NewJob(epoch, startOrder("j"))
	does(t, j, AskSpec)
	j.Answered(epoch, &actorpb.JobSpec{JobId: "j", Argv: []string{"true"}, JobTimeLimitMillis: 1500, CpuLimitHundredths: 150, MemoryLimit: 9})
	notes(t, j, NoteStart)
	does(t, j, StartRun)
	j.Started(epoch, nil)
	j.Saw(runner.Started{JobID: "j", Pid: 42, Time: epoch.Add(time.Second)})
	does(t, j, Rest)
	return j
}

func exited(outcome proxyproto.Outcome, reason string, code int) runner.Exited {
	return runner.Exited{JobID: "j", Result: &runner.Result{Outcome: outcome, Reason: reason, ExitCode: code}}
}

func TestJobLife(t *testing.T) {
	j := runningJob(t)
	spec := j.Spec(3*time.Second, 77)
	if spec.ID != "j" || spec.CPULimit != 1.5 || spec.MemoryLimit != 9 || spec.TimeLimit != 1500*time.Millisecond || spec.Lease != 3*time.Second || spec.PidsLimit != 77 {
		t.Errorf("spec %+v", spec)
	}
	j.Saw(runner.Sample{Memory: 5, Statistics: runner.Statistics{CPUUserMicros: 2, CPUSystemMicros: 3}})
	held := j.Held()
	if held.GetPhase() != "running" || held.GetMemory() != 5 || held.GetCpuMicros() != 5 || held.GetPid() != 42 || held.GetOperationId() != "op" || !held.GetStartTime().AsTime().Equal(epoch.Add(time.Second)) {
		t.Errorf("held %v", held)
	}
	j.Saw(exited("exited", "", 0))
	notes(t, j, NoteEnd)
	does(t, j, Report)
	does(t, j, Rest)
	j.Retry(Report)
	does(t, j, Report)
	if j.Held().GetPhase() != "ended" || j.Result().GetStatistics().GetPrepareMillis() != 1000 {
		t.Errorf("held %v, result %v", j.Held(), j.Result())
	}
	j.Stop(epoch, Order{Reason: lifecycle.AbortPreemption})
	j.Acknowledge()
	does(t, j, Release)
	j.Retry(Release)
	does(t, j, Release)
	j.Released()
	notes(t, j, NoteRelease)
	does(t, j, Leave)
}

func TestJobFailureBringsItsStderr(t *testing.T) {
	j := runningJob(t)
	j.Saw(exited("exited", "", 1))
	does(t, j, ReadTail)
	j.Tail([]byte("boom"))
	notes(t, j, NoteEnd)
	does(t, j, Report)
	if string(j.tail) != "boom" {
		t.Errorf("tail %q", j.tail)
	}
}

func TestJobOrders(t *testing.T) {
	order := func(reason lifecycle.AbortReason, grace time.Duration) Order {
		return Order{Reason: reason, Message: reason.String() + "!", Deadline: epoch.Add(grace)}
	}
	t.Run("before the spec is known the job ends at once", func(t *testing.T) {
		j := NewJob(epoch, startOrder("j"))
		does(t, j, AskSpec)
		j.Stop(epoch, order(lifecycle.AbortUserRequest, time.Minute))
		j.Answered(epoch, &actorpb.JobSpec{JobId: "j"})
		notes(t, j, NoteEnd)
		does(t, j, Report)
		if r := j.Result(); r.GetState() != "aborted" || r.GetAbortReason() != "user_request" || r.GetError().GetMessage() != "user_request!" || r.GetPid() != 0 {
			t.Errorf("result %v", r)
		}
		j.Acknowledge()
		notes(t, j, NoteRelease)
		does(t, j, Leave)
	})
	t.Run("while it starts it is ended as soon as it has", func(t *testing.T) {
		j := NewJob(epoch, startOrder("j"))
		does(t, j, AskSpec)
		j.Answered(epoch, &actorpb.JobSpec{JobId: "j"})
		notes(t, j, NoteStart)
		does(t, j, StartRun)
		j.Stop(epoch, order(lifecycle.AbortUserRequest, 0))
		does(t, j, Rest)
		if j.Held().GetPhase() != "aborting" {
			t.Errorf("held %v", j.Held())
		}
		j.Started(epoch, nil)
		does(t, j, StopRun)
	})
	t.Run("the first reason and the earliest deadline count", func(t *testing.T) {
		j := runningJob(t)
		j.Stop(epoch, order(lifecycle.AbortPreemption, time.Minute))
		does(t, j, StopRun)
		j.Stopped()
		j.Stop(epoch, order(lifecycle.AbortUserRequest, time.Hour))
		does(t, j, Rest)
		j.Stop(epoch, order(lifecycle.AbortNodeOffline, 0))
		does(t, j, StopRun)
		if reason, grace := j.Order(epoch.Add(time.Second)); reason != "preemption" || grace != 0 {
			t.Errorf("order %s %v, want preemption at once", reason, grace)
		}
		j.Retry(StopRun)
		does(t, j, StopRun)
		j.Saw(exited("stopped", "preemption", 0))
		notes(t, j, NoteEnd)
		does(t, j, Report)
		if r := j.Result(); r.GetAbortReason() != "preemption" || r.GetError().GetMessage() != "preemption!" {
			t.Errorf("result %v", r)
		}
	})
	t.Run("a job that ended by itself before keeps its end", func(t *testing.T) {
		j := runningJob(t)
		j.Stop(epoch, order(lifecycle.AbortPreemption, time.Minute))
		j.Saw(exited("exited", "", 0))
		notes(t, j, NoteEnd)
		does(t, j, Report)
		if j.Result().GetState() != "completed" {
			t.Errorf("result %v", j.Result())
		}
	})
	t.Run("an order is read with care", func(t *testing.T) {
		for text, want := range map[string]lifecycle.AbortReason{"preemption": lifecycle.AbortPreemption, "none": lifecycle.AbortOther, "?": lifecycle.AbortOther} {
			got := NewOrder(epoch, &actorpb.AbortJob{Reason: text, GraceMillis: -5})
			if got.Reason != want || !got.Deadline.Equal(epoch) {
				t.Errorf("%q: got %v", text, got)
			}
		}
		if got := NewOrder(epoch, &actorpb.AbortJob{GraceMillis: 1 << 62}); !got.Deadline.Equal(epoch.Add(longest)) {
			t.Errorf("deadline %v", got.Deadline)
		}
	})
}

func TestJobThatCannotRun(t *testing.T) {
	spec := &actorpb.JobSpec{JobId: "j"}
	tests := map[string]struct {
		answer    proto.Message
		err       error
		wantState string
		wantAbort string
		wantError string
	}{
		"the controller does not know it":  {answer: &actorpb.Refused{Code: "not_found", Reason: "not granted"}, wantState: "aborted", wantAbort: "get_spec_failed", wantError: "not granted"},
		"the spec of another job":          {answer: &actorpb.JobSpec{JobId: "k"}, wantState: "aborted", wantAbort: "get_spec_failed", wantError: `"k"`},
		"the machine has no room for it":   {answer: spec, err: fmt.Errorf("mkdir: %w", unix.ENOSPC), wantState: "aborted", wantAbort: "job_proxy_failed", wantError: "no space left"},
		"the job has run":                  {answer: spec, err: runner.ErrJobExists, wantState: "aborted", wantAbort: "job_proxy_failed", wantError: "job exists"},
		"the agent is closing":             {answer: spec, err: runner.ErrClosed, wantState: "aborted", wantAbort: "node_offline", wantError: "closed"},
		"the lease ran out meanwhile":      {answer: spec, err: ErrNoLease, wantState: "aborted", wantAbort: "node_offline", wantError: "lease"},
		"the spec is not one that can run": {answer: spec, err: errors.New("argv: is empty"), wantState: "failed", wantError: "argv: is empty"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := NewJob(epoch, startOrder("j"))
			does(t, j, AskSpec)
			j.Answered(epoch, test.answer)
			if test.err != nil {
				notes(t, j, NoteStart)
				does(t, j, StartRun)
				j.Started(epoch, test.err)
			}
			notes(t, j, NoteEnd)
			does(t, j, Report)
			r := j.Result()
			if r.GetState() != test.wantState || r.GetAbortReason() != test.wantAbort || !strings.Contains(r.GetError().GetMessage(), test.wantError) {
				t.Errorf("got %s %q %q, want %s %q %q", r.GetState(), r.GetAbortReason(), r.GetError().GetMessage(), test.wantState, test.wantAbort, test.wantError)
			}
			j.Acknowledge()
			notes(t, j, NoteRelease)
			does(t, j, Leave)
		})
	}
	lost := NewLostJob(epoch, startOrder("j"))
	does(t, lost, Report)
	if lost.Result().GetAbortReason() != "disappeared_from_node" {
		t.Errorf("a job that was had before: %v", lost.Result())
	}
}

// TestJobAlwaysLeaves lets anything happen to a job: its processes are started at
// most once, whoever has processes is released, and it leaves.
func TestJobAlwaysLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := NewJob(epoch, startOrder("j"))
		starts, alive, ran, released := 0, false, false, false
		notes := map[Duty]int{}
		now := epoch
		for i := range 1000 {
			now = now.Add(time.Second)
			// Faults come to an end.
			faulty := i < 30 && rapid.Bool().Draw(t, "fault")
			if i < 30 && rapid.IntRange(0, 3).Draw(t, "order") == 0 {
				j.Stop(now, Order{Reason: lifecycle.AbortPreemption, Deadline: now.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "grace")) * time.Second)})
			}
			duty := j.Next()
			if faulty && duty != StartRun && duty != NoteStart && duty != NoteEnd && duty != NoteRelease && duty != Rest && duty != Leave {
				j.Retry(duty)
				continue
			}
			switch duty {
			case AskSpec:
				j.Answered(now, &actorpb.JobSpec{JobId: "j"})
			case NoteStart, NoteEnd, NoteRelease:
				notes[duty]++
				j.Noted(duty)
			case StartRun:
				if starts++; notes[NoteStart] != 1 {
					t.Fatal("processes are started that the journal does not know")
				}
				if faulty {
					j.Started(now, unix.EAGAIN)
				} else {
					alive, ran = true, true
					j.Started(now, nil)
				}
			case StopRun:
				j.Stopped()
				j.Saw(exited("stopped", "preemption", -1))
				alive = false
			case ReadTail:
				j.Tail(nil)
			case Report:
				if alive || notes[NoteEnd] != 1 {
					t.Fatalf("the result is told: processes %v, in the journal %d times", alive, notes[NoteEnd])
				}
				j.Acknowledge()
			case Release:
				released = true
				j.Released()
			case Leave:
				if alive || starts > 1 || ran != released || notes[NoteEnd] != 1 || notes[NoteRelease] != 1 {
					t.Fatalf("left: alive %v, %d starts, ran %v, released %v", alive, starts, ran, released)
				}
				return
			default:
				if alive {
					j.Saw(exited("exited", "", rapid.IntRange(0, 1).Draw(t, "code")))
					alive = false
				}
			}
		}
		t.Fatal("the job does not leave")
	})
}

// TestRecoveredJobs have been left by another process in any phase.
func TestRecoveredJobs(t *testing.T) {
	spec := &journalpb.Starting{JobId: "j", Spec: &actorpb.JobSpec{JobId: "j", JobTimeLimitMillis: 1000}}
	started := &journalpb.Started{JobId: "j", Pid: 42, StartTime: timestamppb.New(epoch)}
	over := &journalpb.Exited{Job: &statepb.FinishedJob{JobId: "j", State: "failed", ExitCode: 7}, StderrTail: []byte("boom")}
	tests := map[string]struct {
		kept journal.Job
		has  bool
		// want are the duties to the end, if it exits with 0 as soon as it rests.
		want      []Duty
		wantPhase string
		wantState string
	}{
		"it runs":                          {kept: journal.Job{Starting: spec, Started: started}, has: true, want: []Duty{NoteEnd, Report, Release, NoteRelease, Leave}, wantPhase: "running", wantState: "completed"},
		"its start was being noted":        {kept: journal.Job{Starting: spec}, has: true, want: []Duty{NoteEnd, Report, Release, NoteRelease, Leave}, wantPhase: "running", wantState: "completed"},
		"its end is in the journal":        {kept: journal.Job{Starting: spec, Started: started, Exited: over}, has: true, want: []Duty{Report, Release, NoteRelease, Leave}, wantPhase: "ended", wantState: "failed"},
		"its workspace is gone already":    {kept: journal.Job{Starting: spec, Started: started, Exited: over}, want: []Duty{Report, NoteRelease, Leave}, wantPhase: "ended", wantState: "failed"},
		"it was lost":                      {kept: journal.Job{Starting: spec, Started: started}, want: []Duty{NoteEnd, Report, NoteRelease, Leave}, wantPhase: "ended", wantState: "aborted"},
		"it ended before it had a process": {kept: journal.Job{Exited: over}, want: []Duty{Report, NoteRelease, Leave}, wantPhase: "ended", wantState: "failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.kept.Grant = startOrder("j")
			j := RecoverJob(epoch, &test.kept, test.has)
			if held := j.Held(); held.GetPhase() != test.wantPhase || test.kept.Started != nil && held.GetPid() != 42 {
				t.Errorf("held %v, want it %s", held, test.wantPhase)
			}
			if test.has {
				if test.kept.Exited == nil {
					does(t, j, Rest)
				}
				// The proxy tells the end again, whoever heard it before.
				j.Saw(exited("exited", "", 0))
			}
			for _, duty := range test.want {
				does(t, j, duty)
				switch duty {
				case NoteEnd, NoteRelease:
					j.Noted(duty)
				case Report:
					j.Acknowledge()
				case Release:
					j.Released()
				}
			}
			if j.Result().GetState() != test.wantState {
				t.Errorf("result %v, want it %s", j.Result(), test.wantState)
			}
		})
	}
}

func TestNeverRan(t *testing.T) {
	here, elsewhere := &journalpb.Starting{Boot: "b1"}, &journalpb.Starting{Boot: "b0"}
	tests := map[string]struct {
		job  journal.Job
		boot string
		want bool
	}{
		"only granted":                       {journal.Job{}, "b1", true},
		"about to start, in this boot":       {journal.Job{Starting: here}, "b1", true},
		"about to start, before this boot":   {journal.Job{Starting: elsewhere}, "b1", false},
		"about to start, in an unknown boot": {journal.Job{Starting: &journalpb.Starting{}}, "", false},
		"with a process":                     {journal.Job{Starting: here, Started: &journalpb.Started{}}, "b1", false},
		"ended":                              {journal.Job{Exited: &journalpb.Exited{}}, "b1", false},
	}
	for name, test := range tests {
		if got := neverRan(&test.job, test.boot); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestCourier(t *testing.T) {
	gone := errors.New("gone")
	found := func(id string) proto.Message {
		return &actorpb.ControllerFound{Controller: &actorpb.Replica{Id: id, Address: id + ":1"}}
	}
	refused := func(code string, retry int64) proto.Message { return &actorpb.Refused{Code: code, RetryMillis: retry} }
	type step struct {
		want      string
		reply     proto.Message
		err       error
		verdict   Verdict
		wantPause time.Duration
	}
	ms := time.Millisecond
	tests := map[string][]step{
		"the controller answers": {{want: "ask r1", reply: &actorpb.JobEndedAck{}, verdict: Answered}},
		"a busy controller is asked again when it says": {
			{want: "ask r1", reply: refused("overloaded", 500), wantPause: 500 * ms},
			{want: "ask r1", reply: refused("unavailable", 10), wantPause: 100 * ms},
			{want: "ask r1", reply: refused("unavailable", 999_999), wantPause: 2 * time.Second},
		},
		"a controller that is gone is looked for": {
			{want: "ask r1", err: gone, wantPause: 50 * ms},
			{want: "find r2", err: gone, wantPause: 100 * ms},
			{want: "find r3", reply: found("r1"), wantPause: 200 * ms},
			{want: "ask r1", err: gone, wantPause: 400 * ms},
			{want: "find r1", reply: found("r3")},
			{want: "ask r3", reply: &actorpb.JobSpec{}, verdict: Answered},
		},
		"a replica says who controls it": {
			{want: "ask r1", reply: found("r2")},
			{want: "ask r2", reply: found("r3"), wantPause: 50 * ms},
			{want: "ask r3", reply: found("r3"), wantPause: 100 * ms},
			{want: "ask r3", reply: &actorpb.JobSpec{}, verdict: Answered},
		},
		"nobody wants the job":                  {{want: "ask r1", reply: &actorpb.ControllerFound{}, verdict: Nobody}},
		"nobody wants it, says another":         {{want: "ask r1", err: gone, wantPause: 50 * ms}, {want: "find r2", reply: &actorpb.ControllerFound{}, verdict: Nobody}},
		"a controller that does not know":       {{want: "ask r1", reply: refused("not_found", 0), verdict: Answered}},
		"a replica that does not know":          {{want: "ask r1", err: gone, wantPause: 50 * ms}, {want: "find r2", reply: refused("not_found", 0), wantPause: 100 * ms}, {want: "find r3", err: gone, wantPause: 200 * ms}},
		"a redirect":                            {{want: "ask r1", reply: &actorpb.Redirect{}, wantPause: 50 * ms}, {want: "find r2", err: gone, wantPause: 100 * ms}},
		"an answer to another question":         {{want: "ask r1", err: gone, wantPause: 50 * ms}, {want: "find r2", reply: &actorpb.JobEndedAck{}, wantPause: 100 * ms}, {want: "find r3", err: gone, wantPause: 200 * ms}},
		"a controller that no address leads to": {{want: "ask r1", reply: &actorpb.ControllerFound{Controller: &actorpb.Replica{Id: "r9"}}, wantPause: 50 * ms}, {want: "find r2", err: gone, wantPause: 100 * ms}},
		"a refusal that time does not mend":     {{want: "ask r1", reply: refused("wrong_identity", 0), wantPause: 50 * ms}, {want: "find r2", err: gone, wantPause: 100 * ms}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			c := NewCourier(Replica{ID: "r1", Address: "r1:1"}, DefaultTiming(), never0)
			for i, step := range steps {
				to, find := c.Next(replicas("r1", "r2", "r3"))
				got := "ask " + to.ID
				if find {
					got = "find " + to.ID
				}
				if got != step.want {
					t.Fatalf("step %d: %s, want %s", i, got, step.want)
				}
				verdict, pause, cause := c.Heard(find, step.reply, step.err)
				if verdict != step.verdict || pause != step.wantPause || (verdict == Again && cause == nil && step.reply != nil) {
					t.Fatalf("step %d: verdict %v, pause %v, cause %v; want %v, %v", i, verdict, pause, cause, step.verdict, step.wantPause)
				}
			}
		})
	}
	c := NewCourier(Replica{ID: "r1", Address: "r1:1"}, DefaultTiming(), never0)
	if c.Lost() != 50*time.Millisecond {
		t.Error("no pause after the controller was lost")
	}
	if _, find := c.Next(replicas("r1")); !find {
		t.Error("a lost controller is asked")
	}
	if _, find := NewCourier(Replica{}, DefaultTiming(), never0).Next(replicas("r1")); !find {
		t.Error("a controller that nobody named is asked")
	}
}
