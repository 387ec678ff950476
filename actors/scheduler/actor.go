package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/reconcile"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// State reads the replicated state. Some results are shared with it and must not be changed.
type State interface {
	Records
	// Seed returns the whole tree at one index; false if there is no such tree.
	Seed(tree scheduling.TreeName) (Seed, bool)
}

// History records the state of pools, once a second.
type History interface {
	// Due reports whether the tree has no point yet for the second that contains now.
	Due(tree scheduling.TreeName, now time.Time) bool
	Record(tree scheduling.TreeName, now time.Time, pools []engine.PoolView)
}

// CheckpointEvery is the default of Config.CheckpointEvery. A new leader may lose the last
// CheckpointEvery of changes to starvation clocks and integral volumes; it adds the flow into the
// volumes itself.
const CheckpointEvery = 3 * time.Second

// OfferEvery is the longest time until a node is offered again. Most of what starts or leaves does so by an event; the rest,
// such as preemption for those who begin to starve, takes no longer in a large cluster than in a small one.
const OfferEvery = time.Second

// Config is the configuration of a tree's actor.
type Config struct {
	Tree   scheduling.TreeName
	Term   uint64
	State  State
	Log    reconcile.Log
	Engine engine.Config
	// TickEvery is the period of fair share updates. Events that change fair shares trigger an
	// update at once, but no sooner than TickGap after the last one.
	TickEvery, TickGap time.Duration
	// Heartbeat returns the period in which agents have their nodes offered. If it is longer than
	// OfferEvery, the actor offers each node itself in that period.
	Heartbeat func() time.Duration
	// CheckpointEvery is the period at which integral volumes and changed starvation clocks are
	// proposed. A new leader may lack the changes of one period.
	CheckpointEvery time.Duration
	// NodesPerPlan bounds the nodes of one plan, and so how long it keeps the actor busy.
	NodesPerPlan int
	// MaxInFlight bounds the proposals in flight. At the bound, further nodes wait and share the
	// next proposal.
	MaxInFlight int
	// NewID makes job ids.
	NewID func() string
	Now   func() time.Time
	// Figures receives the metrics.
	Figures *Figures
	History History
	Logger  *slog.Logger
}

// Committed holds the events of a log entry that concern the tree.
type Committed struct {
	Index  uint64
	Events []state.Event
	// Done is called once the events have been handled. The sender waits for it when too many
	// entries are not done.
	Done func()
}

// Offer says that a node sent a heartbeat and may be given jobs.
type Offer struct {
	Node   string
	Limits resource.Amounts
}

// Withdraw says that a node must not be given jobs.
type Withdraw struct{ Node string }

// Doubt says that a node may be dead.
type Doubt struct{ Node string }

// KeepVolumes proposes the current volumes at once, because another replica is about to lead. Done
// is called once, when the outcome is known.
type KeepVolumes struct{ Done func() }

// New returns the producer of a tree's actor. A restarted actor receives nothing that was meant for
// its former life: ticks, starts in flight and waiting requests have ended with the former Tree.
func New(cfg Config) actor.Producer {
	return reconcile.Live(cfg.Logger, func(life *reconcile.Life) reconcile.Body { return &treeActor{cfg: cfg, life: life} })
}

type treeActor struct {
	cfg  Config
	life *reconcile.Life
	// tree is nil if the tree does not exist.
	tree *Tree
	// counted is the number of starts in flight that the figures include.
	counted int
	// ticked is the time of the last fair share update. stale means that something has changed since
	// that update.
	ticked time.Time
	stale  bool
	// shown is the full view, which is made for the first request after ticked; nil before that
	// request.
	shown *actorpb.SchedulerView
	// inquiries are the explain requests.
	inquiries inquiries
	// probed is when the actor last asked about an operation itself.
	probed time.Time
	// inFlight is the number of proposals without an answer.
	inFlight int
	// matching means that a match is queued in the mailbox.
	matching   bool
	checkpoint checkpoint
	ticks      reconcile.Timer
}

// Take implements reconcile.Body.
func (a *treeActor) Take(message any) bool {
	if a.tree == nil {
		return a.idle(message)
	}
	switch m := message.(type) {
	case Committed:
		a.committed(m)
	case Offer:
		a.check(a.tree.Offer(m.Node, m.Limits))
	case Withdraw:
		a.withdraw(m)
	case Doubt:
		a.tree.nodes.doubt(m.Node)
	case KeepVolumes:
		a.update(a.cfg.Now())
		a.keepVolumes(m.Done)
	case View:
		a.view(m)
	default:
		return false
	}
	return true
}

// Stop implements reconcile.Body.
func (a *treeActor) Stop() {
	a.inquiries.abandon(nothing(a.cfg))
	a.cfg.Figures.abandon(a.counted)
}

// idle answers messages to an actor whose tree was removed before the actor could start. The actor
// will be stopped soon. But if a tree with this name is created again, the actor starts, because
// the leader actor may have seen only the new tree.
func (a *treeActor) idle(message any) bool {
	switch m := message.(type) {
	case Committed:
		defer m.Done()
		if slices.ContainsFunc(m.Events, func(e state.Event) bool {
			changed, ok := e.(state.TreeChanged)
			return ok && changed.Tree == a.cfg.Tree
		}) {
			a.Start()
		}
	case KeepVolumes:
		m.Done()
	case View:
		m.Reply(&actorpb.SchedulerView{Term: a.cfg.Term})
	case Offer, Withdraw, Doubt:
	default:
		return false
	}
	return true
}

