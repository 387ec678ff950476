package agent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/actors/remote"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// TestAgentAdoptsItsJobs kills the agent with jobs in each phase and starts it again.
func TestAgentAdoptsItsJobs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				switch m := msg.(type) {
				case *actorpb.JobSpecRequest:
					if m.GetJobId() == "waits" {
						return &actorpb.Refused{Code: "unavailable"}, nil
					}
				case *actorpb.JobEnded:
					if m.GetJob().GetJobId() == "told" {
						return &actorpb.Refused{Code: "unavailable"}, nil
					}
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("runs", 9), granted("waits", 9), granted("told", 9), granted("over", 9), granted("meanwhile", 9)))
		w.exit("over", 0)
		w.exit("told", 7)
		w.want("over:completed")
		w.kill()
		// While there is no agent, one job ends, and one appears that nobody granted.
		w.machine.set(func() {
			w.machine.runs["meanwhile"].end("exited", "", 0)
			w.machine.runs["stray"] = &fakeRun{machine: w.machine, id: "stray", events: make(chan runner.Event, 16)}
			clear(w.machine.started)
			w.machine.renewals = nil
		})
		w.plane.set(func() {
			w.plane.answer = nil
			clear(w.plane.phases)
		})
		w.start()
		w.advance(time.Second)
		w.want("over:completed told:failed meanwhile:completed")
		if e := w.result("told"); e.GetJob().GetExitCode() != 7 || string(e.GetStderrTail()) != "boom" || e.GetIncarnation() != 9 {
			t.Errorf("result %v, want what the killed process knew", e)
		}
		if got := w.phases("runs"); got != "running" {
			t.Errorf("heartbeats said %q of a job that runs", got)
		}
		w.machine.set(func() {
			if !slices.Equal(w.machine.discarded, []string{"stray"}) {
				t.Errorf("discarded %v, want the job that the journal does not know", w.machine.discarded)
			}
			if len(w.machine.started) != 0 || len(w.machine.renewals) == 0 {
				t.Errorf("started %v, %d renewals; want no job started, and the lease renewed", w.machine.started, len(w.machine.renewals))
			}
		})
		// What never started is started when the leader still wants it; what was had
		// is not, though its grant is replayed.
		if w.phases("waits") != "" {
			t.Error("a job that never started is held")
		}
		w.send(plan(3, 7, granted("runs", 9), granted("waits", 9), granted("over", 9)))
		if w.starts("waits") != 1 || w.starts("runs") != 0 || w.starts("over") != 0 {
			t.Errorf("starts %v", w.machine.started)
		}
		w.send(plan(2, 99, granted("old", 9)))
		w.exit("runs", 0)
		w.exit("waits", 0)
		w.advance(3 * time.Second)
		w.kill()
		s := w.journal()
		if len(s.Jobs) != 0 || s.Token != (scheduling.Token{Term: 3, Index: 7}) || len(s.Had) != 5 || s.Life != 9 {
			t.Errorf("journal: jobs %v, token %v, had %v", s.Jobs, s.Token, s.Had)
		}
		var rejected []string
		for _, r := range s.Rejections {
			rejected = append(rejected, fmt.Sprint(r.GetRejected().GetJobId(), " ", r.GetRejected().GetToken().GetTerm(), " ", r.GetRejected().GetSeen().GetTerm()))
		}
		if !slices.Equal(rejected, []string{"over 3 3", " 2 3"}) {
			t.Errorf("rejected %q, want the replayed grant and the order of a former leader", rejected)
		}
	})
}

// TestAgentComesBackAfterTheLease finds that its job's proxy has ended the job.
func TestAgentComesBackAfterTheLease(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.kill()
		w.advance(10 * time.Second)
		w.machine.set(func() { w.machine.runs["j"].end("lease_expired", "", -1) })
		w.start()
		w.advance(2 * time.Second)
		w.want("j:aborted:node_offline")
		if w.starts("j") != 1 {
			t.Errorf("started %d times", w.starts("j"))
		}
	})
}

