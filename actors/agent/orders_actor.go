package agent

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// inbound takes what replicas send. The certificate of the sender has been
// checked; only its role matters here.
func (a *agentActor) inbound(ctx actor.Context, m *remote.Inbound) {
	if m.From.Role != identity.Replica {
		a.cfg.Logger.Warn("message refused: not from a replica", "from", m.From.String(), "type", fmt.Sprintf("%T", m.Message))
		respond(ctx, &actorpb.Refused{Code: "wrong_identity", Reason: "agents listen to replicas only"})
		return
	}
	switch msg := m.Message.(type) {
	case *actorpb.NodePlan:
		if err := a.intake.Take(msg); err != nil {
			a.cfg.Logger.Warn("plan refused", "node", a.cfg.Node, "from", m.From.Name, "error", err,
				"refused", a.fence.Refused(), "hint", a.staleHint())
			return
		}
		a.write(ctx)
		a.follow(ctx)
	case *actorpb.ReadOutput:
		a.read(ctx, msg)
	default:
		a.cfg.Logger.Warn("unexpected message", "from", m.From.Name, "type", fmt.Sprintf("%T", m.Message))
		respond(ctx, &actorpb.Refused{Code: "bad_request", Reason: fmt.Sprintf("agents do not take a %T", m.Message)})
	}
}

// write puts the highest token on disk, if it is not there yet.
func (a *agentActor) write(ctx actor.Context) {
	token, due := a.intake.Write()
	if !due {
		return
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	go func() { root.Send(self, stored{token, a.folder.writeToken(token)}) }()
}

func (a *agentActor) stored(ctx actor.Context, m stored) {
	a.intake.Stored(m.token, m.err)
	if m.err != nil {
		// The next plan tries again; the leader repeats itself.
		a.cfg.Logger.Error("orders are not followed: the token cannot be written", "node", a.cfg.Node, "error", m.err)
		return
	}
	a.write(ctx)
	a.follow(ctx)
}

// follow carries out the plans whose token is on disk.
func (a *agentActor) follow(ctx actor.Context) {
	for _, plan := range a.intake.Due() {
		now := time.Now()
		orders := a.ledger.Sort(plan, a.closed(now))
		for _, refused := range orders.Refused {
			a.cfg.Logger.Warn("order not followed", "node", a.cfg.Node, "token", tokenOf(plan), "reason", refused)
		}
		for _, start := range orders.Start {
			a.spawn(ctx, start, NewJob(now, start))
		}
		for _, start := range orders.Gone {
			a.spawn(ctx, start, NewLostJob(now, start))
		}
		for _, abort := range orders.Abort {
			ctx.Send(a.jobs[abort.GetJobId()].pid, order{NewOrder(now, abort)})
		}
	}
	a.ask(ctx)
}

// closed says why no job may be started now; empty: they may.
func (a *agentActor) closed(now time.Time) string {
	switch {
	case a.closing != nil:
		return "the agent is closing"
	case !a.lease.Holds(now):
		return "the node has no lease"
	default:
		return ""
	}
}

func (a *agentActor) spawn(ctx actor.Context, start *actorpb.StartJob, job *Job) {
	r := &jobRecord{job: job, courier: NewCourier(controllerOf(start), a.cfg.Timing, rand.Float64)}
	env := jobEnvironment{
		cfg: a.cfg, processes: a.processes, replicas: a.replicas, shared: a.shared, life: a.life, agent: ctx.Self(),
	}
	// From Spawn on the job belongs to its actor.
	held := job.Held()
	pid := ctx.Spawn(actor.PropsFromProducer(func() actor.Actor { return &jobActor{jobEnvironment: env, jobRecord: r} }))
	a.jobs[start.GetJobId()] = &child{pid: pid, held: held}
	a.session.Urge()
}

func controllerOf(start *actorpb.StartJob) Replica {
	return Replica{ID: start.GetController().GetId(), Address: start.GetController().GetAddress()}
}

// respond answers, if somebody waits.
func respond(ctx actor.Context, answer proto.Message) {
	if ctx.Sender() != nil {
		ctx.Respond(answer)
	}
}
