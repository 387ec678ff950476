package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/reconcile"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// stage is what a controller works with, in a bubble of time. All that it does is
// told in order.
type stage struct {
	t      *testing.T
	system *actor.ActorSystem
	pid    *actor.PID

	// shelf has the input and the output of map operations.
	shelf shelf

	mu        sync.Mutex
	operation *statepb.Operation
	// running are the jobs that have not ended, leaving those that have to.
	running, leaving []string
	// denied is why no job may start.
	denied string
	// grace is what jobs that have to end are given, from the beginning.
	grace int64
	// memory is what the tasks of the operation have taught; profiles are those of all.
	memory   []*statepb.Task
	profiles map[string]*statepb.MemoryProfile
	commands []proto.Message
	// spec is the last that was answered.
	spec     *actorpb.JobSpec
	began    time.Time
	told     []string
	outcomes []func([]*commandpb.Result, error)
}

func onStage(t *testing.T, state string, story func(s *stage)) {
	perform(t, func(s *stage) { s.operation, s.running = sortOperation(state), []string{"a", "b", "c"} }, story)
}

// perform sets a stage, lets the controller in, and plays the story.
func perform(t *testing.T, set, story func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		s := &stage{t: t, began: time.Now(), grace: 1000}
		s.shelf.tell = s.note
		set(s)
		s.operation.Id, s.operation.Assignment = "op", &statepb.Assignment{Replica: "r1", Epoch: 2}
		s.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		s.pid = s.system.Root.Spawn(actor.PropsFromProducer(New(Config{
			Operation: "op", Epoch: 2, State: s, Log: s, Signals: s, Storage: &s.shelf, MaxJobs: func() int { return 10 }, Addresses: func() []string { return []string{"r1:1"} },
			RetryAfter: 200 * time.Millisecond, MaxEnds: 3, Batch: 2, BatchBytes: 1 << 20, Now: time.Now, Logger: quiet,
		})))
		synctest.Wait()
		story(s)
		if err := s.system.Root.StopFuture(s.pid).Wait(); err != nil {
			t.Error(err)
		}
		// What was to be tried again finds nobody.
		<-time.After(time.Minute)
		s.system.Shutdown()
	})
}

// Operation implements State.
func (s *stage) Operation(string) (*statepb.Operation, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return proto.CloneOf(s.operation), len(s.running)
}

// Term implements State.
func (s *stage) Term() uint64 { return 7 }

// Denied implements State.
func (s *stage) Denied(string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.denied
}

// Allocation implements State.
func (s *stage) Allocation(job string) *statepb.Allocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.running, job) {
		return nil
	}
	return s.allocation(job)
}

func (s *stage) allocation(job string) *statepb.Allocation {
	return &statepb.Allocation{
		JobId: job, OperationId: "op", Task: s.operation.GetSpec().GetTasks()[0].GetName(), Node: "n1",
		Stop: &statepb.StopOrder{Reason: "preemption", Interruption: "preemption", GraceMillis: s.grace, Time: timestamppb.New(s.began)},
	}
}

// Memory implements MemoryState.
func (s *stage) Memory(_ string, digests bool) (tasks []*statepb.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, task := range s.memory {
		task = proto.CloneOf(task)
		if !digests {
			task.Memory.UserDigest, task.Memory.ProxyDigest = nil, nil
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// Reserve implements MemoryState.
func (s *stage) Reserve(string, string, int32) *statepb.CookieReserve { return nil }

// Profile implements MemoryState.
func (s *stage) Profile(key string) *statepb.MemoryProfile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.profiles[key]
}

// Learning implements MemoryState.
func (s *stage) Learning(string) *Learning { return nil }

// Leaving implements State.
func (s *stage) Leaving(string) (leaving []*statepb.Allocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range s.leaving {
		leaving = append(leaving, s.allocation(job))
	}
	return leaving
}

// Interrupt implements Signals.
func (s *stage) Tell(m *actorpb.InstanceWord) { s.note("word " + m.GetJobId() + " " + m.GetWord()) }

func (s *stage) Interrupt(m *actorpb.InterruptionSignal) {
	s.note(fmt.Sprintf("signal %s %s gone=%t", m.GetJobId(), m.GetReason(), m.GetGone()))
}

// ProposeAsync implements Log.
func (s *stage) ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, done)
	s.commands = commands
	for _, command := range commands {
		text := "propose " + string(command.ProtoReflect().Descriptor().Name())
		if m, ok := command.(*commandpb.FinishJobs); ok {
			text += fmt.Sprint(" ", m.GetEpoch())
			for _, job := range m.GetJobs() {
				text += " " + job.GetJobId()
			}
		}
		s.told = append(s.told, text)
	}
}

