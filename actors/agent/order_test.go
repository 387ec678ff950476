package agent

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/discoveryjson"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// interruptibleJob runs, and has SIGINT as its signal and 75 as its code to run again.
func interruptibleJob(t *testing.T) *Job {
	t.Helper()
	j := NewJob(epoch, startOrder("j"))
	does(t, j, AskSpec)
	j.Answered(epoch, &actorpb.JobSpec{JobId: "j", Argv: []string{"true"}, InterruptionSignal: "SIGINT", RestartExitCode: proto.Int32(75)})
	notes(t, j, NoteStart)
	does(t, j, StartRun)
	j.Started(epoch, nil)
	j.Saw(runner.Started{JobID: "j", Pid: 42, Time: epoch})
	return j
}

// TestInputIsEnough: a job with input and no signal is asked to leave by the end of it.
func TestInputIsEnough(t *testing.T) {
	j := runningJob(t)
	j.spec.Feed = &actorpb.JobFeed{}
	j.Stop(epoch, asking("preemption", "preemption"))
	notes(t, j, NoteStop)
	does(t, j, StopRun)
	told := j.Telling(epoch)
	if told.Interruption == nil || told.Interruption.Signal != "" || told.Grace != 15*time.Second || !j.Notice().Leaving {
		t.Fatalf("told %+v with notice %+v, want it asked without a signal", told, j.Notice())
	}
	j.Saw(left(proxyproto.OutcomeStopped, -1, "SIGKILL"))
	if got := j.Result().GetError().GetMessage(); !strings.Contains(got, "still running 15s after end of input") {
		t.Errorf("one that is late: %q", got)
	}
}

// asking is an order to leave within 15 s.
func asking(interruption, reason string) Order {
	return NewOrder(epoch, &actorpb.AbortJob{JobId: "j", Reason: reason, GraceMillis: 15_000, Message: "others wait", Interruption: interruption,
		Preemption: "preemption", PreemptedFor: &statepb.Beneficiary{OperationId: "hungry"}})
}

func left(outcome proxyproto.Outcome, code int, signal string) runner.Exited {
	e := exited(outcome, "", code)
	e.Result.Signal, e.Result.Interrupted = signal, true
	if outcome == proxyproto.OutcomeStopped {
		e.Result.Reason = "preemption"
	}
	return e
}

