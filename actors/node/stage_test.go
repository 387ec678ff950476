package node

import (
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

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/resource"
)

// stage is what a node actor works with, in a bubble of time. All that the actor
// does is told in order.
type stage struct {
	t      *testing.T
	system *actor.ActorSystem
	pid    *actor.PID

	mu      sync.Mutex
	record  *statepb.Node
	granted []Granted
	told    []string
	// said is what others were told of the node, unheard the last of it.
	said    []string
	unheard bool
	// hints: refusals are told with when to try again.
	hints bool
	// refused is a tag that the node may not claim.
	refused string
	// version is that of the cluster.
	version uint32
	// revoked is what agents are told of revocations.
	revoked []*statepb.Revocation
	// board is what readers see of the node, reads how often the actor has read the state, and heard when readers
	// see that it was heard last.
	board *actorpb.NodeView
	reads int
	heard time.Time
	// outcomes end what has been proposed and not answered.
	outcomes []func([]*commandpb.Result, error)
}

// onStage has a story played by the actor of node n1.
func onStage(t *testing.T, record *statepb.Node, granted []Granted, story func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		s := &stage{t: t, record: record, granted: granted}
		s.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		s.pid = s.system.Root.Spawn(actor.PropsFromProducer(New(Config{
			ID: "n1", Term: 3, Leader: "r1", State: s, Log: s, Scheduler: s, Agents: s, Board: s, Words: s, Lead: s,
			Revocations: s.revocations,
			Replicas:    func() []*actorpb.Replica { return nil }, Timing: DefaultTiming(), Pacer: DefaultTiming().Base(), RetryAfter: 200 * time.Millisecond, Now: time.Now, StateNow: time.Now, Logger: quiet,
		})))
		story(s)
		if err := s.system.Root.StopFuture(s.pid).Wait(); err != nil {
			t.Error(err)
		}
		s.system.Shutdown()
	})
}

// Node implements State.
func (s *stage) Node(string) (*statepb.Node, []Granted, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return proto.CloneOf(s.record), slices.Clone(s.granted), 99
}

// Version implements State.
func (s *stage) Version() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Refusal implements State.
func (s *stage) Refusal(node *statepb.Node) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(node.GetTags(), s.refused) {
		return "it may not claim the tag " + s.refused
	}
	return ""
}

// Refused implements State.
func (s *stage) Refused(string) string {
	s.mu.Lock()
	record := s.record
	s.mu.Unlock()
	return s.Refusal(record)
}

func (s *stage) revocations() *actorpb.Revocations {
	s.mu.Lock()
	defer s.mu.Unlock()
	return actorpb.NewRevocations(s.revoked)
}

// ProposeAsync implements Log.
func (s *stage) ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, done)
	for _, command := range commands {
		text := "propose " + string(command.ProtoReflect().Descriptor().Name())
		if m, ok := command.(*commandpb.AbortAllocations); ok {
			text += " " + m.GetReason() + " " + strings.Join(m.GetJobIds(), ",")
		}
		s.told = append(s.told, text)
	}
}

// Offer implements Scheduler.
func (s *stage) Offer(_, node string, _ resource.Amounts) { s.tell("offer " + node) }

// Doubt implements Scheduler.
func (s *stage) Doubt(_, node string) { s.tell("doubt " + node) }

// Withdraw implements Scheduler.
func (s *stage) Withdraw(_, node string) { s.tell("withdraw " + node) }

// Send implements Agents.
func (s *stage) Send(_ string, msg proto.Message) {
	plan := msg.(*actorpb.NodePlan)
	s.tell(fmt.Sprintf("plan %d.%d %s", plan.GetToken().GetTerm(), plan.GetToken().GetIndex(), text(Difference{Start: plan.GetStart(), Abort: plan.GetAbort()})))
}

// Publish implements Board.
func (s *stage) Publish(_ string, view *actorpb.NodeView, _ []*actorpb.HeldJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.board = view
}

// Heard implements Board.
func (s *stage) Heard(_ string, at, _ time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = at
}

// Refuse implements Board.
func (s *stage) Refuse(agent *actorpb.RefusedAgent) {
	s.tell(fmt.Sprintf("remember %s %v", agent.GetNode(), agent.GetTags()))
}

// Say implements Words.
func (s *stage) Say(node string, unheard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unheard = unheard
	s.said = append(s.said, fmt.Sprintf("%s unheard: %t", node, unheard))
}

// Unheard implements Words.
func (s *stage) Unheard(string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unheard
}

// Reply implements Lead.
func (s *stage) Reply(reply func(proto.Message), answer proto.Message) { reply(answer) }

func (s *stage) tell(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

// say sends what the agent says; its answer is told.
func (s *stage) say(msg proto.Message) {
	s.system.Root.Send(s.pid, FromAgent{Message: msg, Reply: func(answer proto.Message) {
		what := string(answer.ProtoReflect().Descriptor().Name())
		if refused, ok := answer.(*actorpb.Refused); ok {
			what = "refuse " + refused.GetCode()
			if s.hints {
				what += fmt.Sprint(" ", refused.GetRetryMillis())
			}
		}
		s.tell(what)
	}})
	synctest.Wait()
}

func (s *stage) beat(sequence uint64, jobs ...*actorpb.HeldJob) {
	s.say(&actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: sequence, Jobs: jobs})
}

// commit answers what was proposed first; change is what it did to the state.
func (s *stage) commit(change func()) { s.answer([]*commandpb.Result{{}, {}}, nil, change) }

func (s *stage) answer(results []*commandpb.Result, err error, change func()) {
	s.t.Helper()
	s.mu.Lock()
	if len(s.outcomes) == 0 {
		s.mu.Unlock()
		s.t.Fatalf("nothing is proposed: %q", s.told)
	}
	done := s.outcomes[0]
	s.outcomes = s.outcomes[1:]
	change()
	s.mu.Unlock()
	done(results, err)
	synctest.Wait()
}

func (s *stage) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// want compares what has been told since the last time.
func (s *stage) want(what ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.told, what) {
		s.t.Errorf("told %q\nwant %q", s.told, what)
	}
	s.told = nil
}

// restart gives the actor another life, as its supervisor does.
func (s *stage) restart() {
	process, _ := s.system.ProcessRegistry.Get(s.pid)
	process.SendSystemMessage(s.pid, &actor.Restart{})
	synctest.Wait()
}

func (s *stage) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// online is the record of what registration says.
func online(incarnation uint64) *statepb.Node {
	m := registration(incarnation)
	return &statepb.Node{Id: "n1", State: "online", Incarnation: incarnation, Resources: m.GetResources(), Tags: m.GetTags(), Version: m.GetVersion()}
}
