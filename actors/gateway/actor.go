package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// Nodes are the node actors of this replica, while it leads.
type Nodes interface {
	// ToNode hands an agent's message to its node's actor, which answers with
	// reply. false: this replica does not lead.
	ToNode(node string, msg proto.Message, reply func(proto.Message)) bool
}

// Controllers are the controllers of this replica.
type Controllers interface {
	// ToController hands an agent's message to the controller of an operation.
	// false: it is not here.
	ToController(operation string, msg proto.Message, reply func(proto.Message)) bool
	// ControllerOf returns who controls an operation; nil: it is not in progress.
	ControllerOf(operation string) *actorpb.Replica
}

// Leader does what replicas ask of the one that leads. Its methods block, and
// answer with a *actorpb.Redirect when this replica does not lead.
type Leader interface {
	Propose(ctx context.Context, m *actorpb.Propose) proto.Message
	ReadIndex(ctx context.Context) proto.Message
	SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) proto.Message
	PoolHistory(m *actorpb.PoolHistoryRequest) proto.Message
	JobLive(m *actorpb.JobLiveRequest) proto.Message
	ReadOutput(ctx context.Context, m *actorpb.ReadOutput) proto.Message
}

// Cluster knows who leads, and this replica's place in the log.
type Cluster interface {
	Redirect() *actorpb.Redirect
	WaitApplied(ctx context.Context, index uint64) error
}

// Instances knows where the jobs of operations are reached.
type Instances interface {
	// Instances returns those of an operation, once they differ from those of a
	// version, or as they are when ctx is done.
	Instances(ctx context.Context, operation, version string) *actorpb.Instances
	// InstanceChanges returns the same as changes since version, if that is known still.
	InstanceChanges(ctx context.Context, operation, version string) *actorpb.Instances
}

// Config is what a gateway works with.
type Config struct {
	Nodes       Nodes
	Controllers Controllers
	Leader      Leader
	Cluster     Cluster
	Instances   Instances
	Limits      Limits
	// Patience bounds a request that states no deadline, and the wait for the log
	// to catch up with an agent's.
	Patience time.Duration
	// Figures takes what others may see.
	Figures *Figures
	Logger  *slog.Logger
}

// answered tells that a request has its answer. door is who let it in: a gateway
// that failed and started again has another one, with nothing in flight.
type answered struct {
	door *Doorkeeper
	from identity.Identity
	msg  proto.Message
}

// New returns the producer of a replica's gateway.
func New(cfg Config) actor.Producer {
	return func() actor.Actor {
		return &gatewayActor{cfg: cfg, door: NewDoorkeeper(cfg.Limits), complaints: newComplaints()}
	}
}

type gatewayActor struct {
	cfg        Config
	door       *Doorkeeper
	complaints *complaints
}

// Receive implements actor.Actor.
func (a *gatewayActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *remote.Inbound:
		a.inbound(ctx, m)
	case answered:
		a.answered(m)
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The rest of the life cycle needs no work here.
	default:
		a.cfg.Logger.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
	}
}

func (a *gatewayActor) inbound(ctx actor.Context, m *remote.Inbound) {
	refused := a.door.Enter(m.From, m.Message)
	a.cfg.Figures.inFlight.Store(int64(a.door.InFlight()))
	if refused != nil {
		a.cfg.Figures.refuse(refused.GetCode())
		a.complain(m.From, refused)
		if ctx.Sender() != nil {
			ctx.Respond(refused)
		}
		return
	}
	a.route(m, a.answer(ctx, m))
}

// complain tells operators of refusals: of each code the first, and from time to
// time how many there were since.
func (a *gatewayActor) complain(from identity.Identity, refused *actorpb.Refused) {
	if tell, before := a.complaints.add(time.Now(), refused.GetCode()); tell {
		a.cfg.Logger.Warn("message rejected", "from", from.String(), "code", refused.GetCode(), "reason", refused.GetReason(), "unlogged_before", before)
	}
}

// answered frees the place of a request, unless a former life of this actor had
// let it in.
func (a *gatewayActor) answered(m answered) {
	if m.door == a.door {
		a.door.Leave(m.from, m.msg)
		a.cfg.Figures.inFlight.Store(int64(a.door.InFlight()))
	}
}

// answer returns what answers a message, once. An actor that is stopped drops
// what it was asked, so a message that nobody answers in time is refused: the
// place that it takes here is free again.
func (a *gatewayActor) answer(ctx actor.Context, m *remote.Inbound) func(proto.Message) {
	self, sender, root, door := ctx.Self(), ctx.Sender(), ctx.ActorSystem().Root, a.door
	var once sync.Once
	reply := func(answer proto.Message) {
		once.Do(func() {
			// Who has its answer and asks again finds the place free.
			root.Send(self, answered{door, m.From, m.Message})
			if sender != nil {
				root.Send(sender, answer)
			}
		})
	}
	late := time.AfterFunc(a.patience(m), func() {
		reply(&actorpb.Refused{Code: lateCode(m.Message), Reason: name(m.Message) + ": no answer in time", RetryMillis: a.cfg.Limits.RetryMillis})
	})
	return func(answer proto.Message) {
		late.Stop()
		reply(answer)
	}
}

