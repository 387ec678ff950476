package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/actors/agent/runner"
	"weir/messages/actorpb"
	"weir/scheduling/lifecycle"
)

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

func TestJobLife(t *testing.T) {
	j := runningJob(t)
	spec := j.Spec(3*time.Second, &Config{MaxPids: 77, Host: "host1"})
	if spec.ID != "j" || spec.CPULimit != 1.5 || spec.MemoryLimit != 9 || spec.TimeLimit != 1500*time.Millisecond || spec.Lease != 3*time.Second || spec.PidsLimit != 77 {
		t.Errorf("spec %+v", spec)
	}
	j.Saw(runner.Sample{Memory: 5, ProxyMemory: 2, Statistics: runner.Statistics{CPUUserMicros: 2, CPUSystemMicros: 3}})
	held := j.Held()
	if held.GetPhase() != "running" || held.GetMemory() != 7 || held.GetProxyMemory() != 2 || held.GetCpuMicros() != 5 || held.GetPid() != 42 || held.GetOperationId() != "op" || !held.GetStartTime().AsTime().Equal(epoch.Add(time.Second)) {
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
		j.Told(j.Telling(epoch).Number)
		j.Stop(epoch, order(lifecycle.AbortUserRequest, time.Hour))
		does(t, j, Rest)
		j.Stop(epoch, order(lifecycle.AbortNodeOffline, 0))
		does(t, j, StopRun)
		if told := j.Telling(epoch.Add(time.Second)); told.Reason != "preemption" || told.Grace != 0 {
			t.Errorf("told %+v, want preemption at once", told)
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
		if got := NewOrder(epoch, &actorpb.AbortJob{GraceMillis: 1 << 62}); !got.Deadline.Equal(epoch.Add(maxGrace)) || maxGrace < 364*24*time.Hour {
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
		"the agent ended meanwhile":        {answer: spec, err: fmt.Errorf("start job: %w", context.Canceled), wantState: "aborted", wantAbort: "node_offline", wantError: "canceled"},
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
		starts, alive, ran, released, asked := 0, false, false, false, false
		notes := map[Duty]int{}
		now := epoch
		for i := range 1000 {
			now = now.Add(time.Second)
			// Faults come to an end.
			faulty := i < 30 && rapid.Bool().Draw(t, "fault")
			if i < 30 && rapid.IntRange(0, 3).Draw(t, "order") == 0 {
				j.Stop(now, NewOrder(now, &actorpb.AbortJob{Reason: "preemption", GraceMillis: 1000 * rapid.Int64Range(0, 9).Draw(t, "grace")}))
			}
			if i < 30 && rapid.IntRange(0, 9).Draw(t, "saved") == 0 && j.Saved() == nil && !asked {
				t.Fatal("a job acknowledges what it was not asked")
			}
			duty := j.Next()
			if faulty && duty != StartRun && duty != NoteStart && duty != NoteStop && duty != NoteEnd && duty != NoteRelease && duty != Rest && duty != Leave {
				j.Retry(duty)
				continue
			}
			switch duty {
			case AskSpec:
				j.Answered(now, &actorpb.JobSpec{JobId: "j", InterruptionSignal: "SIGTERM"})
			case NoteStart, NoteStop, NoteEnd, NoteRelease:
				asked = asked || duty == NoteStop
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
					j.Saw(runner.Started{JobID: "j", Pid: 42, Time: now})
				}
			case StopRun:
				told := j.Telling(now)
				if told.Interruption != nil && !asked {
					t.Fatal("the job is asked to leave and the journal does not know")
				}
				j.Told(told.Number)
				if told.Interruption == nil || rapid.Bool().Draw(t, "obeys") {
					j.Saw(exited("stopped", told.Reason, -1))
					alive = false
				}
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
