package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/reconcile"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// Replica is the part of a replica that its gateway uses.
type Replica interface {
	// ToNode passes an agent's message on to its node's actor, which answers through `reply`. It
	// returns false if this replica does not lead.
	ToNode(node string, msg proto.Message, reply func(proto.Message)) bool
	// ToController passes an agent's message on to the controller of an operation. It returns
	// false if the controller is not on this replica.
	ToController(operation string, msg proto.Message, reply func(proto.Message)) bool
	// ControllerOf returns the replica that controls an operation; nil if the operation is not in
	// progress.
	ControllerOf(operation string) *actorpb.Replica
	// Answer handles a request to the replica that leads. It blocks. If this replica does not lead,
	// the answer is a Redirect.
	Answer(ctx context.Context, msg proto.Message) proto.Message
	// Redirect returns the current leader.
	Redirect() *actorpb.Redirect
	// WaitApplied returns when this replica has applied the log up to index.
	WaitApplied(ctx context.Context, index uint64) error
	// WaitControlled returns when this replica has the controllers that it is to have at the log index of a
	// grant.
	WaitControlled(ctx context.Context, grant uint64) error
	// MayFollow reports whether the agent of a node may know the instances of an operation: jobs of it are
	// granted to the node, or it has ended.
	MayFollow(node, operation string) bool
	// Instances returns the instances of an operation once they differ from those of the given
	// version, or as they are when ctx is done.
	Instances(ctx context.Context, operation, version string) *actorpb.Instances
	// InstanceChanges is like Instances, but returns only the changes since the given version, if
	// that version is still remembered.
	InstanceChanges(ctx context.Context, operation, version string) *actorpb.Instances
}

// Config is the configuration of a gateway.
type Config struct {
	Replica Replica
	Limits  Limits
	// Patience bounds how long a request may take, and how long it waits until this replica has
	// applied the log entry that the agent refers to.
	Patience time.Duration
	// Figures receives the metrics.
	Figures *Figures
	Logger  *slog.Logger
}

// New returns the producer of a replica's gateway.
func New(cfg Config) actor.Producer {
	return reconcile.Live(cfg.Logger, func(life *reconcile.Life) reconcile.Body {
		return &gatewayActor{cfg: cfg, life: life, door: NewDoorkeeper(cfg.Limits), complaints: newComplaints()}
	})
}

type gatewayActor struct {
	cfg        Config
	life       *reconcile.Life
	door       *Doorkeeper
	complaints *complaints
}

// Start implements reconcile.Body.
func (a *gatewayActor) Start() {}

// Take implements reconcile.Body.
func (a *gatewayActor) Take(message any) bool {
	m, ok := message.(*remote.Inbound)
	if ok {
		a.inbound(a.life.Context(), m)
	}
	return ok
}

// Stop implements reconcile.Body.
func (a *gatewayActor) Stop() {}

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

// complain logs the first refusal of each code, and later ones at most once every complainEvery,
// with the number of refusals that were not logged.
func (a *gatewayActor) complain(from identity.Identity, refused *actorpb.Refused) {
	if tell, before := a.complaints.add(time.Now(), refused.GetCode()); tell {
		a.cfg.Logger.Warn("message rejected", "from", from.String(), "code", refused.GetCode(), "reason", refused.GetReason(), "unlogged_before", before)
	}
}

