package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// hall is what is behind a gateway, in a bubble of time.
type hall struct {
	t      *testing.T
	system *actor.ActorSystem
	pid    *actor.PID
	// log and figures are what the gateway shows.
	log     bytes.Buffer
	figures Figures

	mu sync.Mutex
	// leads: node actors are here; controls: the operation's controller is.
	leads, controls bool
	// replies are what node actors and controllers were given to answer with.
	replies []func(proto.Message)
	applied uint64
	grown   chan struct{}
	// lag is how many entries controllers are behind.
	lag uint64
}

func inHall(t *testing.T, limits Limits, story func(h *hall)) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		h := &hall{t: t, leads: true, controls: true, grown: make(chan struct{})}
		h.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		h.pid = h.system.Root.Spawn(actor.PropsFromProducer(New(Config{
			Replica: h, Limits: limits, Patience: 5 * time.Second, Figures: &h.figures,
			Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
		})))
		story(h)
		// What still waits is given up.
		<-time.After(time.Minute)
		if err := h.system.Root.StopFuture(h.pid).Wait(); err != nil {
			t.Error(err)
		}
		h.system.Shutdown()
	})
}

// ToNode implements Replica. It fails on node "broken".
func (h *hall) ToNode(node string, _ proto.Message, reply func(proto.Message)) bool {
	if node == "broken" {
		panic("told to")
	}
	return h.take(h.leads, reply)
}

// ToController implements Replica.
func (h *hall) ToController(_ string, _ proto.Message, reply func(proto.Message)) bool {
	return h.take(h.controls, reply)
}

func (h *hall) take(here bool, reply func(proto.Message)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if here {
		h.replies = append(h.replies, reply)
	}
	return here
}

// ControllerOf implements Replica.
func (h *hall) ControllerOf(string) *actorpb.Replica { return &actorpb.Replica{Id: "r2"} }

// MayFollow implements Replica.
func (h *hall) MayFollow(_, operation string) bool { return operation != "of others" }

// Instances implements Replica: those of the first version, which stay.
func (h *hall) Instances(ctx context.Context, operation, version string) *actorpb.Instances {
	if version == "1" {
		<-ctx.Done()
	}
	return &actorpb.Instances{OperationId: operation, Version: "1"}
}

// InstanceChanges implements Replica.
func (h *hall) InstanceChanges(ctx context.Context, operation, version string) *actorpb.Instances {
	all := h.Instances(ctx, operation, version)
	all.Since = version
	return all
}

// Redirect implements Replica.
func (h *hall) Redirect() *actorpb.Redirect {
	return &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r3"}}
}

