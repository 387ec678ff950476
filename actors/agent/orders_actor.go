package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// inbound handles messages from replicas. The sender's certificate has been checked; only its
// role matters here.
func (a *agentActor) inbound(ctx actor.Context, m *remote.Inbound) {
	if m.From.Role != identity.Replica {
		a.cfg.Logger.Warn("message rejected: sender is not a replica", "from", m.From.String(), "type", fmt.Sprintf("%T", m.Message))
		respond(ctx, &actorpb.Refused{Code: actorpb.CodeWrongIdentity, Reason: "agents accept messages from replicas only"})
		return
	}
	if of, named := m.Message.(interface{ GetNode() string }); named && of.GetNode() != a.cfg.Node {
		respond(ctx, &actorpb.Refused{Code: actorpb.CodeNotFound, Reason: fmt.Sprintf("this is node %q, not %q", a.cfg.Node, of.GetNode())})
		return
	}
	switch msg := m.Message.(type) {
	case *actorpb.NodePlan:
		for _, plan := range arriving(msg) {
			a.take(ctx, m.From.Name, plan)
		}
	case *actorpb.ReadOutput:
		a.read(ctx, func() proto.Message { return a.part(msg) })
	case *actorpb.ReadFile:
		a.read(ctx, func() proto.Message { return a.file(msg) })
	case *actorpb.Exec:
		a.exec(ctx, msg)
	default:
		a.cfg.Logger.Warn("unexpected message", "from", m.From.Name, "type", fmt.Sprintf("%T", m.Message))
		respond(ctx, &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("agents do not accept %T", m.Message)})
	}
}

// take handles a plan, whose orders are followed once they are in the journal.
func (a *agentActor) take(ctx actor.Context, from string, plan *actorpb.NodePlan) {
	now := time.Now()
	orders, records, err := a.intake.Take(plan, from, a.closed(), a.space.Closed())
	if err != nil {
		a.shared.figures.refused()
		a.cfg.Logger.Warn("plan refused", "node", a.cfg.Node, "from", from, "error", err,
			"refused", a.fence.Refused(), "hint", a.staleHint())
	}
	if errors.Is(err, ErrTooManyPlans) {
		return
	}
	for _, refusal := range orders.Refused {
		a.cfg.Logger.Warn("order not followed", "node", a.cfg.Node, "token", tokenOf(plan), "job", refusal.Job, "reason", refusal.Reason)
	}
	// Plans without records pass through the journal too, so that orders keep their sequence.
	a.awaiting = append(a.awaiting, &awaiting{orders: orders, since: now})
	a.note(ctx, func(ctx actor.Context) { a.follow(ctx, orders, now) }, records...)
}

// follow carries out orders that are in the journal. came is when they arrived.
func (a *agentActor) follow(ctx actor.Context, orders Orders, came time.Time) {
	now := time.Now()
	if a.takeOldest() {
		// Overtaken: they were handled before the journal responded.
		a.ask(ctx)
		return
	}
	a.intake.Followed()
	for _, start := range orders.Start {
		a.shared.figures.passed([]StageTime{{StageOrder, now.Sub(came)}})
		job := NewJob(now, start)
		gpus, err := a.gpus.Assign(start.GetJobId(), start.GetResources().GetGpu())
		job.Equip(now, gpus, err)
		a.spawn(ctx, job, nil)
	}
	a.lose(ctx, now, orders.Gone)
	for _, start := range orders.Declined {
		a.spawn(ctx, NewDeclinedJob(now, start, orders.Full), nil)
	}
	a.abort(ctx, now, orders.Abort)
	if a.closing != nil {
		// The orders arrived before the closing began, but have reached the journal only now.
		a.endAll(ctx)
	}
	a.ask(ctx)
}

// lose reports the end of jobs that the node had and forgot.
func (a *agentActor) lose(ctx actor.Context, now time.Time, gone []*actorpb.StartJob) {
	for _, start := range gone {
		a.spawn(ctx, NewLostJob(now, start), nil)
	}
}

// abort orders jobs to end.
func (a *agentActor) abort(ctx actor.Context, now time.Time, aborts []*actorpb.AbortJob) {
	for _, abort := range aborts {
		if job := a.jobs[abort.GetJobId()]; job != nil {
			ctx.Send(job.pid, order{NewOrder(now, abort)})
		}
	}
}

// closed says why no job may be started now; empty if jobs may be started.
func (a *agentActor) closed() string {
	switch {
	case a.closing != nil:
		return "the agent is closing"
	case !a.lease.Holds(a.shared.clock.now()):
		return "the node has no lease"
	default:
		return ""
	}
}

// spawn starts the actor of a job. run is not nil for a job that has processes.
func (a *agentActor) spawn(ctx actor.Context, job *Job, run Run) {
	start := job.start
	r := &jobRecord{job: job, run: run, noted: job.pid != 0, courier: NewCourier(controllerOf(start), a.cfg.Timing, rand.Float64)}
	// From Spawn on the job belongs to its actor.
	held, use := job.Held(), job.Use()
	pid := ctx.Spawn(actor.PropsFromProducer(func() actor.Actor { return &jobActor{environment: &a.environment, jobRecord: r} }))
	a.jobs[start.GetJobId()] = &child{pid: pid, held: held, use: use}
	a.session.Urge()
}

func controllerOf(start *actorpb.StartJob) Replica {
	return Replica{ID: start.GetController().GetId(), Address: start.GetController().GetAddress()}
}

// respond sends an answer if the sender waits for one.
func respond(ctx actor.Context, answer proto.Message) {
	if ctx.Sender() != nil {
		ctx.Respond(answer)
	}
}
