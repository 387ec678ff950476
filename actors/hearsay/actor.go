package hearsay

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/reconcile"
)

// Gossip broadcasts to all other replicas, without a guarantee of delivery. A newer message with
// the same key replaces one that has not been sent yet.
type Gossip interface {
	Broadcast(key string, payload []byte) error
}

// Config is the configuration of a subject's actor.
type Config[M proto.Message] struct {
	Self   Speaker
	Gossip Gossip
	// News is called on the actor's goroutine for each message that is news when it arrives, or
	// whose expiry is news.
	News func(M)
	// ExpireEvery is the period at which outdated messages are forgotten.
	ExpireEvery time.Duration
	Logger      *slog.Logger
}

// Say broadcasts a message of this replica.
type Say[M proto.Message] struct{ Said M }

// Learn adds messages without broadcasting them, because every replica derives them by itself.
type Learn[M proto.Message] struct{ All []M }

// Heard is a payload from another replica.
type Heard struct {
	Payload []byte
	// Full means that the payload is all that the other replica knows.
	Full bool
}

// String describes the message for logs, such as those of late messages.
func (h Heard) String() string { return fmt.Sprintf("hearsay, %d bytes", len(h.Payload)) }

// New returns the producer of the actor, the only writer of known.
func New[M proto.Message](cfg Config[M], known *Known[M]) actor.Producer {
	return reconcile.Live(cfg.Logger, func(life *reconcile.Life) reconcile.Body { return &speaker[M]{cfg: cfg, known: known, life: life} })
}

type speaker[M proto.Message] struct {
	cfg   Config[M]
	known *Known[M]
	life  *reconcile.Life
	timer reconcile.Timer
}

// Start implements reconcile.Body.
func (s *speaker[M]) Start() { s.life.After(&s.timer, s.cfg.ExpireEvery, s.expire) }

// Take implements reconcile.Body.
func (s *speaker[M]) Take(message any) bool {
	switch m := message.(type) {
	case Say[M]:
		s.say(m.Said)
	case Learn[M]:
		for _, learned := range m.All {
			s.add(learned)
		}
	case Heard:
		s.heard(m)
	default:
		return false
	}
	return true
}

// Stop implements reconcile.Body.
func (s *speaker[M]) Stop() {}

func (s *speaker[M]) expire() {
	for _, forgotten := range s.known.Expire() {
		s.cfg.News(forgotten)
	}
	s.Start()
}

func (s *speaker[M]) say(said M) {
	said = proto.CloneOf(said)
	s.known.sign(said, s.cfg.Self)
	if !s.add(said) {
		return
	}
	payload, err := proto.Marshal(said)
	if err == nil {
		err = s.cfg.Gossip.Broadcast(s.known.subject.Key(said), payload)
	}
	if err != nil {
		s.cfg.Logger.Warn("gossip message not sent", "topic", s.known.subject.Topic, "error", err)
	}
}

func (s *speaker[M]) heard(m Heard) {
	all, err := s.known.decode(m.Payload, m.Full)
	if err != nil {
		s.cfg.Logger.Warn("unreadable gossip message", "topic", s.known.subject.Topic, "error", err)
		return
	}
	for _, said := range all {
		s.add(said)
	}
}

func (s *speaker[M]) add(said M) bool {
	news := s.known.Add(said)
	if news {
		s.cfg.News(said)
	}
	return news
}