// TestEndsOfInterruptedJobs is the table of J.3.
func TestEndsOfInterruptedJobs(t *testing.T) {
	const exits, killed, stopped = proxyproto.OutcomeExited, proxyproto.OutcomeSignaled, proxyproto.OutcomeStopped
	old := exited(stopped, "preemption", 0)
	tests := map[string]struct {
		interruption string
		end          runner.Exited
		saved        bool
		wantState    string
		wantReason   string
		wantMessage  string
		wantRerun    bool
	}{
		"exits with 0":                                   {end: left(exits, 0, ""), wantState: "completed"},
		"exits with its code to run again":               {end: left(exits, 75, ""), wantState: "completed", wantRerun: true},
		"reads its notice and is faster than the signal": {end: exited(exits, "", 75), wantState: "completed", wantRerun: true},
		"exits with another code":                        {end: left(exits, 7, ""), wantState: "failed", wantMessage: "exited with code 7"},
		"dies of the signal":                             {end: left(killed, -1, "SIGINT"), wantState: "failed", wantMessage: "killed by signal 2 (SIGINT)"},
		"is there at the deadline of a preemption":       {end: left(stopped, -1, "SIGKILL"), wantState: "aborted", wantReason: "preemption", wantMessage: "still running 15s after SIGINT: others wait"},
		"is there at the deadline of a user":             {interruption: "user_request", end: left(stopped, -1, "SIGKILL"), wantState: "aborted", wantReason: "interruption_timeout", wantMessage: "still running 15s after SIGINT: others wait"},
		"acknowledges":                                   {end: left(stopped, -1, "SIGKILL"), saved: true, wantState: "aborted", wantReason: "preemption", wantMessage: "others wait"},
		"acknowledges a user":                            {interruption: "node_drain", end: left(stopped, -1, "SIGKILL"), saved: true, wantState: "aborted", wantReason: "interruption_timeout", wantMessage: "others wait"},
		"acknowledges and is faster":                     {end: left(exits, 0, ""), saved: true, wantState: "completed"},
		"loses its lease meanwhile":                      {end: left(proxyproto.OutcomeLeaseExpired, -1, "SIGKILL"), wantState: "aborted", wantReason: "node_offline", wantMessage: "others wait"},
		"exits with 0 under a proxy of version one":      {end: old, wantState: "completed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := interruptibleJob(t)
			interruption := test.interruption
			if interruption == "" {
				interruption = statepb.InterruptedByPreemption
			}
			j.Stop(epoch, asking(interruption, "preemption"))
			if err := j.Saved(); !errors.Is(err, ErrNotAsked) {
				t.Errorf("acknowledged before it was asked: %v", err)
			}
			notes(t, j, NoteStop)
			does(t, j, StopRun)
			j.Told(j.Telling(epoch).Number)
			end := *test.end.Result
			if test.saved {
				if err := j.Saved(); err != nil {
					t.Fatal(err)
				}
				does(t, j, StopRun)
				told := j.Telling(epoch)
				if told.Interruption != nil || told.Grace != 0 {
					t.Errorf("told %+v, want it stopped at once", told)
				}
				if end.Outcome == stopped {
					end.Reason = told.Reason
				}
			}
			j.Saw(runner.Exited{JobID: "j", Result: &end})
			r := j.Result()
			if r.GetState() != test.wantState || r.GetAbortReason() != test.wantReason || r.GetRerun() != test.wantRerun {
				t.Errorf("ended %s %s, rerun %v, want %s %s, %v", r.GetState(), r.GetAbortReason(), r.GetRerun(), test.wantState, test.wantReason, test.wantRerun)
			}
			if r.GetError().GetMessage() != test.wantMessage || r.GetAcknowledged() != (test.saved && test.wantState == "aborted") || r.GetExitCode() != int32(end.ExitCode) {
				t.Errorf("error %q, acknowledged %v, exit code %d", r.GetError().GetMessage(), r.GetAcknowledged(), r.GetExitCode())
			}
			if s := r.GetStop(); s.GetInterruption() != interruption || s.GetGraceMillis() != 15_000 || s.GetPreemptedFor().GetOperationId() != "hungry" || !s.GetTime().AsTime().Equal(epoch) {
				t.Errorf("ended under %v, want the order", s)
			}
		})
	}
}

// TestAJobThatIsStoppedWhileItsOutputIsKept has not completed, though its command had ended
// well before it was asked to leave.
func TestAJobThatIsStoppedWhileItsOutputIsKept(t *testing.T) {
	for name, spec := range map[string]*actorpb.JobSpec{
		"kept files":  {Outputs: []*statepb.KeptFile{{Path: "out", Destination: "/d"}}},
		"a fed job's": {Feed: &actorpb.JobFeed{Format: "lines"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := interruptibleJob(t)
			j.spec.Outputs, j.spec.Feed = spec.GetOutputs(), spec.GetFeed()
			j.Stop(epoch, asking(statepb.InterruptedByPreemption, "preemption"))
			notes(t, j, NoteStop)
			does(t, j, StopRun)
			j.Told(j.Telling(epoch).Number)
			j.Saw(exited(proxyproto.OutcomeStopped, "preemption", 0))
			if r := j.Result(); r.GetState() != "aborted" || r.GetAbortReason() != "preemption" {
				t.Errorf("ended %s %s, want it to run again", r.GetState(), r.GetAbortReason())
			}
		})
	}
}