// Start implements reconcile.Body.
func (a *treeActor) Start() {
	seed, ok := a.cfg.State.Seed(a.cfg.Tree)
	if !ok {
		a.cfg.Logger.Info("scheduler not started: tree no longer exists", "tree", a.cfg.Tree)
		return
	}
	var err error
	if a.tree, err = NewTree(a.cfg.Engine, seed); err != nil {
		// The supervisor restarts the actor, which then reads a newer state.
		panic(fmt.Sprintf("start scheduler of tree %q: %v", a.cfg.Tree, err))
	}
	a.cfg.Logger.Info("scheduler started", "tree", a.cfg.Tree, "index", seed.Index,
		"operations", len(seed.Operations), "allocations", len(seed.Allocations), "nodes", len(seed.Nodes))
	a.tick()
}

func (a *treeActor) committed(m Committed) {
	defer m.Done()
	if a.tree.Seen(m.Index) {
		return
	}
	if err := a.tree.Follow(m.Index, m.Events, a.cfg.State); err != nil {
		// If the engine diverged from the log, it would grant resources that are not free. So
		// restart it from the state.
		panic(fmt.Sprintf("scheduler of tree %q: %v", a.cfg.Tree, err))
	}
	a.stale = true
	a.check(nil)
}

func (a *treeActor) withdraw(m Withdraw) {
	node := a.cfg.State.NodeRecord(m.Node)
	a.check(a.tree.Withdraw(m.Node, node.GetResources().Amounts()))
}

// check queues a match if nodes wait. Messages that are already in the mailbox are handled first,
// and share the plan.
func (a *treeActor) check(err error) {
	if err != nil {
		panic(fmt.Sprintf("scheduler of tree %q: %v", a.cfg.Tree, err))
	}
	if !a.matching && a.tree.Waiting() && a.inFlight < a.cfg.MaxInFlight {
		a.matching = true
		a.life.Do(a.match)
	}
}

func (a *treeActor) match() {
	a.matching = false
	now := a.cfg.Now()
	if a.stale && now.Sub(a.ticked) >= a.cfg.TickGap {
		a.update(now)
	}
	began := a.cfg.Now()
	proposal := a.tree.Plan(now, a.cfg.Term, a.cfg.NodesPerPlan, a.cfg.NewID)
	a.cfg.Figures.planned(began, a.cfg.Now(), a.flying(), a.tree.outcome)
	if len(proposal.Commands) > 0 {
		a.inFlight++
		a.life.Propose(a.cfg.Log, func(results []*commandpb.Result, err error) { a.proposed(proposal, results, err) }, proposal.Commands...)
	}
	a.check(nil)
}

func (a *treeActor) proposed(proposal Proposal, results []*commandpb.Result, err error) {
	a.inFlight--
	if err != nil {
		a.cfg.Logger.Warn("plan not committed", "tree", a.cfg.Tree, "jobs", len(proposal.Jobs), "error", err)
	}
	if refusal := reconcile.Refusal(results); refusal != nil {
		a.cfg.Logger.Warn("plan refused", "tree", a.cfg.Tree, "code", refusal.GetCode(), "reason", refusal.GetMessage())
	}
	answers := AnswersOf(results)
	started := 0
	for _, answer := range answers.Grants {
		if answer.GetRefusal() == "" {
			started++
		} else {
			a.cfg.Logger.Debug("grant refused", "job", answer.GetJobId(), "reason", answer.GetRefusal())
		}
	}
	for _, answer := range answers.Preemptions {
		if answer.GetRefusal() != "" {
			a.cfg.Logger.Debug("preemption refused", "job", answer.GetJobId(), "reason", answer.GetRefusal())
		}
	}
	err = a.tree.Settle(proposal, answers)
	a.cfg.Figures.settled(len(proposal.Jobs), started, a.flying())
	a.check(err)
}

// flying returns by how much the number of starts in flight has changed since the last call.
func (a *treeActor) flying() int {
	now := a.tree.InFlight()
	delta := now - a.counted
	a.counted = now
	return delta
}

func (a *treeActor) tick() {
	a.update(a.cfg.Now())
	if a.checkpoint.due(a.cfg.Now(), a.cfg.CheckpointEvery) {
		a.keepVolumes(func() {})
	}
	if a.cfg.Heartbeat() > OfferEvery {
		a.tree.nodes.offerNext(float64(a.cfg.TickEvery) / float64(OfferEvery))
	}
	a.life.After(&a.ticks, a.cfg.TickEvery, a.tick)
	a.check(nil)
}

// keepVolumes proposes the volumes of the last update. done is called when the outcome is known.
func (a *treeActor) keepVolumes(done func()) {
	msg := a.tree.Checkpoint(a.cfg.Term, a.cfg.State.Kept(a.cfg.Tree))
	a.checkpoint = checkpoint{last: a.cfg.Now(), inFlight: msg != nil}
	if msg == nil {
		done()
		return
	}
	a.cfg.Log.ProposeAsync([]proto.Message{msg}, func(results []*commandpb.Result, err error) {
		if refusal := reconcile.Refusal(results); refusal != nil {
			err = errors.New(refusal.GetMessage())
		}
		done()
		a.life.Do(func() {
			a.checkpoint.inFlight = false
			if err != nil {
				a.cfg.Logger.Warn("volume checkpoint not committed; retrying", "tree", a.cfg.Tree, "error", err)
			}
		})
	})
}

func (a *treeActor) update(now time.Time) {
	if err := a.tree.Tick(now); err != nil {
		a.cfg.Logger.Error("fair share update failed", "tree", a.cfg.Tree, "error", err)
		// The next view still has to show changes since the last update.
		a.shown = nil
		return
	}
	a.ticked, a.stale, a.shown = now, false, nil
	a.cfg.Figures.update(now, a.cfg.Now())
	if a.cfg.History.Due(a.cfg.Tree, now) {
		a.cfg.History.Record(a.cfg.Tree, now, a.tree.engine.Pools())
	}
	a.probe(now)
}
