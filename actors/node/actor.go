package node

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// State reads the replicated state.
type State interface {
	// Node returns a copy of the node's record, its allocations, which are not to be
	// changed, and the index of the state; record is nil for a node that never
	// registered.
	Node(id string) (record *statepb.Node, granted []Granted, index uint64)
}

// Log proposes commands in the leader's term. done is called once, off the
// caller's goroutine.
type Log interface {
	ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error))
}

// Scheduler is told which nodes have resources to hand out.
type Scheduler interface {
	// Offer says that the node lives and may be given jobs.
	Offer(node string, limits resource.Amounts)
	// Withdraw says that the node must not be given jobs.
	Withdraw(node string)
}

// Agents carries messages to agents.
type Agents interface {
	// Send delivers at most once.
	Send(node string, msg proto.Message)
}

// Board shows others what is known of a node. nil: nothing.
type Board interface {
	Publish(node string, view *actorpb.NodeView, held []*actorpb.HeldJob)
}

// Words tell those who send requests to the node's jobs, ahead of the log, whether its agent is
// heard.
type Words interface {
	// Say says it.
	Say(node string, unheard bool)
	// Unheard returns what was said last, by any leader.
	Unheard(node string) bool
}

// Lead answers agents in the leader's name.
type Lead interface {
	// Reply gives the answer, or redirects the agent if this replica did not lead
	// any more after the call: a leader that was replaced renews no lease.
	Reply(reply func(proto.Message), answer proto.Message)
}

// Config is what a node actor works with.
type Config struct {
	ID        string
	Term      uint64
	Leader    string
	State     State
	Log       Log
	Scheduler Scheduler
	Agents    Agents
	Board     Board
	Words     Words
	Lead      Lead
	// Replicas lists where agents find replicas.
	Replicas func() []*actorpb.Replica
	Timing   Timing
	// RetryAfter is the pause after a proposal was not committed.
	RetryAfter time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
}

// FromAgent is a message of the node's agent, whose identity has been checked.
type FromAgent struct {
	// Message is a *actorpb.RegisterAgent or a *actorpb.Heartbeat.
	Message proto.Message
	// Reply answers the agent.
	Reply func(proto.Message)
}

// Waiting tells the actor that a heartbeat waits; Take returns the latest one,
// false when it has been taken already.
type Waiting struct{ Take func() (FromAgent, bool) }

// Look tells the actor that the node's allocations, or the operations that they
// belong to, may have changed.
type Look struct{}

// Parted tells the actor that the connection with the node's agent has broken.
type Parted struct{}

type expire struct{}

type silent struct{}

// New returns the producer of a node's actor.
func New(cfg Config) actor.Producer {
	return func() actor.Actor { return &nodeActor{cfg: cfg} }
}

type nodeActor struct {
	cfg     Config
	session *Session
	// lease runs out when the node counts as lost; retry tries again what was not
	// carried out. silence is when it counts as unheard.
	lease, retry, silence *time.Timer
	// registering answers the agent whose registration is in flight; nil: none is.
	registering func(proto.Message)
	// inFlight: a proposal's outcome has not come; dirty: look when it has.
	inFlight, dirty bool
}

// Receive implements actor.Actor.
func (a *nodeActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.session = NewSession(a.cfg.Now(), a.cfg.Timing)
		a.armExpiry(ctx)
	case FromAgent:
		a.fromAgent(ctx, m)
	case Waiting:
		if beat, ok := m.Take(); ok {
			a.fromAgent(ctx, beat)
		}
	case Look:
		a.look(ctx)
	case Parted:
		a.doubt()
	case silent:
		a.silent(ctx)
	case expire:
		a.expire(ctx)
	case committed:
		if m.of == a {
			a.committed(ctx, m)
		}
	case *actor.Stopping, *actor.Restarting:
		a.close()
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The rest of the life cycle needs no work here.
	default:
		a.cfg.Logger.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
	}
}

func (a *nodeActor) fromAgent(ctx actor.Context, m FromAgent) {
	switch msg := m.Message.(type) {
	case *actorpb.RegisterAgent:
		a.register(ctx, msg, m.Reply)
	case *actorpb.Heartbeat:
		a.heartbeat(ctx, msg, m.Reply)
	default:
		m.Reply(&actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("node %q: unexpected message %T", a.cfg.ID, m.Message)})
	}
}

