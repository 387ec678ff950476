package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// stage is what a tree's actor works with, in a bubble of time.
type stage struct {
	*world
	system  *actor.ActorSystem
	pid     *actor.PID
	figures Figures
	// gone: there is no such tree.
	gone bool
	// heartbeat is the period of agents.
	heartbeat time.Duration

	mu sync.Mutex
	// jobs counts the ids that were made.
	jobs int
	// outcomes end what has been proposed and not answered.
	outcomes []func([]*commandpb.Result, error)
	// recorded are the seconds of which pools were recorded.
	recorded []int64
	// proposals are all that were made.
	proposals []proto.Message
}

// onStage has a story played by the actor of a tree with the nodes n1 and n2 of two
// slots, and an operation that wants more jobs than they take. One proposal may be
// in flight.
func onStage(t *testing.T, story func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		s := &stage{world: newWorld(t)}
		s.register("n1", 1, 2)
		s.register("n2", 1, 2)
		s.run("op", "", 10)
		s.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		s.pid = s.system.Root.Spawn(actor.PropsFromProducer(New(Config{
			Tree: scheduling.DefaultTree, Term: 1, State: s, Log: s, Engine: engine.Default(), TickEvery: time.Second, TickGap: time.Millisecond, Heartbeat: func() time.Duration { return s.heartbeat },
			CheckpointEvery: 5 * time.Second, NodesPerPlan: 1, MaxInFlight: 1, NewID: s.newID, Now: time.Now, Figures: &s.figures, History: s, Logger: quiet,
		})))
		synctest.Wait()
		story(s)
		if err := s.system.Root.StopFuture(s.pid).Wait(); err != nil {
			t.Error(err)
		}
		s.system.Shutdown()
	})
}

// Seed implements State.
func (s *stage) Seed(scheduling.TreeName) (Seed, bool) { return s.seed(), !s.gone }

// Due implements History.
func (s *stage) Due(_ scheduling.TreeName, now time.Time) bool {
	return len(s.recorded) == 0 || s.recorded[len(s.recorded)-1] != now.Unix()
}

// Record implements History.
func (s *stage) Record(_ scheduling.TreeName, now time.Time, pools []engine.PoolView) {
	if len(pools) == 0 || pools[0].Name != scheduling.RootPool {
		s.t.Fatalf("recorded %v, want the root first", pools)
	}
	s.recorded = append(s.recorded, now.Unix())
}

// ProposeAsync implements Log.
func (s *stage) ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proposals = append(s.proposals, commands...)
	s.outcomes = append(s.outcomes, done)
}

// forget drops the proposals so far.
func (s *stage) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proposals = nil
}

func (s *stage) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs++
	return fmt.Sprint("job-", s.jobs)
}

// send has the actor get a message, and all that follows from it at once.
func (s *stage) send(msg any) {
	s.system.Root.Send(s.pid, msg)
	synctest.Wait()
}

func (s *stage) offerBoth() {
	for _, node := range []string{"n1", "n2"} {
		s.send(Offer{Node: node, Limits: resource.Amounts{UserSlots: 2, CPU: 200, Memory: 2000}})
	}
}

// restart gives the actor another life, as its supervisor does.
func (s *stage) restart() {
	process, _ := s.system.ProcessRegistry.Get(s.pid)
	process.SendSystemMessage(s.pid, &actor.Restart{})
	synctest.Wait()
}

// want compares how many proposals have no answer.
func (s *stage) want(inFlight int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outcomes) != inFlight {
		s.t.Fatalf("%d proposals in flight, want %d", len(s.outcomes), inFlight)
	}
}

// lose answers the oldest proposal: it was not committed.
func (s *stage) lose() {
	s.mu.Lock()
	done := s.outcomes[0]
	s.outcomes = s.outcomes[1:]
	s.mu.Unlock()
	done(nil, errors.New("lost"))
	synctest.Wait()
}

func TestOneProposalAtATime(t *testing.T) {
	onStage(t, func(s *stage) {
		s.offerBoth()
		s.want(1)
		s.lose()
		s.want(1)
	})
}

// TestFiguresSayWhoWasLeftOut plans for nodes that are full, for an operation at its
// limit, and for one that may not use the node.
func TestFiguresSayWhoWasLeftOut(t *testing.T) {
	for reason, options := range map[string]map[string]*structpb.Value{
		"user_slots": {},
		ByLimits:     {"resource_limits/user_slots": structpb.NewNumberValue(1)},
		ByFilter:     {"scheduling_tag_filter": structpb.NewStringValue("gpu")},
	} {
		t.Run(reason, func(t *testing.T) {
			onStage(t, func(s *stage) {
				if len(options) > 0 {
					s.must(&commandpb.UpdateOperation{OperationId: "op", User: "ann", Changes: []*commandpb.OperationChange{{Options: &commandpb.Changes{Values: options}}}})
					s.send(Committed{Index: s.index, Events: s.world.log[len(s.world.log)-1].events, Done: func() {}})
				}
				s.offerBoth()
				left := s.figures.Stats().LeftOut
				if left[reason] == 0 {
					t.Errorf("left out: %v, want some for %s", left, reason)
				}
				for other, n := range left {
					if other != reason && n > 0 {
						t.Errorf("%d were left out for %s, want none", n, other)
					}
				}
			})
		})
	}
}

