package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/reconcile"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func TestRegistrationIsCommittedFirst(t *testing.T) {
	onStage(t, nil, nil, func(s *stage) {
		s.say(registration(7))
		s.want("propose RegisterNode")
		s.say(registration(7))
		s.want("refuse unavailable")
		s.commit(func() { s.record, s.granted = online(7), []Granted{granted("a", 7, 10)} })
		s.want("AgentRegistered", "plan 3.99 +a", "offer n1")
		s.say(registration(7))
		s.want("AgentRegistered", "plan 3.99 +a", "offer n1")
	})
}

// TestNodeWithoutAGrant (T6): a node that claims what it may not is refused before anything is committed.
// A session that is refused gets no more jobs, and ends like that of an agent that is not heard.
func TestNodeWithoutAGrant(t *testing.T) {
	onStage(t, nil, nil, func(s *stage) {
		s.set(func() { s.refused = registration(7).GetTags()[0] })
		s.say(registration(7))
		s.want(fmt.Sprintf("remember n1 %v", registration(7).GetTags()), "refuse bad_request")
	})
	onStage(t, online(7), nil, func(s *stage) {
		s.say(registration(7))
		s.want("AgentRegistered", "offer n1")
		s.beat(1)
		s.want("HeartbeatAck", "offer n1")
		s.set(func() { s.refused = registration(7).GetTags()[0] })
		s.beat(2)
		s.want("withdraw n1", "refuse not_registered")
		s.say(registration(7))
		s.want(fmt.Sprintf("remember n1 %v", registration(7).GetTags()), "refuse bad_request")
		s.wait(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(s.told, "propose SetNodeOffline") {
			t.Errorf("after its lease: %q", s.told)
		}
	})
}

// TestAgentIsToldRevocations (T6): an agent is told the revocations once, and again when they have changed,
// with its registration or a heartbeat. One that keeps none is told none.
func TestAgentIsToldRevocations(t *testing.T) {
	onStage(t, online(7), nil, func(s *stage) {
		kept := actorpb.NoRevocations
		sequence := uint64(0)
		ask := func(what string, told bool) {
			t.Helper()
			before := kept
			reply := func(answer proto.Message) {
				if m := answer.(interface{ GetRevocations() *actorpb.Revocations }).GetRevocations(); m != nil {
					kept = m.GetVersion()
				}
			}
			if what == "registers" {
				m := registration(7)
				m.Revocations = kept
				sequence = 0
				s.system.Root.Send(s.pid, FromAgent{Message: m, Reply: reply})
			} else {
				sequence++
				s.system.Root.Send(s.pid, FromAgent{Message: &actorpb.Heartbeat{
					Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: sequence, Revocations: kept,
				}, Reply: reply})
			}
			synctest.Wait()
			if (kept != before) != told {
				t.Errorf("it %s with %q, and then has %q; told should be %v", what, before, kept, told)
			}
		}
		ask("registers", false)
		s.set(func() { s.revoked = []*statepb.Revocation{{Serial: "1a", Reason: "stolen", User: "admin"}} })
		ask("beats", true)
		ask("beats", false)
		ask("registers", false)
		s.set(func() { s.revoked = append(s.revoked, &statepb.Revocation{Role: "replica", Name: "r1"}) })
		ask("registers", true)
		ask("beats", false)
		s.set(func() { s.revoked = nil })
		ask("beats", true)
		if kept != actorpb.NoRevocations {
			t.Errorf("after all were lifted it has %q", kept)
		}
		s.set(func() { s.revoked = []*statepb.Revocation{{Serial: "1a"}} })
		kept = ""
		ask("registers", false)
		ask("beats", false)
	})
}

// TestBoardShowsWhatAgentsHold (T6) of the cluster's certificates: as told last.
func TestBoardShowsWhatAgentsHold(t *testing.T) {
	onStage(t, online(7), nil, func(s *stage) {
		shows := func(want string) {
			t.Helper()
			synctest.Wait()
			s.set(func() {
				if got := strings.Join(s.board.GetCredentials().GetRoots(), " "); got != want {
					t.Errorf("the board shows %q, want %q", got, want)
				}
			})
		}
		m := registration(7)
		m.Credentials = &actorpb.HeldCredentials{Roots: []string{"a1"}}
		s.system.Root.Send(s.pid, FromAgent{Message: m, Reply: func(proto.Message) {}})
		shows("a1")
		for sequence, roots := range [][]string{{"a1", "b2"}, nil} {
			beat := &actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: uint64(sequence + 1)}
			if roots != nil {
				beat.Credentials = &actorpb.HeldCredentials{Roots: roots}
			}
			s.system.Root.Send(s.pid, FromAgent{Message: beat, Reply: func(proto.Message) {}})
			shows("a1 b2")
		}
	})
}