func (s *stage) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

func (s *stage) look() {
	s.system.Root.Send(s.pid, reconcile.Look{})
	synctest.Wait()
}

// say sends what an agent says of a job; the answer is told under the name of the
// question.
func (s *stage) say(question string, msg proto.Message) {
	s.system.Root.Send(s.pid, FromAgent{Message: msg, Reply: func(answer proto.Message) {
		switch m := answer.(type) {
		case *actorpb.Refused:
			s.note(question + ": refuse " + m.GetCode())
		case *actorpb.JobEndedAck:
			s.note(question + ": ack " + m.GetRefusal())
		case *actorpb.JobSpec:
			s.spec = m
			s.note(question + ": spec " + m.GetEnvironment()["WEIR_ADDRESSES"])
		}
	}})
	synctest.Wait()
}

func (s *stage) end(question, job string) {
	s.say(question, &actorpb.JobEnded{Node: "n1", OperationId: "op", Job: &statepb.FinishedJob{JobId: job, State: "completed"}})
}

// answer ends the proposal in flight; jobs are those of a FinishJobs, with the
// refusal of each.
func (s *stage) answer(result *commandpb.Result, err error) {
	s.t.Helper()
	s.mu.Lock()
	n := len(s.outcomes)
	s.mu.Unlock()
	if n != 1 {
		s.t.Fatalf("%d proposals in flight, want one", n)
	}
	s.answerLast(result, err)
}

// answerLast ends the latest of the proposals in flight.
func (s *stage) answerLast(result *commandpb.Result, err error) {
	s.t.Helper()
	s.mu.Lock()
	last := len(s.outcomes) - 1
	done := s.outcomes[last]
	s.outcomes = s.outcomes[:last]
	s.mu.Unlock()
	if err != nil {
		done(nil, err)
	} else {
		done([]*commandpb.Result{result}, nil)
	}
	synctest.Wait()
}

func finishedJobs(jobs ...*commandpb.FinishJobResult) *commandpb.Result {
	return &commandpb.Result{Value: &commandpb.Result_FinishJobs{FinishJobs: &commandpb.FinishJobsResult{Jobs: jobs}}}
}

func (s *stage) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *stage) want(what ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.told, what) {
		s.t.Errorf("told %q\nwant %q", s.told, what)
	}
	s.told = nil
}

func TestSpecsAreForTheirNode(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.say("mine", &actorpb.JobSpecRequest{Node: "n1", OperationId: "op", JobId: "a"})
		s.say("another's", &actorpb.JobSpecRequest{Node: "n2", OperationId: "op", JobId: "a"})
		s.say("nobody's", &actorpb.JobSpecRequest{Node: "n1", OperationId: "op", JobId: "z"})
		s.want("mine: spec r1:1", "another's: refuse not_found", "nobody's: refuse not_found")
	})
}

// TestNoSpecWithoutAGrant (T2): who has lost the grant of an account gets a job that has nothing to run, and
// is told why.
func TestNoSpecWithoutAGrant(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.mu.Lock()
		s.denied = "needs a grant"
		s.mu.Unlock()
		s.say("mine", &actorpb.JobSpecRequest{Node: "n1", OperationId: "op", JobId: "a"})
		want := &actorpb.JobSpec{JobId: "a", OperationId: "op", Task: "sort", Denied: "needs a grant"}
		if !proto.Equal(s.spec, want) {
			t.Errorf("%v, want %v", s.spec, want)
		}
	})
}