// answer returns the function that answers a message; only its first call has an effect. An actor
// that is stopped drops its requests, so a message that is not answered in time is refused, which
// frees its slot.
func (a *gatewayActor) answer(ctx actor.Context, m *remote.Inbound) func(proto.Message) {
	sender, root := ctx.Sender(), ctx.ActorSystem().Root
	var once sync.Once
	reply := func(answer proto.Message) {
		once.Do(func() {
			// Free the slot before the answer is sent, so that the sender can use it for its next
			// request.
			a.life.Do(func() {
				a.door.Leave(m.From, m.Message)
				a.cfg.Figures.inFlight.Store(int64(a.door.InFlight()))
			})
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

// lateCode returns the code of the refusal of a message that was not answered in time. Proposals
// have their own code, because they may still be committed.
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

// route passes a message on. It calls `reply` exactly once.
func (a *gatewayActor) route(m *remote.Inbound, reply func(proto.Message)) {
	switch msg := m.Message.(type) {
	case *actorpb.RegisterAgent, *actorpb.Heartbeat:
		if !a.cfg.Replica.ToNode(m.From.Name, msg, reply) {
			reply(a.cfg.Replica.Redirect())
		}
	case *actorpb.JobSpecRequest:
		a.toController(m, msg.GetOperationId(), msg.GetGrantIndex(), reply)
	case *actorpb.JobEnded:
		a.toController(m, msg.GetOperationId(), msg.GetGrantIndex(), reply)
	case *actorpb.TellWord:
		a.toController(m, msg.GetWord().GetOperationId(), msg.GetGrantIndex(), reply)
	case *actorpb.FindController:
		a.at(a.cfg.Replica.WaitApplied, m, msg.GetGrantIndex(), reply, func() { reply(a.controllerOf(msg.GetOperationId())) })
	case *actorpb.InstancesRequest:
		a.at(a.cfg.Replica.WaitApplied, m, msg.GetIndex(), reply, func() { reply(a.instances(m, msg)) })
	default:
		// Invariant: everything else that permit admits is a request of replicas.
		a.background(m, func(ctx context.Context) { reply(a.cfg.Replica.Answer(ctx, msg)) })
	}
}

// toController passes a message on to the operation's controller, or replies with the replica on
// which the controller is.
func (a *gatewayActor) toController(m *remote.Inbound, operation string, grant uint64, reply func(proto.Message)) {
	a.at(a.cfg.Replica.WaitControlled, m, grant, reply, func() {
		if !a.cfg.Replica.ToController(operation, m.Message, reply) {
			reply(a.controllerOf(operation))
		}
	})
}

// instances waits until the instances differ from the version that the agent has seen, but not
// longer than the agent asked to wait, and returns the answer.
func (a *gatewayActor) instances(m *remote.Inbound, msg *actorpb.InstancesRequest) proto.Message {
	wait := max(min(time.Duration(msg.GetWaitMillis())*time.Millisecond, a.patience(m)-answerReserve), 0)
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if !a.cfg.Replica.MayFollow(m.From.Name, msg.GetOperationId()) {
		return &actorpb.Refused{Code: actorpb.CodeNotFound, Reason: fmt.Sprintf("instances of operation %s: none of its jobs is granted to node %q", msg.GetOperationId(), m.From.Name)}
	}
	// Without a version, what has changed is everything, in parts if it is large.
	if msg.GetChanges() || msg.GetVersion() == "" {
		return a.cfg.Replica.InstanceChanges(ctx, msg.GetOperationId(), msg.GetVersion())
	}
	return a.cfg.Replica.Instances(ctx, msg.GetOperationId(), msg.GetVersion())
}

// answerReserve is subtracted from the time that an agent waits for news, so that the answer
// arrives in time.
const answerReserve = 500 * time.Millisecond

func (a *gatewayActor) controllerOf(operation string) *actorpb.ControllerFound {
	return &actorpb.ControllerFound{OperationId: operation, Controller: a.cfg.Replica.ControllerOf(operation)}
}

// at calls `then` once this replica has reached the log entry at an index that the agent has seen.
func (a *gatewayActor) at(reached func(context.Context, uint64) error, m *remote.Inbound, index uint64, reply func(proto.Message), then func()) {
	a.background(m, func(ctx context.Context) {
		if err := reached(ctx, index); err != nil {
			reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, RetryMillis: a.cfg.Limits.RetryMillis,
				Reason: fmt.Sprintf("replica behind: log entry %d, which the agent has seen, is not applied here yet", index)})
			return
		}
		then()
	})
}

// background runs work that may block without delaying other messages.
func (a *gatewayActor) background(m *remote.Inbound, work func(context.Context)) {
	patience := a.patience(m)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		work(ctx)
	}()
}
