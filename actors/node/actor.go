package node

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/reconcile"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// State reads the replicated state.
type State interface {
	// Node returns the node's record, its allocations and the index of the state. Neither may be changed. record is
	// nil for a node that never registered.
	Node(id string) (record *statepb.Node, granted []Granted, index uint64)
	// Version returns the version of the cluster.
	Version() uint32
	// Refusal says why a node may not claim its tags and resources; "" if it may.
	Refusal(node *statepb.Node) string
	// Refused says the same of a node as it is registered.
	Refused(node string) string
}

// Scheduler receives the nodes that have resources to assign.
type Scheduler interface {
	// Offer says that a node of a pool tree is alive and may be given jobs.
	Offer(tree, node string, limits resource.Amounts)
	// Withdraw says that a node of a pool tree must not be given jobs.
	Withdraw(tree, node string)
	// Doubt says that a node of a pool tree may be dead, and is given no jobs until it is offered.
	Doubt(tree, node string)
}

// Agents carries messages to agents.
type Agents interface {
	// Send delivers at most once.
	Send(node string, msg proto.Message)
}

// Board publishes the state of a node to readers; nil removes it.
type Board interface {
	Publish(node string, view *actorpb.NodeView, held []*actorpb.HeldJob)
	// Heard publishes when the agent of a node was heard last, and when its lease ends.
	Heard(node string, at, expires time.Time)
	// Refuse remembers an agent that claims what no grant gives it.
	Refuse(agent *actorpb.RefusedAgent)
}

// Words announces whether a node's agent is heard, for clients that send requests to the node's
// jobs. It does not wait for the log.
type Words interface {
	// Say announces whether the node is unheard.
	Say(node string, unheard bool)
	// Unheard returns the last announcement, by any leader.
	Unheard(node string) bool
}

// Lead replies to agents on behalf of the leader.
type Lead interface {
	// Reply sends the answer, or redirects the agent if this replica no longer leads: a leader that
	// has been replaced must not renew leases.
	Reply(reply func(proto.Message), answer proto.Message)
}

// Config is the configuration of a node actor.
type Config struct {
	ID        string
	Term      uint64
	Leader    string
	State     State
	Log       reconcile.Log
	Scheduler Scheduler
	Agents    Agents
	Board     Board
	Words     Words
	Lead      Lead
	// Revocations returns the certificates that are no longer accepted. The result is not changed.
	Revocations func() *actorpb.Revocations
	// Replicas returns the replicas and their addresses, for agents.
	Replicas func() []*actorpb.Replica
	Timing   Timing
	Pacer    Pacer
	// RetryAfter is the pause after a proposal that was not committed.
	RetryAfter time.Duration
	// Now tells the time for leases, which does not count the time that this machine is suspended: the
	// agent's lease has then run out before the leader's. StateNow is the time of the state, for stop
	// orders.
	Now, StateNow func() time.Time
	Logger        *slog.Logger
}

// FromAgent is a message of the node's agent, whose identity has been checked.
type FromAgent struct {
	// Message is a *actorpb.RegisterAgent or a *actorpb.Heartbeat.
	Message proto.Message
	// Reply answers the agent.
	Reply func(proto.Message)
	// Replaced is called instead of Reply if a newer message arrives before the actor has handled
	// this one. nil means that the message cannot be replaced.
	Replaced func()
}

// Parted says that the connection to the node's agent has broken.
type Parted struct{}

// New returns the producer of a node's actor.
func New(cfg Config) actor.Producer {
	return reconcile.Live(cfg.Logger, func(life *reconcile.Life) reconcile.Body {
		return &nodeActor{cfg: cfg, life: life, session: NewSession(cfg.Now(), cfg.Timing, cfg.Pacer)}
	})
}

type nodeActor struct {
	cfg     Config
	life    *reconcile.Life
	session *Session
	// tree is the node's pool tree; empty if the node has none, or is unknown.
	tree string
	// lease fires when the node counts as lost. silence fires when it counts as unheard. retry
	// repeats proposals that failed. resend repeats orders, which do not wait for a heartbeat.
	lease, retry, silence, resend reconcile.Timer
	// registering answers the agent whose registration is in flight; nil if there is none.
	registering func(proto.Message)
	// fresh means that a registration was committed and no heartbeat has come since.
	fresh bool
	// inFlight means that a proposal has no outcome yet. dirty means that a Look came meanwhile.
	inFlight, dirty bool
}

// Start implements reconcile.Body.
func (a *nodeActor) Start() { a.armExpiry() }

// Take implements reconcile.Body.
func (a *nodeActor) Take(message any) bool {
	switch m := message.(type) {
	case FromAgent:
		a.fromAgent(m)
	case reconcile.Look:
		a.look()
		if a.fresh && a.session.Live(a.cfg.Now()) {
			// The scheduler ignored the offer if it had not seen the registration.
			a.offer()
		}
	case Parted:
		a.doubt()
	default:
		return false
	}
	return true
}

func (a *nodeActor) fromAgent(m FromAgent) {
	switch msg := m.Message.(type) {
	case *actorpb.RegisterAgent:
		a.register(msg, m.Reply)
	case *actorpb.Heartbeat:
		a.heartbeat(msg, m.Reply)
	default:
		m.Reply(&actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("node %q: unexpected message %T", a.cfg.ID, m.Message)})
	}
}