// TestOrdersThatCannotBeAnswered end jobs that do not run yet, or cannot be asked.
func TestOrdersThatCannotBeAnswered(t *testing.T) {
	waiting := func(*testing.T) *Job { return NewJob(epoch, startOrder("j")) }
	starting := func(t *testing.T) *Job {
		j := waiting(t)
		does(t, j, AskSpec)
		j.Answered(epoch, &actorpb.JobSpec{JobId: "j", InterruptionSignal: "SIGINT"})
		return j
	}
	noted := func(t *testing.T) *Job {
		j := starting(t)
		notes(t, j, NoteStart)
		does(t, j, StartRun)
		return j
	}
	begun := func(t *testing.T) *Job {
		j := noted(t)
		j.Started(epoch, nil)
		return j
	}
	tests := map[string]struct {
		job          func(*testing.T) *Job
		interruption string
		reason       string
		// wantTold: it has processes, which are stopped at once.
		wantTold   bool
		wantReason string
	}{
		"its spec is not known yet":                  {job: waiting, interruption: "preemption", reason: "preemption", wantReason: "preemption"},
		"its spec is not known yet, and a user asks": {job: waiting, interruption: "user_request", reason: "user_request", wantReason: "user_request"},
		"it is about to be started":                  {job: starting, interruption: "user_request", reason: "user_request", wantReason: "user_request"},
		"it is being started":                        {job: noted, interruption: "preemption", reason: "preemption", wantTold: true, wantReason: "preemption"},
		"its command is about to begin":              {job: begun, interruption: "user_request", reason: "user_request", wantTold: true, wantReason: "user_request"},
		"it has no signal":                           {job: runningJob, interruption: "user_request", reason: "user_request", wantTold: true, wantReason: "interruption_unsupported"},
		"it has no signal and is preempted":          {job: runningJob, interruption: "preemption", reason: "node_resource_overcommit", wantTold: true, wantReason: "node_resource_overcommit"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := test.job(t)
			j.Stop(epoch, asking(test.interruption, test.reason))
			if test.wantTold {
				if j.Phase() < Running {
					j.Started(epoch, nil)
				}
				does(t, j, StopRun)
				told := j.Telling(epoch)
				if told.Interruption != nil || told.Grace != 0 || told.Reason != test.wantReason {
					t.Errorf("told %+v, want it stopped at once, %s", told, test.wantReason)
				}
				j.Saw(exited(proxyproto.OutcomeStopped, told.Reason, -1))
			}
			if r := j.Result(); r.GetState() != "aborted" || r.GetAbortReason() != test.wantReason || r.GetStop().GetInterruption() != test.interruption {
				t.Errorf("result %v, want it aborted, %s, and the order", r, test.wantReason)
			}
			if j.Notice().Leaving {
				t.Error("it has a notice that it cannot follow")
			}
		})
	}
}

// TestEarlierDeadlinesCount gives a job more orders than one.
func TestEarlierDeadlinesCount(t *testing.T) {
	j := interruptibleJob(t)
	j.Stop(epoch, asking("preemption", "preemption"))
	notes(t, j, NoteStop)
	does(t, j, StopRun)
	first := j.Telling(epoch.Add(time.Second))
	if i := first.Interruption; i == nil || i.Signal != "SIGINT" || i.RootOnly || i.Reason != "preemption" || i.Grace != 14*time.Second {
		t.Fatalf("told %+v, want it asked by SIGINT, with 14s left", first)
	}
	var notice discoveryjson.Notice
	if err := json.Unmarshal(first.Interruption.Notice, &notice); err != nil || !notice.Leaving || notice.PreemptedFor != "hungry" || notice.Reason != "preemption" ||
		!notice.Deadline.Equal(epoch.Add(15*time.Second)) || notice.Interruption != "preemption" || notice.Message != "others wait" {
		t.Errorf("notice %s, %v", first.Interruption.Notice, err)
	}
	// What was told before the next order says nothing of that one.
	j.Stop(epoch, NewOrder(epoch, &actorpb.AbortJob{Reason: "user_request", Interruption: "user_request", GraceMillis: 5000}))
	j.Told(first.Number)
	notes(t, j, NoteStop)
	does(t, j, StopRun)
	second := j.Telling(epoch)
	if i := second.Interruption; i == nil || i.Reason != "preemption" || i.Grace != 5*time.Second {
		t.Errorf("told %+v, want the first one's words and 5s", second)
	}
	j.Told(second.Number)
	if held := j.Held(); held.GetPhase() != "aborting" || !held.GetDeadline().AsTime().Equal(epoch.Add(5*time.Second)) {
		t.Errorf("held %v, want it aborting until then", held)
	}
	j.Stop(epoch, asking("preemption", "preemption"))
	does(t, j, Rest)
	// The agent's own orders do not wait for the journal.
	j.Stop(epoch, Order{Reason: lifecycle.AbortNodeOffline, Deadline: epoch})
	does(t, j, StopRun)
	if third := j.Telling(epoch); third.Interruption != nil || third.Grace != 0 {
		t.Errorf("told %+v, want no time left", third)
	}
	j.Saw(left(proxyproto.OutcomeStopped, -1, "SIGKILL"))
	if r := j.Result(); r.GetAbortReason() != "preemption" || r.GetStop().GetInterruption() != "preemption" || r.GetError().GetMessage() != "still running 0s after SIGINT: others wait" {
		t.Errorf("result %v, want the first one's words, and the time that it had", r)
	}
	if j.Held().GetDeadline() != nil {
		t.Error("a job that has ended has a deadline")
	}
}

