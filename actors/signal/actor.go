package signal

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

// Gossip carries small messages to every replica, most of the time.
type Gossip interface {
	// Broadcast replaces an earlier message with the same key that has not been
	// sent yet.
	Broadcast(key string, payload []byte) error
}

// Config is what a signal actor works with.
type Config struct {
	// Replica and Incarnation say who sends.
	Replica     string
	Incarnation uint64
	Gossip      Gossip
	// News is told of the operation of each signal that is new, or forgotten, on the
	// actor's goroutine.
	News func(operation string)
	// ExpireEvery is the period in which old signals are forgotten.
	ExpireEvery time.Duration
	Now         func() time.Time
	Logger      *slog.Logger
}

// Signals is what a replica has heard. It may be read from anywhere; its actor
// alone writes.
type Signals struct {
	mu    sync.RWMutex
	table *Table
}

// NewSignals returns a place for what is heard.
func NewSignals(table *Table) *Signals { return &Signals{table: table} }

// Stopping returns why a job is on its way out; empty: it is not, as far as is
// known here.
func (s *Signals) Stopping(job string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Live(job).GetReason()
}

// Of returns what was heard of the jobs of an operation, in no particular order. It
// is not to be changed.
func (s *Signals) Of(operation string) []*actorpb.InterruptionSignal {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Of(operation)
}

// LocalState returns all that is known here, for a replica that joins.
func (s *Signals) LocalState() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	data, err := proto.Marshal(&actorpb.InterruptionSignals{Signals: s.table.All()})
	if err != nil {
		// Invariant: every signal was a message before.
		panic(fmt.Sprintf("encode interruption signals: %v", err))
	}
	return data
}

// Interrupt announces a signal of this replica.
type Interrupt struct{ Signal *actorpb.InterruptionSignal }

// Heard brings a signal, or the whole of what another replica knows.
type Heard struct {
	Payload []byte
	// Full: the payload is what another replica knows.
	Full bool
}

type tick struct{}

// New returns the producer of a replica's signal actor, which writes to signals.
func New(cfg Config, signals *Signals) actor.Producer {
	return func() actor.Actor { return &signalActor{cfg: cfg, signals: signals} }
}

type signalActor struct {
	cfg      Config
	signals  *Signals
	sequence uint64
	timer    *time.Timer
}

// Receive implements actor.Actor.
func (a *signalActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.arm(ctx)
	case Interrupt:
		a.interrupt(m.Signal)
	case Heard:
		a.heard(m)
	case tick:
		a.signals.mu.Lock()
		forgotten := a.signals.table.Expire(a.cfg.Now())
		a.signals.mu.Unlock()
		for _, operation := range forgotten {
			a.cfg.News(operation)
		}
		a.arm(ctx)
	case *actor.Stopping, *actor.Restarting:
		if a.timer != nil {
			a.timer.Stop()
		}
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The rest of the life cycle needs no work here.
	default:
		a.cfg.Logger.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
	}
}

func (a *signalActor) interrupt(signal *actorpb.InterruptionSignal) {
	a.sequence++
	signal = proto.CloneOf(signal)
	signal.Origin, signal.Incarnation, signal.Sequence = a.cfg.Replica, a.cfg.Incarnation, a.sequence
	if !a.add(signal) {
		return
	}
	payload, err := proto.Marshal(signal)
	if err == nil {
		err = a.cfg.Gossip.Broadcast(signal.GetJobId(), payload)
	}
	if err != nil {
		a.cfg.Logger.Warn("interruption signal was not sent", "job", signal.GetJobId(), "error", err)
	}
}

func (a *signalActor) heard(m Heard) {
	if !m.Full {
		signal := new(actorpb.InterruptionSignal)
		if err := proto.Unmarshal(m.Payload, signal); err != nil {
			a.cfg.Logger.Warn("interruption signal was not understood", "error", err)
			return
		}
		a.add(signal)
		return
	}
	var all actorpb.InterruptionSignals
	if err := proto.Unmarshal(m.Payload, &all); err != nil {
		a.cfg.Logger.Warn("interruption signals were not understood", "error", err)
		return
	}
	for _, signal := range all.GetSignals() {
		a.add(signal)
	}
}

func (a *signalActor) add(signal *actorpb.InterruptionSignal) bool {
	a.signals.mu.Lock()
	news := a.signals.table.Add(a.cfg.Now(), signal)
	a.signals.mu.Unlock()
	if news {
		a.cfg.News(signal.GetOperationId())
	}
	return news
}

func (a *signalActor) arm(ctx actor.Context) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.timer = time.AfterFunc(a.cfg.ExpireEvery, func() { root.Send(self, tick{}) })
}
