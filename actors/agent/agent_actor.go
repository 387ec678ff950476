package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/agent/journal"
	"weir/actors/remote"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/scheduling/lifecycle"
)

// warnPause is the pause between two warnings of the same kind.
const warnPause = 10 * time.Second

// agentActor speaks for the node.
type agentActor struct {
	environment
	// recovered are the jobs of an earlier process.
	recovered []recoveredJob

	roster  *Roster
	fence   *Fence
	session *Session
	// known is what the leader knows of the jobs.
	known  Known
	lease  Lease
	intake *Intake
	ledger *Ledger
	space  *Space
	guard  *MemoryGuard
	gpus   *GPUs
	jobs   map[string]*child

	// finish cancels the agent's context.
	finish context.CancelFunc
	// wake is the timer of the next question to a replica. lapse is the timer of the lease's end.
	wake    *time.Timer
	lapse   leaseTimer
	closing *time.Timer
	// awaiting are the orders that wait for the journal, oldest first.
	awaiting []*awaiting
	// look is the timer of the next disk measurement, and watch is the timer of the next memory
	// measurement. seen is the last disk measurement. measuring is set while a disk measurement
	// runs.
	look, watch *time.Timer
	seen        measured
	measuring   bool
	gauge       gauge
	// renewing sends the lease to job proxies; remembering saves the known replicas for the
	// agent's next process.
	renewing, remembering repeated
	// revoking saves the revocations.
	revoking repeated
	// holds are the credentials that this leader knows of. saying are those in the question that is
	// not answered yet.
	holds, saying *actorpb.HeldCredentials
	// reads and execs count the requests of these kinds that are being handled.
	reads, execs int
	// warned is when trouble with finding a leader was last logged.
	warned time.Time
}

// child is a job's actor, and its last report.
type child struct {
	pid  *actor.PID
	held *actorpb.HeldJob
	use  MemoryUse
}

type (
	// spoiled reports that the journal has failed and takes no more records.
	spoiled struct{ err error }
	// measured is a measurement of the free disk space.
	measured struct {
		free Free
		err  error
	}
)

// Receive implements actor.Actor.
func (a *agentActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.life, a.finish = context.WithCancel(context.Background())
		a.agent = ctx.Self()
		for _, r := range a.recovered {
			a.spawn(ctx, r.job, r.run)
		}
		a.recovered = nil
		a.watchLease(ctx)
		a.ask(ctx)
		a.look = after(ctx, nil, spacePeriod, a.measure)
		a.lookAtMemory(ctx)
	case *remote.Inbound:
		a.inbound(ctx, m)
	case work:
		m(ctx)
	case spoiled:
		a.spoiled(ctx, m.err)
	case changed:
		a.changed(ctx, m)
	case forgotten:
		a.forget(ctx, m.job)
	case measured:
		a.measured(ctx, m)
	case leave:
		a.leave(ctx, m.keep)
	case *actor.Stopping:
		a.close()
	case *actor.Stopped:
		a.directory.Close()
		a.files.Close()
		a.closeJournal()
		close(a.shared.ended)
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The rest of the life cycle needs no work here.
	default:
		a.cfg.Logger.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
	}
}