func (a *nodeActor) heartbeat(m *actorpb.Heartbeat, reply func(proto.Message)) {
	if why := a.barred(); why != "" {
		// Its lease runs out, here and there, and only then its jobs run elsewhere.
		a.cfg.Scheduler.Withdraw(a.tree, a.cfg.ID)
		reply(&actorpb.Refused{Code: actorpb.CodeNotRegistered, Reason: fmt.Sprintf("heartbeat of node %q: %s; register again", m.GetNode(), why)})
		return
	}
	if refused := a.session.Heartbeat(a.cfg.Now(), a.cfg.Term, m); refused != nil {
		reply(refused)
		return
	}
	if !a.lease.Pending() || !a.silence.Pending() {
		// Both look at the time of the last heartbeat themselves.
		a.armExpiry()
	}
	a.fresh = false
	a.trust()
	a.cfg.Lead.Reply(reply, &actorpb.HeartbeatAck{
		Sequence: m.GetSequence(), Term: a.cfg.Term, Replicas: a.cfg.Replicas(), Revocations: a.news(m.GetRevocations()),
		LeaseMillis: a.session.Pace().Lease.Milliseconds(), HeartbeatMillis: a.session.Pace().Heartbeat.Milliseconds(),
	})
	a.cfg.Board.Heard(a.cfg.ID, a.session.heard, a.session.Expires())
	if a.session.News() {
		a.look()
	}
	a.offer()
}

// barred says why the registered agent has to go although its lease holds; "" if it does not.
func (a *nodeActor) barred() string {
	if !a.session.Knows(a.cfg.State.Version()) {
		return "its program is older than the version of the cluster, which has been raised"
	}
	return a.cfg.State.Refused(a.cfg.ID)
}

// offer offers the node to the scheduler, unless its agent accepts no jobs.
func (a *nodeActor) offer() {
	if a.session.closed != "" {
		a.cfg.Scheduler.Withdraw(a.tree, a.cfg.ID)
		return
	}
	a.cfg.Scheduler.Offer(a.tree, a.cfg.ID, a.session.resources)
}

// read reads the replicated state.
func (a *nodeActor) read() (record *statepb.Node, granted []Granted, index uint64) {
	record, granted, index = a.cfg.State.Node(a.cfg.ID)
	a.tree = record.GetTree()
	return record, granted, index
}

// look compares what the agent has with the state.
func (a *nodeActor) look() {
	if a.inFlight {
		a.dirty = true
		return
	}
	a.dirty = false
	a.compare(a.read())
}

// compare sends the agent the committed grants and orders that it lacks, and gives up jobs that were
// granted to another incarnation of the node.
func (a *nodeActor) compare(record *statepb.Node, granted []Granted, index uint64) {
	a.publish(granted)
	if !a.session.Live(a.cfg.Now()) || !a.session.Knows(a.cfg.State.Version()) {
		if record.GetState() == statepb.NodeOffline && len(granted) > 0 {
			a.giveUp(lifecycle.AbortNodeOffline, ids(granted))
		}
		return
	}
	diff := a.session.Compare(a.cfg.StateNow(), granted)
	a.order(diff, index)
	for diff.More {
		diff = a.session.Compare(a.cfg.StateNow(), granted)
		a.order(diff, index)
	}
	a.resend.Stop()
	if !diff.Again.IsZero() {
		a.life.After(&a.resend, diff.Again.Sub(a.cfg.StateNow()), a.look)
	}
	if len(diff.Vanished) > 0 {
		a.giveUp(lifecycle.AbortDisappearedFromNode, diff.Vanished)
	}
}

// order sends the agent the orders of a difference.
func (a *nodeActor) order(diff Difference, index uint64) {
	if len(diff.Start)+len(diff.Abort) > 0 {
		a.cfg.Agents.Send(a.cfg.ID, &actorpb.NodePlan{
			Token: &actorpb.Token{Term: a.cfg.Term, Index: index},
			Start: diff.Start,
			Abort: diff.Abort,
		})
	}
}

func (a *nodeActor) giveUp(reason lifecycle.AbortReason, jobs []string) {
	a.proposeUntil(&a.retry, a.look, func() {}, a.abort(reason, jobs))
}

func (a *nodeActor) abort(reason lifecycle.AbortReason, jobs []string) *commandpb.AbortAllocations {
	return &commandpb.AbortAllocations{
		Term: a.cfg.Term, Node: a.cfg.ID, Reason: reason.String(), JobIds: jobs,
	}
}

// propose proposes commands, and looks again after the outcome if a Look came meanwhile.
func (a *nodeActor) propose(then func([]*commandpb.Result, error), commands ...proto.Message) {
	a.inFlight = true
	a.life.Propose(a.cfg.Log, func(results []*commandpb.Result, err error) {
		a.inFlight = false
		if err != nil {
			a.cfg.Logger.Debug("proposal not committed", "node", a.cfg.ID, "error", err)
		}
		then(results, err)
		if a.dirty {
			a.look()
		}
	}, commands...)
}

// proposeUntil proposes commands, and calls `done` once they are committed. If they fail, it pauses and calls `again`,
// which proposes commands for the state at that time. It is not a failure if a job to be given up has ended
// meanwhile.
func (a *nodeActor) proposeUntil(timer *reconcile.Timer, again, done func(), commands ...proto.Message) {
	a.propose(func(results []*commandpb.Result, err error) {
		refusal := reconcile.Refusal(results)
		if refusal != nil {
			a.cfg.Logger.Warn("proposal rejected; retrying", "node", a.cfg.ID, "code", refusal.GetCode(), "reason", refusal.GetMessage())
		}
		if refusal != nil || err != nil {
			a.life.After(timer, a.cfg.RetryAfter, again)
			return
		}
		done()
	}, commands...)
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
		Jobs: int64(len(granted)), MemoryUsed: memory, Files: a.session.files, Credentials: a.session.credentials, Can: a.session.can,
	}
	a.cfg.Board.Publish(a.cfg.ID, view, held)
}

// Stop implements reconcile.Body.
func (a *nodeActor) Stop() {
	if a.registering != nil {
		// The outcome of the proposal is lost when this life ends, so reply now.
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
