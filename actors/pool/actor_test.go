package pool

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/reconcile"
	"weir/messages/commandpb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// stage is what the actor of pool ads works with, in a bubble of time.
type stage struct {
	t      *testing.T
	system *actor.ActorSystem
	pid    *actor.PID

	mu       sync.Mutex
	view     View
	err      error
	proposed int
	outcomes []func([]*commandpb.Result, error)
}

// Admission implements State.
func (s *stage) Admission(scheduling.TreeName, scheduling.PoolName) (View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view, s.err
}

// ProposeAsync implements Log.
func (s *stage) ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proposed += len(commands)
	s.outcomes = append(s.outcomes, done)
}

func (s *stage) look() {
	s.system.Root.Send(s.pid, reconcile.Look{})
	synctest.Wait()
}

func (s *stage) set(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.Pending = nil
	for _, id := range ids {
		s.view.Pending = append(s.view.Pending, pending(id))
	}
}

func (s *stage) answer(result *commandpb.Result, err error) {
	s.t.Helper()
	s.mu.Lock()
	if len(s.outcomes) != 1 {
		s.mu.Unlock()
		s.t.Fatalf("%d proposals in flight, want one", len(s.outcomes))
	}
	done := s.outcomes[0]
	s.outcomes = nil
	s.mu.Unlock()
	done([]*commandpb.Result{result}, err)
	synctest.Wait()
}

// want compares how many commands have been proposed since the last time.
func (s *stage) want(n int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proposed != n {
		s.t.Errorf("%d commands proposed, want %d", s.proposed, n)
	}
	s.proposed = 0
}

func (s *stage) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// onStage has a story played by the actor of pool ads, with operations that wait.
func onStage(t *testing.T, waiting []string, story func(s *stage)) {
	tree := buildTree(t)
	counts, err := tree.Total(map[scheduling.PoolName]pooltree.Count{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		s := &stage{t: t, view: View{Tree: "default", Pools: tree, Counts: counts}}
		s.set(waiting...)
		s.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		s.pid = s.system.Root.Spawn(actor.PropsFromProducer(New(Config{
			Tree: "default", Name: "ads", Term: 4, State: s, Log: s, RetryAfter: 200 * time.Millisecond, Now: time.Now, Logger: quiet,
		})))
		synctest.Wait()
		story(s)
		if err := s.system.Root.StopFuture(s.pid).Wait(); err != nil {
			t.Error(err)
		}
		s.system.Shutdown()
	})
}

func TestLooks(t *testing.T) {
	onStage(t, []string{"a", "b"}, func(s *stage) {
		s.want(2)
		for range 3 {
			s.look()
		}
		s.want(0)
		s.set("b")
		s.answer(&commandpb.Result{}, nil)
		s.want(1)
		for _, fail := range []func(){
			func() { s.answer(&commandpb.Result{Refusal: &commandpb.Refusal{Code: "pool_running_limit"}}, nil) },
			func() { s.answer(nil, errors.New("lost")) },
		} {
			fail()
			s.wait(199 * time.Millisecond)
			s.want(0)
			s.wait(time.Millisecond)
			s.want(1)
		}
		s.set()
		s.answer(&commandpb.Result{}, nil)
		s.set("c")
		s.wait(time.Hour)
		s.want(0)
		s.look()
		s.want(1)
		s.err = errors.New("no such pool")
		s.answer(nil, errors.New("lost"))
		s.wait(time.Hour)
		s.want(0)
	})
}

func TestOutcomesOfAFormerLifeAreNotHeard(t *testing.T) {
	onStage(t, []string{"a"}, func(s *stage) {
		s.want(1)
		former := s.outcomes[0]
		s.outcomes = nil
		process, _ := s.system.ProcessRegistry.Get(s.pid)
		process.SendSystemMessage(s.pid, &actor.Restart{})
		synctest.Wait()
		s.want(1)
		former(nil, errors.New("lost"))
		s.wait(time.Minute)
		s.want(0)
		s.answer(nil, errors.New("lost"))
		s.wait(200 * time.Millisecond)
		s.want(1)
	})
}