func (a *nodeActor) register(ctx actor.Context, m *actorpb.RegisterAgent, reply func(proto.Message)) {
	now := a.cfg.Now()
	if m.GetToken().GetTerm() > a.cfg.Term {
		// The agent would take no order of this leader: jobs granted to it would wait.
		a.cfg.Lead.Reply(reply, &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf(
			"register node %q: its agent has orders of term %d, but this cluster is in term %d: the agent's state folder belongs to another cluster, "+
				"or to an earlier one of the same name; move it away and restart the agent", m.GetNode(), m.GetToken().GetTerm(), a.cfg.Term)})
		return
	}
	if refused := a.session.Greet(now, m); refused != nil {
		reply(refused)
		return
	}
	if a.inFlight {
		reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "node record update in progress", RetryMillis: 50})
		return
	}
	record, _, _ := a.cfg.State.Node(a.cfg.ID)
	if !Changed(record, m) {
		a.open(ctx, m, reply)
		return
	}
	command := &commandpb.RegisterNode{
		Term: a.cfg.Term,
		Time: timestamppb.New(now),
		Node: &statepb.Node{
			Id: m.GetNode(), Incarnation: m.GetIncarnation(), Resources: m.GetResources(), Tags: m.GetTags(),
			Version: m.GetVersion(), Caveat: m.GetCaveat(), Host: m.GetHost(),
			FirstPort: m.GetFirstPort(), PortCount: m.GetPortCount(),
		},
	}
	a.registering = reply
	a.propose(ctx, []proto.Message{command}, func(ctx actor.Context, results []*commandpb.Result, err error) {
		a.registering = nil
		switch {
		case err != nil:
			reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: err.Error(), RetryMillis: a.cfg.RetryAfter.Milliseconds()})
		case results[0].GetRefusal() != nil:
			reply(unregistered(results[0].GetRefusal(), a.cfg.RetryAfter))
		default:
			a.cfg.Logger.Info("node registered", "node", m.GetNode(), "incarnation", m.GetIncarnation(), "resources", m.GetResources().Amounts())
			a.open(ctx, m, reply)
		}
	})
}

// open begins the agent's session; its registration is committed.
func (a *nodeActor) open(ctx actor.Context, m *actorpb.RegisterAgent, reply func(proto.Message)) {
	a.session.Open(a.cfg.Now(), m)
	a.armExpiry(ctx)
	a.cfg.Lead.Reply(reply, &actorpb.AgentRegistered{
		Term:            a.cfg.Term,
		Leader:          a.cfg.Leader,
		LeaseMillis:     a.cfg.Timing.Lease.Milliseconds(),
		HeartbeatMillis: a.cfg.Timing.Heartbeat.Milliseconds(),
		Replicas:        a.cfg.Replicas(),
	})
	a.look(ctx)
	a.offer()
}

func (a *nodeActor) heartbeat(ctx actor.Context, m *actorpb.Heartbeat, reply func(proto.Message)) {
	if refused := a.session.Heartbeat(a.cfg.Now(), a.cfg.Term, m); refused != nil {
		reply(refused)
		return
	}
	a.armExpiry(ctx)
	a.trust()
	a.cfg.Lead.Reply(reply, &actorpb.HeartbeatAck{Sequence: m.GetSequence(), Term: a.cfg.Term, Replicas: a.cfg.Replicas()})
	a.look(ctx)
	a.offer()
}

// offer lets the scheduler give the node jobs, unless its agent takes none.
func (a *nodeActor) offer() {
	if a.session.closed != "" {
		a.cfg.Scheduler.Withdraw(a.cfg.ID)
		return
	}
	a.cfg.Scheduler.Offer(a.cfg.ID, a.session.resources)
}

// look sends the agent what it lacks, and gives up what its present life has
// never had.
func (a *nodeActor) look(ctx actor.Context) {
	if a.inFlight {
		a.dirty = true
		return
	}
	a.dirty = false
	now := a.cfg.Now()
	record, granted, index := a.cfg.State.Node(a.cfg.ID)
	a.publish(granted)
	if !a.session.Live(now) {
		if record.GetState() == statepb.NodeOffline && len(granted) > 0 {
			a.giveUp(ctx, lifecycle.AbortNodeOffline, ids(granted))
		}
		return
	}
	diff := a.session.Compare(now, granted)
	if len(diff.Start)+len(diff.Abort) > 0 {
		a.cfg.Agents.Send(a.cfg.ID, &actorpb.NodePlan{
			Token: &actorpb.Token{Term: a.cfg.Term, Index: index},
			Start: diff.Start,
			Abort: diff.Abort,
		})
	}
	if len(diff.Vanished) > 0 {
		a.giveUp(ctx, lifecycle.AbortDisappearedFromNode, diff.Vanished)
	}
}