// ask sends the session's next question, or sets the timer for it.
func (a *agentActor) ask(ctx actor.Context) {
	if a.closing != nil {
		return
	}
	now := time.Now()
	ask, wake := a.session.Next(now)
	if ask == nil {
		if !wake.IsZero() {
			a.wake = after(ctx, a.wake, wake.Sub(now), a.ask)
		}
		return
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	jobs := a.held()
	a.shared.figures.asked(jobs)
	sent := a.shared.clock.now()
	a.replicas.Ask(ask.To, a.question(ask, jobs), ask.Timeout, func(reply proto.Message, err error) {
		root.Send(self, work(func(ctx actor.Context) { a.answered(ctx, sent, ask.Number, reply, err) }))
	})
}

func (a *agentActor) question(ask *Ask, jobs []*actorpb.HeldJob) proto.Message {
	a.saying = a.credentials(ask.Register)
	if !ask.Register {
		files := a.files.Stats()
		beat := &actorpb.Heartbeat{
			Files: &actorpb.FileCache{Files: int64(files.Files), Bytes: files.Bytes, Limit: files.Limit},
			Node:  a.cfg.Node, Incarnation: a.nodeLife, Session: a.process, Sequence: ask.Sequence, Term: ask.Term,
			Resources: statepb.NewResources(a.cfg.Resources), Revocations: a.cfg.Revocations.Version(), Credentials: a.saying,
		}
		a.known.Tell(beat, jobs)
		return beat
	}
	a.known.Register(jobs)
	seen := a.fence.Seen()
	return &actorpb.RegisterAgent{
		Node: a.cfg.Node, Incarnation: a.nodeLife, Session: a.process, Resources: statepb.NewResources(a.cfg.Resources), Tags: a.cfg.Tags,
		Version: a.cfg.Version, Can: versions.Current, Caveat: a.caveat(), Host: a.cfg.Host, Closed: a.space.Closed(),
		Token: &actorpb.Token{Term: seen.Term, Index: seen.Index}, Jobs: jobs,
		SharedUser: a.cfg.SharedUser(), Revocations: a.cfg.Revocations.Version(), Credentials: a.saying,
		FirstPort: int32(a.cfg.Ports.First), PortCount: int32(a.cfg.Ports.Count),
	}
}

// credentials returns what the agent holds of the cluster's certificates if the leader has not been
// told, as a new one has not.
func (a *agentActor) credentials(first bool) *actorpb.HeldCredentials {
	if a.cfg.Credentials == nil {
		return nil
	}
	if now := a.cfg.Credentials(); first || !proto.Equal(now, a.holds) {
		return now
	}
	return nil
}

func (a *agentActor) held() []*actorpb.HeldJob {
	held := make([]*actorpb.HeldJob, 0, len(a.jobs))
	for _, id := range slices.Sorted(maps.Keys(a.jobs)) {
		held = append(held, a.jobs[id].held)
	}
	return held
}

// answered handles the answer to a question of the session, which was sent at the given time since
// the boot of the machine.
func (a *agentActor) answered(ctx actor.Context, sent time.Duration, number uint64, reply proto.Message, err error) {
	// If the lease ran out while the agent was frozen, handle that before the answer renews it.
	a.expire(ctx)
	outcome := a.session.Answer(time.Now(), number, reply, err)
	a.shared.figures.answered(outcome)
	a.tell(outcome)
	if outcome.Lease > 0 {
		a.known.Heard(reply)
		if a.saying != nil {
			a.holds = a.saying
		}
	}
	if outcome.Lease > 0 && a.lease.Renew(sent, outcome.Lease) {
		until := a.lease.Until()
		a.shared.until.Store(int64(until))
		a.lapse.Reset(until - a.shared.clock.now())
		a.renewing.do(ctx, func() { a.processes.RenewAll(time.Duration(a.shared.until.Load())) })
	}
	if told, ok := reply.(interface{ GetReplicas() []*actorpb.Replica }); ok && outcome.Lease > 0 && len(told.GetReplicas()) > 0 {
		a.replicas.Keep(told.GetReplicas())
	}
	if told, ok := reply.(interface{ GetRevocations() *actorpb.Revocations }); ok && outcome.Lease > 0 && told.GetRevocations() != nil && a.cfg.Revocations != nil {
		a.cfg.Logger.Info("revocations learned", "node", a.cfg.Node, "leader", a.session.leader.ID, "records", len(told.GetRevocations().GetList()))
		a.cfg.Revocations.Heed(told.GetRevocations())
		a.revoking.do(ctx, a.saveRevocations)
	}
	if outcome.Learned {
		a.publishReplicas()
		a.remembering.do(ctx, a.remember)
	}
	if noted := a.intake.Note(); len(noted) > 0 {
		a.note(ctx, nil, noted...)
	}
	if outcome.From != "" {
		a.note(ctx, nil, journal.Rejected(outcome.Trouble.Error(), outcome.Stale, a.fence.Seen(), outcome.From, ""))
	}
	a.ask(ctx)
}

// tell logs for operators what an answer means. It limits how often it warns.
func (a *agentActor) tell(outcome Outcome) {
	switch {
	case outcome.Registered:
		a.warned = time.Time{}
		a.cfg.Logger.Info("registered", "node", a.cfg.Node, "leader", a.session.leader.ID, "term", a.session.term,
			"lease", outcome.Lease, "jobs", len(a.jobs))
	case outcome.Trouble == nil:
	case errors.Is(outcome.Trouble, ErrStale):
		a.cfg.Logger.Warn("stale leader refused", "node", a.cfg.Node, "error", outcome.Trouble, "refused", a.fence.Refused(), "hint", a.staleHint())
	case outcome.Severe:
		a.cfg.Logger.Error("registration rejected; will retry", "node", a.cfg.Node, "error", outcome.Trouble,
			"hint", "check the node's name, its certificate, its tags, its resources, and that no other agent runs with this name")
	case time.Since(a.warned) < warnPause:
		a.cfg.Logger.Debug("leader not responding", "node", a.cfg.Node, "error", outcome.Trouble)
	default:
		a.warned = time.Now()
		a.cfg.Logger.Warn("leader not responding; retrying", "node", a.cfg.Node, "error", outcome.Trouble)
	}
}

func (a *agentActor) staleHint() string {
	return "a recreated cluster starts again at term 1: remove " + a.folder.journalFile() + " and restart the agent"
}

// changed handles a job actor's report. A new phase is sent to the leader without waiting for
// the next heartbeat period.
func (a *agentActor) changed(ctx actor.Context, m changed) {
	job, ok := a.jobs[m.held.GetJobId()]
	if !ok {
		return
	}
	before := job.held.GetPhase()
	if m.use.Deadline.IsZero() {
		// The report was sent before the job received its order to end: keep the deadline.
		m.use.Deadline = job.use.Deadline
	}
	job.held, job.use = m.held, m.use
	if m.held.GetPhase() == actorpb.PhaseEnded {
		// None of its processes is left. Free the GPUs before the leader learns that the job
		// has ended, so that the next job finds them free.
		a.gpus.Free(m.held.GetJobId())
	}
	if before != m.held.GetPhase() {
		a.session.Urge()
		a.ask(ctx)
	}
}

func (a *agentActor) forget(ctx actor.Context, job string) {
	delete(a.jobs, job)
	a.gpus.Free(job)
	a.ledger.Forget(job)
	if a.closing != nil && len(a.jobs) == 0 {
		ctx.Stop(ctx.Self())
		return
	}
	a.session.Urge()
	a.ask(ctx)
}

func (a *agentActor) publishReplicas() {
	all := a.roster.All()
	a.shared.replicas.Store(&all)
}

// remember saves the known replicas. It may be called by any goroutine.
func (a *agentActor) remember() {
	if err := a.folder.writeReplicas(*a.shared.replicas.Load()); err != nil {
		a.cfg.Logger.Warn("known replicas not saved", "node", a.cfg.Node, "error", err)
	}
}

// saveRevocations may be called by any goroutine. What is not saved is told again.
func (a *agentActor) saveRevocations() {
	if err := a.cfg.Revocations.Save(); err != nil {
		a.cfg.Logger.Warn("revocations not saved; they count until the agent is restarted", "node", a.cfg.Node, "error", err)
	}
}

// spoiled ends the agent, because nothing may be done that the journal cannot record. Jobs run
// on under their proxies, for the next agent process to adopt.
func (a *agentActor) spoiled(ctx actor.Context, err error) {
	if a.shared.failure.CompareAndSwap(nil, &err) {
		a.cfg.Logger.Error("agent stopping: journal write failed; jobs run until the lease expires", "node", a.cfg.Node, "error", err)
		ctx.Stop(ctx.Self())
	}
}

// leave ends the agent: at once if keep is set, otherwise after its jobs have ended. Heartbeats
// stop, so that the leader offers no more jobs; the current lease outlasts the closing.
func (a *agentActor) leave(ctx actor.Context, keep bool) {
	if keep || len(a.jobs) == 0 {
		ctx.Stop(ctx.Self())
		return
	}
	a.cfg.Logger.Info("closing: stopping jobs", "node", a.cfg.Node, "jobs", len(a.jobs))
	a.closing = after(ctx, nil, a.cfg.Timing.CloseTimeout, func(ctx actor.Context) { ctx.Stop(ctx.Self()) })
	a.endAll(ctx)
}

// endAll ends all jobs because the agent is closing.
func (a *agentActor) endAll(ctx actor.Context) {
	a.abortAll(ctx, Order{
		Reason: lifecycle.AbortNodeOffline, Message: "the node's agent was stopped", Deadline: time.Now().Add(a.cfg.Timing.CloseGrace),
	})
}

func (a *agentActor) close() {
	if !a.shared.closing.Load() && a.shared.failure.Load() == nil {
		a.cfg.Logger.Error("agent failed", "node", a.cfg.Node)
	}
	a.finish()
	_ = a.lapse.Close()
	stopTimers(a.wake, a.closing, a.look, a.watch)
}

// closeJournal closes the journal after the last job actor has stopped writing to it. It waits
// no longer than CloseTimeout, so that a hanging disk cannot keep the agent from ending.
func (a *agentActor) closeJournal() {
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.Timing.CloseTimeout)
	defer cancel()
	err, late := await(ctx, func(done func(error)) { go func() { done(a.journal.Close()) }() })
	if late != nil {
		err = fmt.Errorf("close journal: disk not responding for %v", a.cfg.Timing.CloseTimeout)
	}
	if err != nil && a.shared.failure.CompareAndSwap(nil, &err) {
		a.cfg.Logger.Error("journal not closed", "node", a.cfg.Node, "error", err)
	}
}