// TestHeartbeatWithoutNews renews the lease and offers the node, and reads nothing. What it does not repeat is still held.
func TestHeartbeatWithoutNews(t *testing.T) {
	onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
		s.system.Root.Send(s.pid, FromAgent{Message: registration(7, held("a", "running")), Reply: func(answer proto.Message) {
			if !answer.(*actorpb.AgentRegistered).GetTakesChanges() {
				t.Error("the agent is not told that its heartbeats may leave out what has not changed")
			}
		}})
		synctest.Wait()
		s.want("offer n1")
		s.set(func() { s.reads = 0 })
		s.wait(time.Second)
		s.say(&actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: 1, OnlyChanges: true})
		s.want("HeartbeatAck", "offer n1")
		s.set(func() {
			if s.reads != 0 || time.Since(s.heard) != 0 {
				t.Errorf("read the state %d times, and readers see that it was heard %s ago", s.reads, time.Since(s.heard))
			}
		})
		s.say(&actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: 2, OnlyChanges: true, Jobs: []*actorpb.HeldJob{held("x", "running")}})
		s.want("HeartbeatAck", "plan 3.99 -x unconfirmed", "offer n1")
		s.say(&actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: 3, OnlyChanges: true, Gone: []string{"x", "a"}})
		s.want("HeartbeatAck", "plan 3.99 +a", "offer n1")
	})
}

func TestRegistrationThatIsNotCommitted(t *testing.T) {
	refused := func(code string) []*commandpb.Result {
		return []*commandpb.Result{{Refusal: &commandpb.Refusal{Code: code}}}
	}
	for name, test := range map[string]struct {
		results []*commandpb.Result
		err     error
		want    string
	}{
		"another leads":                         {refused("stale_term"), nil, "refuse unavailable 200"},
		"another agent has the name":            {refused("stale_incarnation"), nil, "refuse bad_request 0"},
		"a registration that makes no sense":    {refused("invalid_command"), nil, "refuse bad_request 0"},
		"a refusal that this version knows not": {refused("?"), nil, "refuse bad_request 0"},
		"lost":                                  {nil, errors.New("no leader"), "refuse unavailable 200"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, nil, nil, func(s *stage) {
				s.say(registration(7))
				s.want("propose RegisterNode")
				s.set(func() { s.hints = true })
				s.answer(test.results, test.err, func() {})
				s.want(test.want)
				s.beat(1)
				s.want("refuse not_registered 0")
			})
		})
	}
}

// TestClosedNode is given no jobs while its agent takes none, and goes on with those
// that it has.
func TestClosedNode(t *testing.T) {
	onStage(t, online(7), nil, func(s *stage) {
		closed := registration(7)
		closed.Closed = "disk full"
		s.say(closed)
		s.want("AgentRegistered", "withdraw n1")
		s.beat(1)
		s.want("HeartbeatAck", "withdraw n1")
		s.say(registration(7))
		s.want("AgentRegistered", "offer n1")
		s.beat(1)
		s.want("HeartbeatAck", "offer n1")
	})
}

func TestSession(t *testing.T) {
	onStage(t, online(7), nil, func(s *stage) {
		s.say(registration(7))
		s.want("AgentRegistered", "offer n1")
		s.beat(1)
		s.want("HeartbeatAck", "offer n1")
		s.beat(1)
		s.want("refuse stale")
		s.say(registration(8))
		s.want("refuse name_in_use")
		s.set(func() { s.granted = []Granted{granted("a", 7, 10)} })
		s.system.Root.Send(s.pid, reconcile.Look{})
		synctest.Wait()
		s.want("plan 3.99 +a")
		s.beat(2)
		s.want("HeartbeatAck", "offer n1")
		s.beat(3, held("a", "running"))
		s.want("HeartbeatAck", "offer n1")
	})
}

func TestLeaseRunsOut(t *testing.T) {
	timing := DefaultTiming()
	onStage(t, online(7), []Granted{granted("a", 7, 10), granted("b", 7, 11)}, func(s *stage) {
		s.say(registration(7, held("a", "running"), held("b", "running")))
		s.want("AgentRegistered", "offer n1")
		s.wait(timing.Lease)
		s.want("doubt n1")
		s.beat(1, held("a", "running"), held("b", "running"))
		s.want("HeartbeatAck", "offer n1")
		s.wait(timing.Lease)
		s.want("doubt n1")
		s.wait(timing.Wait(timing.Base()) - timing.Lease)
		s.want("withdraw n1", "propose SetNodeOffline", "propose AbortAllocations node_offline a,b")
		s.beat(2, held("a", "running"))
		s.want("refuse not_registered")
		s.answer(nil, errors.New("lost"), func() {})
		s.wait(200 * time.Millisecond)
		s.want("withdraw n1", "propose SetNodeOffline", "propose AbortAllocations node_offline a,b")
		s.commit(func() { s.record.State, s.granted = "offline", nil })
		s.wait(time.Hour)
		s.want()
		s.say(registration(8))
		s.want("propose RegisterNode")
	})
}

