package reconcile

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
)

// stage is what an actor works with, in a bubble of time.
type stage struct {
	t      *testing.T
	system *actor.ActorSystem
	pid    *actor.PID
	log    bytes.Buffer

	mu sync.Mutex
	// told is what the actor did, in order; outcomes end what it has proposed.
	told     []string
	outcomes []func([]*commandpb.Result, error)
}

// onStage has a story played by the actor that producer makes.
func onStage(t *testing.T, producer func(s *stage) actor.Producer, story func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t}
		quiet := slog.New(slog.DiscardHandler)
		s.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		s.pid = s.system.Root.Spawn(actor.PropsFromProducer(producer(s)))
		synctest.Wait()
		story(s)
		if err := s.system.Root.StopFuture(s.pid).Wait(); err != nil {
			t.Error(err)
		}
		s.system.Shutdown()
	})
}

// ProposeAsync implements Log.
func (s *stage) ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error)) {
	s.tell(fmt.Sprintf("propose %d", len(commands)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, done)
}

func (s *stage) tell(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

// answer ends the proposal that was made first.
func (s *stage) answer(refusal *commandpb.Refusal, err error) {
	s.mu.Lock()
	done := s.outcomes[0]
	s.outcomes = s.outcomes[1:]
	s.mu.Unlock()
	done([]*commandpb.Result{{}, {Refusal: refusal}}, err)
	synctest.Wait()
}

func (s *stage) send(message any) {
	s.system.Root.Send(s.pid, message)
	synctest.Wait()
}

func (s *stage) restart() {
	process, _ := s.system.ProcessRegistry.Get(s.pid)
	process.SendSystemMessage(s.pid, &actor.Restart{})
	synctest.Wait()
}

// want compares what the actor did since the last time.
func (s *stage) want(story string, want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.told, want) {
		s.t.Errorf("%s: did %q, want %q", story, s.told, want)
	}
	s.told = nil
}

// ruled returns the actor of a rule that decides by the steps, one after the other, and then
// does nothing.
func ruled(steps ...Step) func(*stage) actor.Producer {
	return func(s *stage) actor.Producer {
		return New(Config{
			Log: s, RetryAfter: time.Second, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
			Decide: func(time.Time) (step Step) {
				s.tell("look")
				if len(steps) > 0 {
					step, steps = steps[0], steps[1:]
				}
				return step
			},
		})
	}
}

func one() []proto.Message { return []proto.Message{&commandpb.AdvanceOperation{}} }

// TestOneStepAtATime: a step is proposed when there is one, and the next only after its outcome.
func TestOneStepAtATime(t *testing.T) {
	onStage(t, ruled(Step{Propose: one()}, Step{Propose: one(), Follow: true}, Step{}), func(s *stage) {
		s.want("at first", "look", "propose 1")
		s.send(Look{})
		s.send(Look{})
		s.want("while it is in flight")
		s.answer(nil, nil)
		s.want("when that is known, for something has changed", "look", "propose 1")
		s.answer(nil, nil)
		s.want("one that is followed by another", "look")
		<-time.After(time.Hour)
		s.want("nothing more is due")
	})
}

// TestAStepThatFailsIsDecidedAgain after a pause, whatever became of it.
func TestAStepThatFailsIsDecidedAgain(t *testing.T) {
	for name, fail := range map[string]func(s *stage){
		"not committed": func(s *stage) { s.answer(nil, errors.New("no leader")) },
		"refused":       func(s *stage) { s.answer(&commandpb.Refusal{Code: "stale_term"}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, ruled(Step{Propose: one(), Follow: true}, Step{Propose: one()}), func(s *stage) {
				s.want("at first", "look", "propose 1")
				fail(s)
				<-time.After(999 * time.Millisecond)
				s.want("too early")
				<-time.After(time.Millisecond)
				s.want("after the pause", "look", "propose 1")
				s.answer(nil, nil)
				<-time.After(time.Hour)
				s.want("it was committed")
			})
		})
	}
}

// TestLooksAgainWhenTheRuleSaysSo, once, unless it looks before.
func TestLooksAgainWhenTheRuleSaysSo(t *testing.T) {
	in := func(d time.Duration) Step { return Step{Again: time.Now().Add(d)} }
	onStage(t, func(s *stage) actor.Producer { return ruled(in(time.Minute), in(2*time.Minute), in(-time.Minute))(s) }, func(s *stage) {
		s.want("at first", "look")
		<-time.After(30 * time.Second)
		s.send(Look{})
		s.want("something has changed", "look")
		<-time.After(89 * time.Second)
		s.want("the first time does not count any more")
		<-time.After(time.Second)
		s.want("a time that has passed is now", "look", "look")
	})
}

// clumsy proposes, waits and fails as it is told.
type clumsy struct {
	*stage
	life  *Life
	timer Timer
	name  string
}

func (c *clumsy) Start() { c.tell(c.name + " starts") }
func (c *clumsy) Stop()  { c.tell(c.name + " stops") }

func (c *clumsy) Take(message any) bool {
	switch m := message.(type) {
	case string:
		c.life.Propose(c, func([]*commandpb.Result, error) { c.tell(c.name + " hears of " + m) }, one()...)
	case time.Duration:
		c.life.After(&c.timer, m, func() {
			c.tell(fmt.Sprint(c.name, " after ", m, " as ", c.life.Context().Self().GetId() == c.pid.GetId()))
		})
	default:
		return false
	}
	return true
}

// TestLives: what a life has asked for reaches that life alone.
func TestLives(t *testing.T) {
	lives := 0
	onStage(t, func(s *stage) actor.Producer {
		return Live(slog.New(slog.NewTextHandler(&s.log, nil)), func(life *Life) Body {
			lives++
			return &clumsy{stage: s, life: life, name: fmt.Sprint("life ", lives)}
		})
	}, func(s *stage) {
		s.send("rain")
		s.send(time.Hour)
		s.send(time.Minute)
		s.want("first", "life 1 starts", "propose 1")
		s.restart()
		s.send("snow")
		s.answer(nil, nil)
		<-time.After(2 * time.Hour)
		s.want("the outcome and the timer of the first life are nobody's", "life 1 stops", "life 2 starts", "propose 1")
		s.answer(nil, nil)
		s.send(time.Hour)
		s.send(time.Minute)
		<-time.After(2 * time.Hour)
		s.want("a timer that is set again", "life 2 hears of snow", "life 2 after 1m0s as true")
		s.send(7)
		if got := s.log.String(); strings.Count(got, "unexpected message") != 1 || !strings.Contains(got, "type=int") {
			t.Errorf("logged %q, want the message that nobody knows", got)
		}
	})
}

func TestRefusal(t *testing.T) {
	if got := Refusal([]*commandpb.Result{{}, nil}); got != nil {
		t.Errorf("got %v, want none", got)
	}
	refused := &commandpb.Result{Refusal: &commandpb.Refusal{Code: "first"}}
	if got := Refusal([]*commandpb.Result{{}, refused, {}}); got.GetCode() != "first" {
		t.Errorf("got %v, want the first", got)
	}
}