// expire gives the node up when its lease has run out.
func (a *nodeActor) expire(ctx actor.Context) {
	now := a.cfg.Now()
	if now.Before(a.session.Expires()) {
		a.armExpiry(ctx)
		return
	}
	if a.inFlight {
		a.lease = a.after(ctx, a.lease, a.cfg.RetryAfter, expire{})
		return
	}
	a.cfg.Scheduler.Withdraw(a.cfg.ID)
	record, granted, _ := a.cfg.State.Node(a.cfg.ID)
	if record.GetState() != statepb.NodeOnline {
		a.look(ctx)
		return
	}
	a.cfg.Logger.Warn("node lost: lease expired", "node", a.cfg.ID, "jobs", len(granted), "lease", a.cfg.Timing.Lease)
	a.session.Close()
	commands := []proto.Message{&commandpb.SetNodeOffline{
		Term: a.cfg.Term, Time: timestamppb.New(now), Node: a.cfg.ID, Incarnation: record.GetIncarnation(), Reason: "lease expired",
	}}
	if len(granted) > 0 {
		commands = append(commands, a.abort(lifecycle.AbortNodeOffline, ids(granted)))
	}
	a.propose(ctx, commands, func(ctx actor.Context, results []*commandpb.Result, err error) {
		if a.failed(results, err) {
			a.lease = a.after(ctx, a.lease, a.cfg.RetryAfter, expire{})
		}
	})
}

func (a *nodeActor) giveUp(ctx actor.Context, reason lifecycle.AbortReason, jobs []string) {
	a.propose(ctx, []proto.Message{a.abort(reason, jobs)}, func(ctx actor.Context, results []*commandpb.Result, err error) {
		if a.failed(results, err) {
			a.retry = a.after(ctx, a.retry, a.cfg.RetryAfter, Look{})
		}
	})
}

func (a *nodeActor) abort(reason lifecycle.AbortReason, jobs []string) *commandpb.AbortAllocations {
	return &commandpb.AbortAllocations{
		Term: a.cfg.Term, Time: timestamppb.New(a.cfg.Now()), Node: a.cfg.ID, Reason: reason.String(), JobIds: jobs,
	}
}

func (a *nodeActor) armExpiry(ctx actor.Context) {
	a.lease = a.after(ctx, a.lease, a.session.Expires().Sub(a.cfg.Now()), expire{})
	a.silence = a.after(ctx, a.silence, a.session.Silent().Sub(a.cfg.Now()), silent{})
}

func (a *nodeActor) publish(granted []Granted) {
	held := make([]*actorpb.HeldJob, 0, len(a.session.held))
	var memory int64
	for _, job := range a.session.held {
		held = append(held, job)
		memory += job.GetMemory()
	}
	var usage resource.Amounts
	for _, g := range granted {
		usage = usage.Add(g.Allocation.GetResources().Amounts())
	}
	view := &actorpb.NodeView{
		Id: a.cfg.ID, Usage: statepb.NewResources(usage), Limits: statepb.NewResources(a.session.resources),
		Jobs: int64(len(granted)), LeaseLeftMillis: a.session.Expires().Sub(a.cfg.Now()).Milliseconds(), MemoryUsed: memory,
		Files: a.session.files,
	}
	if !a.session.heard.IsZero() {
		view.LastHeartbeat = timestamppb.New(a.session.heard)
	}
	a.cfg.Board.Publish(a.cfg.ID, view, held)
}

func (a *nodeActor) close() {
	stopTimer(a.lease)
	stopTimer(a.retry)
	stopTimer(a.silence)
	if a.registering != nil {
		// Nobody else will: the outcome is for this life.
		a.registering(&actorpb.Refused{
			Code: actorpb.CodeUnavailable, Reason: "the node's actor is restarting", RetryMillis: a.cfg.RetryAfter.Milliseconds(),
		})
	}
	a.cfg.Board.Publish(a.cfg.ID, nil, nil)
}

func ids(granted []Granted) []string {
	out := make([]string, len(granted))
	for i, g := range granted {
		out[i] = g.Allocation.GetJobId()
	}
	return out
}