// TestNodeThatNobodyHears is found online by a new leader, with jobs, and says
// nothing.
func TestNodeThatNobodyHears(t *testing.T) {
	timing := DefaultTiming()
	onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
		s.wait(timing.Lease)
		s.want("doubt n1")
		s.wait(timing.Wait(timing.Base()) - timing.Lease)
		s.want("withdraw n1", "propose SetNodeOffline", "propose AbortAllocations node_offline a")
	})
}

func TestNewLifeGivesUpTheJobsOfTheLast(t *testing.T) {
	onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
		s.say(registration(8))
		s.want("propose RegisterNode")
		s.commit(func() { s.record = online(8) })
		s.want("AgentRegistered", "propose AbortAllocations disappeared_from_node a", "offer n1")
		s.system.Root.Send(s.pid, reconcile.Look{})
		synctest.Wait()
		s.want("offer n1")
		s.answer(nil, errors.New("lost"), func() {})
		s.want("propose AbortAllocations disappeared_from_node a")
		s.commit(func() { s.granted = nil })
		s.wait(time.Second)
		s.want()
	})
}

// TestGrantThatCameTooLate is of a node that is offline already: its job is given
// up at once.
func TestGrantThatCameTooLate(t *testing.T) {
	record := online(7)
	record.State = "offline"
	onStage(t, record, nil, func(s *stage) {
		s.set(func() { s.granted = []Granted{granted("a", 7, 10)} })
		s.system.Root.Send(s.pid, reconcile.Look{})
		synctest.Wait()
		s.want("propose AbortAllocations node_offline a")
	})
}

func TestOutcomesOfAFormerLifeAreNotHeard(t *testing.T) {
	onStage(t, nil, nil, func(s *stage) {
		s.say(registration(7))
		s.want("propose RegisterNode")
		s.restart()
		s.want("refuse unavailable")
		s.say(registration(7))
		s.want("propose RegisterNode")
		s.commit(func() {})
		s.want()
		s.say(registration(7))
		s.want("refuse unavailable")
		s.commit(func() { s.record = online(7) })
		s.want("AgentRegistered", "offer n1")
	})
}

func TestTimersEndWithTheirLife(t *testing.T) {
	timing := DefaultTiming()
	onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
		s.wait(timing.Wait(timing.Base()) - time.Second)
		s.restart()
		s.wait(2 * time.Second)
		s.want("doubt n1")
		s.wait(timing.Wait(timing.Base()) - 2*time.Second)
		s.want("doubt n1", "withdraw n1", "propose SetNodeOffline", "propose AbortAllocations node_offline a")
	})
}

// TestWhatTheStateRefusedIsProposedAgain refuses parts of what gives a node up.
func TestWhatTheStateRefusedIsProposedAgain(t *testing.T) {
	refused := &commandpb.Result{Refusal: &commandpb.Refusal{Code: "stale_incarnation"}}
	lost := []string{"withdraw n1", "propose SetNodeOffline", "propose AbortAllocations node_offline a"}
	for name, test := range map[string]struct {
		results []*commandpb.Result
		change  func(s *stage)
		want    []string
	}{
		"all of it":             {[]*commandpb.Result{refused, refused}, func(*stage) {}, lost},
		"that it is offline":    {[]*commandpb.Result{refused, {}}, func(s *stage) { s.granted = nil }, lost[:2]},
		"that its jobs ended":   {[]*commandpb.Result{{}, refused}, func(s *stage) { s.record.State = "offline" }, []string{lost[0], lost[2]}},
		"nothing: it stays so.": {[]*commandpb.Result{{}, {}}, func(s *stage) { s.record.State, s.granted = "offline", nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
				s.wait(DefaultTiming().Wait(DefaultTiming().Base()))
				s.want(append([]string{"doubt n1"}, lost...)...)
				s.answer(test.results, nil, func() { test.change(s) })
				s.want()
				s.wait(200 * time.Millisecond)
				s.want(test.want...)
			})
		})
	}
	onStage(t, online(7), []Granted{granted("a", 6, 10)}, func(s *stage) {
		s.say(registration(7))
		s.want("AgentRegistered", "propose AbortAllocations disappeared_from_node a", "offer n1")
		s.answer([]*commandpb.Result{refused}, nil, func() {})
		s.want()
		s.wait(200 * time.Millisecond)
		s.want("propose AbortAllocations disappeared_from_node a")
	})
}

func TestAnAgentWithOrdersOfALaterTermIsNotLetIn(t *testing.T) {
	onStage(t, online(7), nil, func(s *stage) {
		m := registration(7)
		m.Token = &actorpb.Token{Term: 4}
		s.say(m)
		s.want("refuse bad_request")
		m.Token.Term = 3
		s.say(m)
		s.want("AgentRegistered", "offer n1")
	})
}