func TestEndsShareAProposal(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.end("first", "a")
		s.want("propose FinishJobs 2 a")
		s.end("second", "b")
		s.end("third", "c")
		s.end("second again", "b")
		s.want()
		s.answer(finishedJobs(&commandpb.FinishJobResult{JobId: "a"}), nil)
		s.want("first: ack ", "propose FinishJobs 2 b c")
		s.running = []string{"b", "c"}
		s.end("first again", "a")
		s.want("first again: ack unknown_allocation")
		s.answer(finishedJobs(&commandpb.FinishJobResult{JobId: "b"}, &commandpb.FinishJobResult{JobId: "c", Refusal: "unknown_allocation"}), nil)
		// The agent asks one question at a time: the last one is answered.
		s.want("second again: ack ", "third: ack unknown_allocation")
	})
}

func TestUnknownOutcomeIsProposedAgain(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.end("first", "a")
		s.end("second", "b")
		s.want("propose FinishJobs 2 a")
		s.answer(nil, errors.New("outcome unknown"))
		s.wait(199 * time.Millisecond)
		s.want()
		s.wait(time.Millisecond)
		s.want("propose FinishJobs 2 a b")
		s.answer(finishedJobs(&commandpb.FinishJobResult{JobId: "a", Refusal: "unknown_allocation"}, &commandpb.FinishJobResult{JobId: "b"}), nil)
		s.want("first: ack unknown_allocation", "second: ack ")
	})
}

func TestResultsThatAreTooMany(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.running = append(s.running, "d")
		for _, job := range s.running {
			s.end(job, job)
		}
		s.want("propose FinishJobs 2 a", "d: refuse overloaded")
	})
}

func TestAnotherHasTheOperation(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.end("first", "a")
		s.want("propose FinishJobs 2 a")
		s.answer(&commandpb.Result{Refusal: &commandpb.Refusal{Code: "stale_epoch"}}, nil)
		s.want("first: refuse unavailable")
		s.operation.Assignment.Epoch, s.operation.State = 3, "materializing"
		s.look()
		s.want()
	})
	onStage(t, "running", func(s *stage) {
		s.end("first", "a")
		s.want("propose FinishJobs 2 a")
		s.system.Root.Stop(s.pid)
		synctest.Wait()
		s.want("first: refuse unavailable")
	})
}

func TestStepsOfTheOperation(t *testing.T) {
	onStage(t, "initializing", func(s *stage) {
		s.want("propose PrepareOperation")
		s.answer(&commandpb.Result{Refusal: &commandpb.Refusal{Code: "stale_epoch"}}, nil)
		s.want()
		s.wait(200 * time.Millisecond)
		s.want("propose PrepareOperation")
		// What it became is heard of before the answer comes.
		s.operation.State = "materializing"
		s.look()
		s.want()
		s.answer(&commandpb.Result{}, nil)
		s.want("propose DefineTasks")
	})
}

func TestJobsOnTheirWayOutAreAnnouncedOnce(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.leaving = []string{"a"}
		s.look()
		s.look()
		s.want("signal a preemption gone=false")
		s.leaving = nil
		s.look()
		s.look()
		s.want("signal a preemption gone=true")
	})
}

func TestADeadlineThatComesNearerIsAnnounced(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.leaving, s.grace = []string{"a"}, 60_000
		s.look()
		s.grace = 90_000
		s.look()
		s.want("signal a preemption gone=false")
		s.grace = 30_000
		s.look()
		s.want("signal a preemption gone=false")
	})
}

func TestOutcomesOfAFormerLifeAreNotHeard(t *testing.T) {
	restart := func(s *stage) (former func([]*commandpb.Result, error)) {
		former = s.outcomes[0]
		s.outcomes = nil
		process, _ := s.system.ProcessRegistry.Get(s.pid)
		process.SendSystemMessage(s.pid, &actor.Restart{})
		synctest.Wait()
		return former
	}
	onStage(t, "running", func(s *stage) {
		s.end("first", "a")
		s.want("propose FinishJobs 2 a")
		former := restart(s)
		s.want("first: refuse unavailable")
		s.end("second", "b")
		s.want("propose FinishJobs 2 b")
		former(nil, errors.New("outcome unknown"))
		s.wait(time.Minute)
		s.want()
		s.answer(nil, errors.New("outcome unknown"))
		s.wait(200 * time.Millisecond)
		s.want("propose FinishJobs 2 b")
	})
	onStage(t, "initializing", func(s *stage) {
		s.want("propose PrepareOperation")
		former := restart(s)
		s.want("propose PrepareOperation")
		former(nil, errors.New("lost"))
		s.wait(time.Minute)
		s.want()
	})
}
