package operation

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/reconcile"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// stage is what an operation's actor works with, in a bubble of time.
type stage struct {
	t      *testing.T
	system *actor.ActorSystem
	pid    *actor.PID

	mu        sync.Mutex
	operation *statepb.Operation
	gone      time.Time
	proposed  []string
	outcomes  []func([]*commandpb.Result, error)
}

// onStage has a story played by the actor of an operation that is in a state.
func onStage(t *testing.T, state string, limit time.Duration, story func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		s := &stage{t: t, operation: &statepb.Operation{
			Id: "op", State: state, StartTime: timestamppb.New(time.Now()), Assignment: &statepb.Assignment{Replica: "r1", Epoch: 1},
			Spec: &statepb.OperationSpec{TimeLimit: durationpb.New(limit)},
		}}
		s.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		s.pid = s.system.Root.Spawn(actor.PropsFromProducer(New(Config{
			ID: "op", Term: 4, State: s, Replicas: s, Log: s, ReassignAfter: 2 * time.Second, RetryAfter: 200 * time.Millisecond,
			Now: time.Now, Logger: quiet,
		})))
		synctest.Wait()
		story(s)
		if err := s.system.Root.StopFuture(s.pid).Wait(); err != nil {
			t.Error(err)
		}
		s.system.Shutdown()
	})
}

// Operation implements State.
func (s *stage) Operation(string) (*statepb.Operation, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return proto.CloneOf(s.operation), 0
}

// Choose implements Replicas.
func (s *stage) Choose(string) (string, bool) { return "r2", true }

// GoneSince implements Replicas.
func (s *stage) GoneSince(string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// ProposeAsync implements Log.
func (s *stage) ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, command := range commands {
		s.proposed = append(s.proposed, describe(s.t, command))
	}
	s.outcomes = append(s.outcomes, done)
}

func (s *stage) look() {
	s.system.Root.Send(s.pid, reconcile.Look{})
	synctest.Wait()
}

// answer ends the proposal that is in flight; change is what it did to the state.
func (s *stage) answer(result *commandpb.Result, err error, change func()) {
	s.t.Helper()
	s.mu.Lock()
	if len(s.outcomes) != 1 {
		s.mu.Unlock()
		s.t.Fatalf("%d proposals in flight, want one", len(s.outcomes))
	}
	done := s.outcomes[0]
	s.outcomes = nil
	change()
	s.mu.Unlock()
	done([]*commandpb.Result{result}, err)
	synctest.Wait()
}

func (s *stage) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// want compares what has been proposed since the last time.
func (s *stage) want(what ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.proposed, what) {
		s.t.Errorf("proposed %q, want %q", s.proposed, what)
	}
	s.proposed = nil
}

var (
	done    = &commandpb.Result{}
	refused = &commandpb.Result{Refusal: &commandpb.Refusal{Code: "stale_term"}}
)

func TestLooksShareAStep(t *testing.T) {
	onStage(t, "starting", 0, func(s *stage) {
		s.want("starting>waiting_for_agent", "r2@2")
		for range 3 {
			s.look()
		}
		s.want()
		s.answer(done, nil, func() { s.operation.State, s.operation.Assignment.Epoch = "completing", 2 })
		s.want("completing>completed")
		s.answer(done, nil, func() { s.operation.State = "completed" })
		s.wait(time.Hour)
		s.want()
	})
}

func TestStepThatWasNotTaken(t *testing.T) {
	for name, fail := range map[string]func(s *stage){
		"refused": func(s *stage) { s.answer(refused, nil, func() {}) },
		"lost":    func(s *stage) { s.answer(nil, errors.New("lost"), func() {}) },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, "aborting", 0, func(s *stage) {
				s.want("aborting>aborted")
				fail(s)
				s.wait(199 * time.Millisecond)
				s.want()
				s.wait(time.Millisecond)
				s.want("aborting>aborted")
				s.look()
				fail(s)
				// What came meanwhile may have changed everything.
				s.want("aborting>aborted")
			})
		})
	}
}

func TestTimers(t *testing.T) {
	onStage(t, "running", time.Minute, func(s *stage) {
		s.want()
		s.mu.Lock()
		s.gone = time.Now()
		s.mu.Unlock()
		s.look()
		s.wait(2*time.Second - time.Millisecond)
		s.want()
		s.wait(time.Millisecond)
		s.want("r2@2")
		s.answer(done, nil, func() { s.gone, s.operation.Assignment = time.Time{}, &statepb.Assignment{Replica: "r2", Epoch: 2} })
		s.wait(58*time.Second - time.Millisecond)
		s.want()
		s.wait(time.Millisecond)
		s.want("running>failing!")
	})
}

func TestOutcomesOfAFormerLifeAreNotHeard(t *testing.T) {
	onStage(t, "aborting", 0, func(s *stage) {
		s.want("aborting>aborted")
		former := s.outcomes[0]
		s.outcomes = nil
		process, _ := s.system.ProcessRegistry.Get(s.pid)
		process.SendSystemMessage(s.pid, &actor.Restart{})
		synctest.Wait()
		s.want("aborting>aborted")
		former([]*commandpb.Result{refused}, nil)
		s.wait(time.Minute)
		s.want()
		s.answer(refused, nil, func() {})
		s.wait(200 * time.Millisecond)
		s.want("aborting>aborted")
	})
}