func TestOutcomesOfAFormerLifeAreNotHeard(t *testing.T) {
	onStage(t, func(s *stage) {
		s.offerBoth()
		s.restart()
		s.offerBoth()
		s.want(2)
		s.lose()
		// The second life's own one is in flight, and n2 waits for its outcome.
		s.want(1)
		s.lose()
		s.want(1)
	})
}

// TestNodeThatMayBeDeadGetsNoJobs until it is offered again, whatever else would have it planned for.
func TestNodeThatMayBeDeadGetsNoJobs(t *testing.T) {
	onStage(t, func(s *stage) {
		s.heartbeat = 5 * time.Second
		s.offerBoth()
		s.send(Doubt{Node: "n1"})
		s.send(Doubt{Node: "n2"})
		s.lose()
		s.want(0)
		<-time.After(3 * OfferEvery)
		synctest.Wait()
		s.want(0)
		s.offerBoth()
		s.want(1)
	})
}

// TestNodesAreOfferedWithoutHeartbeats where agents send them rarely: what was not committed is planned again, on each
// node within a second.
func TestNodesAreOfferedWithoutHeartbeats(t *testing.T) {
	for heartbeat, want := range map[time.Duration]int{time.Second: 0, 5 * time.Second: 1} {
		onStage(t, func(s *stage) {
			s.heartbeat = heartbeat
			s.offerBoth()
			for range 2 {
				s.lose()
			}
			s.want(0)
			for range 2 {
				<-time.After(OfferEvery)
				synctest.Wait()
				s.want(want)
				if want > 0 {
					s.lose()
					s.want(want)
					s.lose()
					s.want(0)
				}
			}
		})
	}
}

func TestTicksOfAFormerLifeAreNotHeard(t *testing.T) {
	onStage(t, func(s *stage) {
		<-time.After(500 * time.Millisecond)
		s.restart()
		<-time.After(10*time.Second + 100*time.Millisecond)
		synctest.Wait()
		if got := s.figures.Stats().Updates; got != 12 {
			t.Errorf("%d updates, want one at each of two starts and one a second since the last", got)
		}
	})
}

// TestATreeThatIsGoneIsNotScheduled restarts the actor when its tree has been removed:
// it answers all that it is sent, and does nothing.
func TestATreeThatIsGoneIsNotScheduled(t *testing.T) {
	onStage(t, func(s *stage) {
		s.offerBoth()
		s.want(1)
		s.gone = true
		s.restart()
		done, seen := false, false
		s.send(Committed{Index: 1e6, Done: func() { done = true }})
		s.send(View{Reply: func(*actorpb.SchedulerView) { seen = true }})
		s.offerBoth()
		s.send(Withdraw{Node: "n1"})
		s.want(1)
		if !done || !seen {
			t.Errorf("the entry is done: %t, the view was answered: %t", done, seen)
		}
		if got := s.figures.Stats().InFlight; got != 0 {
			t.Errorf("%d starts in flight are counted, want 0", got)
		}
	})
}

// TestATreeThatIsBackIsScheduled has the actor begin while its tree is gone, and then
// hear of one of the same name.
func TestATreeThatIsBackIsScheduled(t *testing.T) {
	onStage(t, func(s *stage) {
		s.gone = true
		s.restart()
		hear := func(tree scheduling.TreeName, removed bool) {
			done := false
			s.index++
			s.send(Committed{Index: s.index, Events: []state.Event{state.TreeChanged{Tree: tree, Removed: removed}}, Done: func() { done = true }})
			if !done {
				t.Fatalf("entry %d is not dealt with", s.index)
			}
			s.offerBoth()
		}
		hear(scheduling.DefaultTree, true)
		s.gone = false
		hear("other", false)
		s.want(0)
		hear(scheduling.DefaultTree, false)
		s.want(1)
		if got := s.figures.Stats().InFlight; got != 2 {
			t.Errorf("%d starts in flight, want 2", got)
		}
	})
}

func TestAllWhoLookBetweenTwoUpdatesShareAView(t *testing.T) {
	onStage(t, func(s *stage) {
		look := func() (seen *actorpb.SchedulerView) {
			s.send(View{Reply: func(v *actorpb.SchedulerView) { seen = v }})
			return seen
		}
		first := look()
		if len(first.GetNodes()) != 2 || look() != first {
			t.Errorf("got %v, then another", first)
		}
		var one *actorpb.SchedulerView
		s.send(View{Of: &actorpb.SchedulerViewRequest{Pool: "default"}, Reply: func(v *actorpb.SchedulerView) { one = v }})
		if one == first || len(one.GetElements()) != 1 || look() != first {
			t.Errorf("of one element: %v", one)
		}
		s.offerBoth()
		<-time.After(time.Second)
		synctest.Wait()
		if second := look(); second == first || second.GetTotal().GetUserSlots() != 4 {
			t.Errorf("after an update: %v", second)
		}
	})
}
