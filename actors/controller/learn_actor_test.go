package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// teach has the replicated state have these samples of the operation's task.
func (s *stage) teach(samples ...float64) {
	c := &committed{&statepb.Task{Name: "sort", Memory: &statepb.TaskMemory{Profile: "sorting", Reserve: &statepb.JobReserve{User: 1}}}}
	for _, v := range samples {
		c.append(v)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = []*statepb.Task{c.task}
}

func TestLearningIsToldNowAndThen(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.operation.Spec = sorting()
		s.teach(.2)
		s.look()
		s.want("propose UpdateReserves")
		s.teach(.2, .3)
		s.look()
		s.want()
		r := s.commands[0].(*commandpb.UpdateReserves).GetTasks()[0]
		if r.GetSamples() != 1 || r.GetReserve().GetUserFactor() != .2 {
			t.Errorf("tells %v", r)
		}
		s.answer(&commandpb.Result{}, nil)
		s.want()
		s.wait(time.Second)
		s.want("propose UpdateReserves")
		s.answer(nil, errors.New("outcome unknown"))
		s.wait(199 * time.Millisecond)
		s.want()
		s.wait(801 * time.Millisecond)
		s.want("propose UpdateReserves")
		s.answer(&commandpb.Result{Refusal: &commandpb.Refusal{Code: "stale_digest"}}, nil)
		s.teach(.2, .2, .2, .2, .2, .2, .2, .2, .2, .4)
		s.wait(time.Second)
		s.want("propose UpdateReserves")
	})
}

func TestWhatWasLearnedIsLeft(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.operation.Spec = sorting()
		s.teach(.2, .2, .2, .2, .2, .2, .2, .2, .2, .2)
		s.operation.State = "completing"
		s.look()
		s.want("propose SaveMemoryProfiles")
		s.operation.State = "completed"
		s.system.Root.Send(s.pid, Over{})
		s.answer(&commandpb.Result{Refusal: &commandpb.Refusal{Code: "stale_profile"}}, nil)
		s.want()
		s.mu.Lock()
		s.profiles = map[string]*statepb.MemoryProfile{"sorting": {SampleCount: 77}}
		s.mu.Unlock()
		s.wait(200 * time.Millisecond)
		s.want("propose SaveMemoryProfiles")
		if got := s.commands[0].(*commandpb.SaveMemoryProfiles).GetProfiles()[0].GetExpectedSampleCount(); got != 77 {
			t.Errorf("expects %d samples of the profile, want what it has", got)
		}
		if process, _ := s.system.ProcessRegistry.Get(s.pid); process == s.system.DeadLetter {
			t.Fatal("the controller has stopped before what it learned was left")
		}
		s.answer(&commandpb.Result{}, nil)
		s.gone()
	})
	onStage(t, "running", func(s *stage) {
		s.operation.State = "aborted"
		s.system.Root.Send(s.pid, Over{})
		s.gone()
	})
}

// TestWhoFailsInTheEndStopsAllTheSame: the next life of the actor leaves what was learned, if
// that is its own still, and stops, though it is not told again that the operation has ended.
func TestWhoFailsInTheEndStopsAllTheSame(t *testing.T) {
	for _, epoch := range []uint64{2, 3} {
		onStage(t, "running", func(s *stage) {
			s.operation.Spec = sorting()
			s.teach(.2, .2, .2, .2, .2, .2, .2, .2, .2, .2)
			s.operation.State = "completed"
			s.system.Root.Send(s.pid, Over{})
			s.wait(0)
			s.want("propose SaveMemoryProfiles")
			s.operation.Assignment.Epoch = epoch
			process, _ := s.system.ProcessRegistry.Get(s.pid)
			process.SendSystemMessage(s.pid, &actor.Restart{})
			s.wait(0)
			if epoch == 2 {
				s.want("propose SaveMemoryProfiles")
				s.answerLast(&commandpb.Result{}, nil)
			}
			s.gone()
		})
	}
}

func TestWhatIsToldLastDoesNotKeepTheRestFromBeingLeft(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.operation.Spec = sorting()
		s.teach(.2, .2, .2, .2, .2, .2, .2, .2, .2, .2)
		s.look()
		s.want("propose UpdateReserves")
		s.operation.State = "completing"
		s.look()
		s.want("propose SaveMemoryProfiles")
		s.operation.State = "completed"
		s.system.Root.Send(s.pid, Over{})
		s.answerLast(&commandpb.Result{Refusal: &commandpb.Refusal{Code: "stale_profile"}}, nil)
		s.answerLast(nil, errors.New("outcome unknown"))
		s.wait(200 * time.Millisecond)
		s.want("propose SaveMemoryProfiles")
		s.answer(&commandpb.Result{}, nil)
		s.gone()
	})
}

// gone waits for the controller's end.
func (s *stage) gone() {
	s.t.Helper()
	s.wait(time.Second)
	s.want()
	if process, known := s.system.ProcessRegistry.Get(s.pid); known {
		s.t.Errorf("the controller of an operation that is over is there still: %v", process)
	}
}