// WaitApplied implements Replica.
func (h *hall) WaitApplied(ctx context.Context, index uint64) error {
	for {
		h.mu.Lock()
		applied, grown := h.applied, h.grown
		h.mu.Unlock()
		if applied >= index {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

// WaitControlled implements Replica.
func (h *hall) WaitControlled(ctx context.Context, grant uint64) error {
	return h.WaitApplied(ctx, grant+h.lag)
}

// apply says that the log is here up to an index.
func (h *hall) apply(index uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.applied = index
	close(h.grown)
	h.grown = make(chan struct{})
}

// Answer implements Replica. It never answers a proposal in time.
func (h *hall) Answer(ctx context.Context, msg proto.Message) proto.Message {
	switch msg.(type) {
	case *actorpb.Propose:
		<-ctx.Done()
		<-time.After(time.Second)
		return &actorpb.Refused{Code: "late"}
	case *actorpb.ReadIndexRequest:
		return &actorpb.ReadIndex{Index: 7}
	case *actorpb.PoolHistoryRequest:
		return &actorpb.PoolHistory{}
	case *actorpb.SchedulerViewRequest:
		return &actorpb.SchedulerView{Term: 7}
	case *actorpb.JobLiveRequest:
		return &actorpb.JobLive{}
	}
	return &actorpb.OutputPart{Total: 7}
}

// ask sends a message as a peer does, and returns its answer to come.
func (h *hall) ask(from identity.Identity, msg proto.Message, deadline time.Time) actor.Future {
	h.t.Helper()
	future := actor.NewFuture(h.system, time.Hour)
	h.system.Root.RequestWithCustomSender(h.pid, &remote.Inbound{From: from, Message: msg, Deadline: deadline}, future.PID())
	synctest.Wait()
	return future
}

// answer returns what a peer would get as the answer.
func (h *hall) answer(future actor.Future) proto.Message {
	h.t.Helper()
	got, err := future.Result()
	if err != nil {
		h.t.Fatal(err)
	}
	return got.(proto.Message)
}

func (h *hall) agent(node string) identity.Identity { return of(identity.Agent, node) }

func (h *hall) beat(node string) actor.Future {
	h.t.Helper()
	return h.ask(h.agent(node), &actorpb.Heartbeat{Node: node}, time.Time{})
}

func wantRefused(t *testing.T, got proto.Message, code string) {
	t.Helper()
	if refused, ok := got.(*actorpb.Refused); !ok || refused.GetCode() != code {
		t.Errorf("got %T %v, want it refused as %s", got, got, code)
	}
}

func TestWhoAnswersWhat(t *testing.T) {
	replica, agent := of(identity.Replica, "r2"), of(identity.Agent, "n1")
	for name, test := range map[string]struct {
		from identity.Identity
		msg  proto.Message
		want string
	}{
		"a replica asks for a read index":     {replica, &actorpb.ReadIndexRequest{}, "ReadIndex"},
		"a replica asks for the history":      {replica, &actorpb.PoolHistoryRequest{}, "PoolHistory"},
		"a replica asks for the scheduler":    {replica, &actorpb.SchedulerViewRequest{}, "SchedulerView"},
		"a replica asks for jobs":             {replica, &actorpb.JobLiveRequest{}, "JobLive"},
		"a replica reads output":              {replica, &actorpb.ReadOutput{}, "OutputPart"},
		"an agent is not at the leader":       {agent, &actorpb.RegisterAgent{Node: "n1"}, "Redirect"},
		"an agent is not at the controller":   {agent, &actorpb.JobEnded{Node: "n1"}, "ControllerFound"},
		"an agent looks for the controller":   {agent, &actorpb.FindController{}, "ControllerFound"},
		"an agent says what it has no right":  {agent, &actorpb.ReadOutput{}, "Refused"},
		"an agent asks another for a spec":    {agent, &actorpb.JobSpecRequest{Node: "n1"}, "ControllerFound"},
		"an agent speaks in another's name":   {agent, &actorpb.Heartbeat{Node: "n2"}, "Refused"},
		"a replica that speaks for its agent": {replica, &actorpb.Heartbeat{Node: "n1"}, "Refused"},
	} {
		t.Run(name, func(t *testing.T) {
			inHall(t, DefaultLimits(), func(h *hall) {
				h.leads, h.controls = false, false
				got := h.answer(h.ask(test.from, test.msg, time.Time{}))
				if kind := string(got.ProtoReflect().Descriptor().Name()); kind != test.want {
					t.Errorf("got %s %v, want %s", kind, got, test.want)
				}
			})
		})
	}
}

func TestNobodyAnswersInTime(t *testing.T) {
	inHall(t, Limits{InFlight: 2, AgentInFlight: 1, Waiting: 2, AgentWaiting: 1, RetryMillis: 7}, func(h *hall) {
		first := h.beat("n1")
		wantRefused(t, h.answer(h.beat("n1")), "overloaded")
		second := h.beat("n2")
		wantRefused(t, h.answer(h.beat("n3")), "overloaded")
		for _, waiting := range []actor.Future{first, second} {
			wantRefused(t, h.answer(waiting), "unavailable")
		}
		// An answer that comes now is one too many; the places are free.
		h.replies[0](&actorpb.HeartbeatAck{})
		third := h.beat("n1")
		h.replies[2](&actorpb.HeartbeatAck{Sequence: 3})
		h.replies[2](&actorpb.HeartbeatAck{Sequence: 4})
		if ack, ok := h.answer(third).(*actorpb.HeartbeatAck); !ok || ack.GetSequence() != 3 {
			t.Errorf("got %v, want the first answer", ack)
		}
		fourth := h.beat("n1")
		wantRefused(t, h.answer(h.beat("n1")), "overloaded")
		h.replies[3](&actorpb.HeartbeatAck{})
		h.answer(fourth)
	})
}

func TestDeadlineOfTheSender(t *testing.T) {
	inHall(t, DefaultLimits(), func(h *hall) {
		replica := of(identity.Replica, "r2")
		for name, in := range map[string]time.Duration{"soon": time.Second, "passed": -time.Second, "later than patience": time.Hour} {
			began := time.Now()
			wantRefused(t, h.answer(h.ask(replica, &actorpb.Propose{}, began.Add(in))), "outcome_unknown")
			want := min(max(in, 0), 5*time.Second)
			if took := time.Since(began); took != want {
				t.Errorf("%s: answered after %s, want %s", name, took, want)
			}
		}
	})
}

func TestFindControllerWaitsForTheGrant(t *testing.T) {
	inHall(t, DefaultLimits(), func(h *hall) {
		find := &actorpb.FindController{OperationId: "op", GrantIndex: 9}
		early := h.ask(h.agent("n1"), find, time.Time{})
		h.apply(8)
		synctest.Wait()
		if len(h.replies) != 0 {
			t.Error("somebody was asked before the grant is known here")
		}
		began := time.Now()
		h.apply(9)
		found, ok := h.answer(early).(*actorpb.ControllerFound)
		if !ok || found.GetController().GetId() != "r2" || !time.Now().Equal(began) {
			t.Errorf("got %v after %s, want r2 at once", found, time.Since(began))
		}
		find.GrantIndex = 10
		wantRefused(t, h.answer(h.ask(h.agent("n1"), find, time.Time{})), "unavailable")
	})
}

func TestInstancesAreWaitedFor(t *testing.T) {
	inHall(t, DefaultLimits(), func(h *hall) {
		for name, test := range map[string]struct {
			request  *actorpb.InstancesRequest
			wantTook time.Duration
		}{
			"what nobody has seen is told at once":             {&actorpb.InstancesRequest{OperationId: "op", WaitMillis: 3000}, 0},
			"so is another version":                            {&actorpb.InstancesRequest{OperationId: "op", Version: "0", WaitMillis: 3000}, 0},
			"the same version is told when the time is over":   {&actorpb.InstancesRequest{OperationId: "op", Version: "1", WaitMillis: 3000}, 3 * time.Second},
			"no wait is longer than the patience":              {&actorpb.InstancesRequest{OperationId: "op", Version: "1", WaitMillis: 3_600_000}, 4500 * time.Millisecond},
			"who waits for nothing is told at once":            {&actorpb.InstancesRequest{OperationId: "op", Version: "1"}, 0},
			"a wait that would have ended in the past is none": {&actorpb.InstancesRequest{OperationId: "op", Version: "1", WaitMillis: -1}, 0},
		} {
			began := time.Now()
			got, ok := h.answer(h.ask(h.agent("n1"), test.request, time.Time{})).(*actorpb.Instances)
			if took := time.Since(began); !ok || got.GetOperationId() != "op" || took != test.wantTook || got.GetSince() != "" {
				t.Errorf("%s: got %v after %s, want instances after %s", name, got, took, test.wantTook)
			}
		}
		changes := &actorpb.InstancesRequest{OperationId: "op", Version: "0", Changes: true}
		if got, ok := h.answer(h.ask(h.agent("n1"), changes, time.Time{})).(*actorpb.Instances); !ok || got.GetSince() != "0" {
			t.Errorf("who takes changes got %v", got)
		}
		ahead := &actorpb.InstancesRequest{OperationId: "op", Index: 9}
		wantRefused(t, h.answer(h.ask(h.agent("n1"), ahead, time.Time{})), actorpb.CodeUnavailable)
		wantRefused(t, h.answer(h.ask(h.agent("n1"), &actorpb.InstancesRequest{OperationId: "of others"}, time.Time{})), actorpb.CodeNotFound)
	})
}

// TestMessagesWithoutSender are not answered, and free their place all the same.
func TestMessagesWithoutSender(t *testing.T) {
	inHall(t, Limits{InFlight: 1, AgentInFlight: 1, Waiting: 2, AgentWaiting: 1, RetryMillis: 7}, func(h *hall) {
		h.system.Root.Send(h.pid, &remote.Inbound{From: h.agent("n1"), Message: &actorpb.Heartbeat{Node: "n2"}})
		for range 3 {
			h.system.Root.Send(h.pid, &remote.Inbound{From: h.agent("n1"), Message: &actorpb.Heartbeat{Node: "n1"}})
			synctest.Wait()
			h.mu.Lock()
			waiting := slices.Clone(h.replies)
			h.replies = nil
			h.mu.Unlock()
			if len(waiting) != 1 {
				t.Fatal("a heartbeat did not reach its node")
			}
			waiting[0](&actorpb.HeartbeatAck{})
			synctest.Wait()
		}
	})
}

// TestAGatewayThatStartsAgain counts what it let in itself, and no more.
func TestAGatewayThatStartsAgain(t *testing.T) {
	inHall(t, Limits{InFlight: 2, AgentInFlight: 2, Waiting: 2, AgentWaiting: 1, RetryMillis: 7}, func(h *hall) {
		early := h.beat("n1")
		broken := h.beat("broken")
		for range 2 {
			h.beat("n2")
		}
		wantRefused(t, h.answer(h.beat("n3")), actorpb.CodeOverloaded)
		h.replies[0](&actorpb.HeartbeatAck{Sequence: 7})
		if ack, ok := h.answer(early).(*actorpb.HeartbeatAck); !ok || ack.GetSequence() != 7 {
			t.Errorf("got %v, want the answer to what the former life let in", ack)
		}
		wantRefused(t, h.answer(h.beat("n3")), actorpb.CodeOverloaded)
		h.replies[1](&actorpb.HeartbeatAck{})
		late := h.beat("n3")
		if stats := h.figures.Stats(); stats.InFlight != 2 || stats.Refused[actorpb.CodeOverloaded] != 2 {
			t.Errorf("figures %+v, want 2 in flight and 2 refused", stats)
		}
		for _, waiting := range []actor.Future{broken, late} {
			wantRefused(t, h.answer(waiting), actorpb.CodeUnavailable)
		}
	})
}

func TestRefusalsAreToldNowAndThen(t *testing.T) {
	inHall(t, Limits{InFlight: 1, AgentInFlight: 1, Waiting: 2, AgentWaiting: 1, RetryMillis: 7}, func(h *hall) {
		lines := func() []string { return strings.Split(strings.TrimSuffix(h.log.String(), "\n"), "\n") }
		liar := func() { h.answer(h.ask(h.agent("n1"), &actorpb.Heartbeat{Node: "n2"}, time.Time{})) }
		h.beat("n1")
		for range 100 {
			liar()
			h.answer(h.beat("n1"))
		}
		if got := lines(); len(got) != 2 || !strings.Contains(got[0], "code=wrong_identity") || !strings.Contains(got[1], "code=overloaded") {
			t.Fatalf("logged %q, want a line of each code", got)
		}
		<-time.After(complainEvery)
		liar()
		if got := lines(); len(got) != 3 || !strings.Contains(got[2], "unlogged_before=99") || !strings.Contains(got[2], "cannot act for node") {
			t.Errorf("logged %q, want a third line that counts 99 before it", got)
		}
	})
}

// TestSpecsWaitForTheController: a controller that is about to come is not missed, which would cost the agent a pause.
func TestSpecsWaitForTheController(t *testing.T) {
	inHall(t, DefaultLimits(), func(h *hall) {
		h.lag = 1
		early := h.ask(h.agent("n1"), &actorpb.JobSpecRequest{Node: "n1", OperationId: "op", JobId: "j", GrantIndex: 9}, time.Time{})
		h.apply(9)
		synctest.Wait()
		if len(h.replies) != 0 {
			t.Error("the controller was asked before it is there")
		}
		h.apply(10)
		synctest.Wait()
		if len(h.replies) != 1 {
			t.Fatalf("%d controllers were asked", len(h.replies))
		}
		h.replies[0](&actorpb.JobSpec{JobId: "j"})
		if spec, ok := h.answer(early).(*actorpb.JobSpec); !ok || spec.GetJobId() != "j" {
			t.Errorf("got %v", spec)
		}
	})
}