// lateCode is the code of the refusal of a message that nobody answered in time:
// what it asked for may still be done.
func lateCode(msg proto.Message) string {
	if _, ok := msg.(*actorpb.Propose); ok {
		return actorpb.CodeOutcomeUnknown
	}
	return actorpb.CodeUnavailable
}

// patience is how long a message may take.
func (a *gatewayActor) patience(m *remote.Inbound) time.Duration {
	if m.Deadline.IsZero() {
		return a.cfg.Patience
	}
	return min(time.Until(m.Deadline), a.cfg.Patience)
}

// route passes a message on. reply is called exactly once.
func (a *gatewayActor) route(m *remote.Inbound, reply func(proto.Message)) {
	switch msg := m.Message.(type) {
	case *actorpb.RegisterAgent, *actorpb.Heartbeat:
		node, _ := nodeOf(msg)
		if !a.cfg.Nodes.ToNode(node, msg, reply) {
			reply(a.cfg.Cluster.Redirect())
		}
	case *actorpb.JobSpecRequest:
		a.toController(m, msg.GetOperationId(), msg.GetGrantIndex(), reply)
	case *actorpb.JobEnded:
		a.toController(m, msg.GetOperationId(), msg.GetGrantIndex(), reply)
	case *actorpb.TellWord:
		a.toController(m, msg.GetWord().GetOperationId(), msg.GetGrantIndex(), reply)
	case *actorpb.FindController:
		a.atGrant(m, msg.GetGrantIndex(), reply, func() { reply(a.controllerOf(msg.GetOperationId())) })
	case *actorpb.InstancesRequest:
		a.atGrant(m, msg.GetIndex(), reply, func() { reply(a.instances(m, msg)) })
	case *actorpb.Propose:
		a.aside(m, reply, func(ctx context.Context) proto.Message { return a.cfg.Leader.Propose(ctx, msg) })
	case *actorpb.ReadIndexRequest:
		a.aside(m, reply, a.cfg.Leader.ReadIndex)
	case *actorpb.SchedulerViewRequest:
		a.aside(m, reply, func(ctx context.Context) proto.Message { return a.cfg.Leader.SchedulerView(ctx, msg) })
	case *actorpb.PoolHistoryRequest:
		a.aside(m, reply, func(context.Context) proto.Message { return a.cfg.Leader.PoolHistory(msg) })
	case *actorpb.JobLiveRequest:
		a.aside(m, reply, func(context.Context) proto.Message { return a.cfg.Leader.JobLive(msg) })
	case *actorpb.ReadOutput:
		a.aside(m, reply, func(ctx context.Context) proto.Message { return a.cfg.Leader.ReadOutput(ctx, msg) })
	default:
		// Invariant: permit lets in what is routed here only.
		reply(&actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: name(msg) + " is not accepted here"})
	}
}

// toController hands a message on to the operation's controller, or says where
// that is.
func (a *gatewayActor) toController(m *remote.Inbound, operation string, grant uint64, reply func(proto.Message)) {
	a.atGrant(m, grant, reply, func() {
		if !a.cfg.Controllers.ToController(operation, m.Message, reply) {
			reply(a.controllerOf(operation))
		}
	})
}

// instances answers an agent that has seen a version, after as long as it waits for
// another one at most. It blocks.
func (a *gatewayActor) instances(m *remote.Inbound, msg *actorpb.InstancesRequest) proto.Message {
	wait := max(min(time.Duration(msg.GetWaitMillis())*time.Millisecond, a.patience(m)-answerReserve), 0)
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if msg.GetChanges() {
		return a.cfg.Instances.InstanceChanges(ctx, msg.GetOperationId(), msg.GetVersion())
	}
	return a.cfg.Instances.Instances(ctx, msg.GetOperationId(), msg.GetVersion())
}

// answerReserve is what is kept of the time of an agent that waits for news, for the
// way of the answer.
const answerReserve = 500 * time.Millisecond

func (a *gatewayActor) controllerOf(operation string) *actorpb.ControllerFound {
	return &actorpb.ControllerFound{OperationId: operation, Controller: a.cfg.Controllers.ControllerOf(operation)}
}

// atGrant goes on once this replica knows the log entry of a job's grant.
func (a *gatewayActor) atGrant(m *remote.Inbound, grant uint64, reply func(proto.Message), then func()) {
	a.background(m, func(ctx context.Context) {
		if err := a.cfg.Cluster.WaitApplied(ctx, grant); err != nil {
			reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, RetryMillis: a.cfg.Limits.RetryMillis,
				Reason: fmt.Sprintf("log entry %d, already seen by the agent, is not applied here yet", grant)})
			return
		}
		then()
	})
}

// aside answers a request without holding up the others.
func (a *gatewayActor) aside(m *remote.Inbound, reply func(proto.Message), answer func(context.Context) proto.Message) {
	a.background(m, func(ctx context.Context) { reply(answer(ctx)) })
}

func (a *gatewayActor) background(m *remote.Inbound, work func(context.Context)) {
	patience := a.patience(m)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		work(ctx)
	}()
}