// TestAJobThatMayStayForAWhileLeavesForMemory of which the node has none now.
func TestAJobThatMayStayForAWhileLeavesForMemory(t *testing.T) {
	eviction := Order{Reason: lifecycle.AbortResourceOverdraft, Message: "memory overdraft", Attributes: map[string]string{"usage": "7"}, Deadline: epoch}
	for name, test := range map[string]struct {
		end       runner.Exited
		wantState string
	}{
		"stopped":           {left(proxyproto.OutcomeStopped, -1, "SIGKILL"), "aborted resource_overdraft"},
		"left just in time": {left(proxyproto.OutcomeExited, 0, ""), "completed "},
	} {
		t.Run(name, func(t *testing.T) {
			j := interruptibleJob(t)
			j.Stop(epoch, asking("user_request", "interruption_timeout"))
			j.Stop(epoch, eviction)
			does(t, j, StopRun)
			if telling := j.Telling(epoch); telling.Interruption != nil || telling.Grace != 0 {
				t.Errorf("told %+v, want no time left", telling)
			}
			j.Saw(test.end)
			r := j.Result()
			if got := r.GetState() + " " + r.GetAbortReason(); got != test.wantState || r.GetStop().GetInterruption() != "user_request" {
				t.Errorf("ended as %s by %v, want %s and the leader's order", got, r.GetStop(), test.wantState)
			}
			if r.GetState() == "aborted" && (r.GetError().GetMessage() != "memory overdraft" || r.GetError().GetAttributes()["usage"] != "7") {
				t.Errorf("error %v", r.GetError())
			}
		})
	}
}

// TestOrdersAreRepeated by a leader, each time with what is left by then.
func TestOrdersAreRepeated(t *testing.T) {
	j := interruptibleJob(t)
	repeat := func(after time.Duration, leftMillis int64) {
		now := epoch.Add(after)
		j.Stop(now, NewOrder(now, &actorpb.AbortJob{Reason: "preemption", Interruption: "preemption", GraceMillis: leftMillis}))
	}
	j.Stop(epoch, asking("preemption", "preemption"))
	notes(t, j, NoteStop)
	does(t, j, StopRun)
	j.Told(j.Telling(epoch).Number)
	repeat(time.Second, 13_960)
	does(t, j, Rest)
	repeat(2*time.Second, 12_500)
	// The disk hangs, and the job is there still after its deadline.
	does(t, j, NoteStop)
	repeat(14*time.Second, 500)
	does(t, j, Rest)
	for i := range time.Duration(2) {
		now := 16*time.Second + i*time.Second
		repeat(now, 0)
		does(t, j, StopRun)
		told := j.Telling(epoch.Add(now))
		if told.Interruption != nil || told.Grace != 0 {
			t.Errorf("told %+v, want it stopped at once", told)
		}
		j.Told(told.Number)
		does(t, j, Rest)
	}
}

// TestInterruptionIsTakenOver by the next process of the agent, from the journal.
func TestInterruptionIsTakenOver(t *testing.T) {
	before := interruptibleJob(t)
	before.Stop(epoch, asking("preemption", "preemption"))
	does(t, before, NoteStop)
	kept := &journal.Job{Grant: before.start, Starting: journal.Starting(before.spec, "boot").GetStarting(), Stopping: before.stopping().GetStopping()}
	later := epoch.Add(10 * time.Second)
	j := RecoverJob(later, kept, true)
	if !j.Notice().Leaving {
		t.Error("the job is not told that it has to leave")
	}
	does(t, j, StopRun)
	if told := j.Telling(later); told.Interruption == nil || told.Interruption.Grace != 5*time.Second || told.Interruption.Signal != "SIGINT" {
		t.Errorf("told %+v, want what is left", told)
	}
	j.Stop(later, NewOrder(later, &actorpb.AbortJob{Reason: "user_request", GraceMillis: 5000}))
	j.Told(j.Telling(later).Number)
	does(t, j, Rest)
	j.Saw(left(proxyproto.OutcomeExited, 75, ""))
	if r := j.Result(); !r.GetRerun() || r.GetStop().GetPreemptedFor().GetOperationId() != "hungry" {
		t.Errorf("result %v, want it to run again, and the order", r)
	}
}