// TestAgentThatEndsJudgesNoJob gives up what it does for jobs when its process ends, in the
// moment before their actors do: that is no end of theirs, and the next process begins anew.
func TestAgentThatEndsJudgesNoJob(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		a := w.startWith(func(log records) records { return log })
		w.specced(func(spec *actorpb.JobSpec) {
			if spec.GetJobId() == "fetches" {
				spec.Files = []*actorpb.JobFile{{Source: "http://127.0.0.1:1/f", Path: "f"}}
			}
		})
		w.machine.set(func() { w.machine.failure = fmt.Errorf("start job: %w", context.Canceled) })
		a.finish()
		w.send(plan(3, 7, granted("fetches", 9), granted("starts", 9)))
		w.advance(3 * time.Second)
		w.want("")
		if w.starts("starts") != 1 || w.starts("fetches") != 0 {
			t.Errorf("starts %v: nothing is tested", w.machine.started)
		}
		w.kill()
		for id, job := range w.journal().Jobs {
			if job.Exited != nil {
				t.Errorf("the journal has an end of job %s: %v", id, job.Exited)
			}
		}
		w.machine.set(func() { w.machine.failure = nil })
		w.specced(func(*actorpb.JobSpec) {})
		w.start()
		w.advance(time.Second)
		w.send(plan(3, 7, granted("fetches", 9), granted("starts", 9)))
		w.exit("fetches", 0)
		w.exit("starts", 0)
		w.want("fetches:completed starts:completed")
	})
}

// TestAgentLostItsJobs comes back with its journal and nothing else.
func TestAgentLostItsJobs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.kill()
		w.machine.set(func() { clear(w.machine.runs) })
		w.start()
		w.advance(2 * time.Second)
		w.want("j:aborted:disappeared_from_node")
	})
}

// TestEachEndIsInTheJournalOnce reads the records of a job's life over two processes.
func TestEachEndIsInTheJournalOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.kill()
		if job := w.journal().Jobs["j"]; job == nil || job.Starting.GetSpec().GetJobId() != "j" || job.Started.GetPid() != 42 || job.Exited != nil {
			t.Errorf("journal of a running job: %+v", job)
		}
		w.start()
		w.advance(time.Second)
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if _, ok := msg.(*actorpb.JobEnded); ok {
					return nil, remote.ErrTimeout
				}
				return nil, nil
			}
		})
		w.exit("j", 7)
		w.kill()
		before := w.journal().Jobs["j"]
		if before.Exited.GetJob().GetExitCode() != 7 || string(before.Exited.GetStderrTail()) != "boom" {
			t.Errorf("journal of an ended job: %+v", before)
		}
		w.plane.set(func() { w.plane.answer = nil })
		w.start()
		w.advance(time.Second)
		w.want("j:failed")
		if !proto.Equal(w.result("j").GetJob(), before.Exited.GetJob()) {
			t.Errorf("told %v, want what is in the journal", w.result("j").GetJob())
		}
	})
}

// TestRecoveredJobs have been left by another process in any phase.
func TestRecoveredJobs(t *testing.T) {
	spec := &journalpb.Starting{JobId: "j", Spec: &actorpb.JobSpec{JobId: "j", JobTimeLimitMillis: 1000}}
	started := &journalpb.Started{JobId: "j", Pid: 42, StartTime: timestamppb.New(epoch)}
	asked := &journalpb.Stopping{JobId: "j", Order: &statepb.StopOrder{Reason: "preemption", GraceMillis: 1000, Time: timestamppb.New(epoch)},
		Deadline: timestamppb.New(epoch.Add(time.Second))}
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
		"it was about to be asked to go":   {kept: journal.Job{Starting: spec, Started: started, Stopping: asked}, has: true, want: []Duty{NoteEnd, Report, Release, NoteRelease, Leave}, wantPhase: "aborting", wantState: "completed"},
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
				switch {
				case test.kept.Stopping != nil:
					// Its proxy is told again: the agent may have died before.
					does(t, j, StopRun)
				case test.kept.Exited == nil:
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
