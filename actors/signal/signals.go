// Package signal has the subjects of which replicas tell each other about jobs and nodes:
// that jobs are on their way out, whether instances take requests, and which nodes are unheard.
//
// A replica tells the others by gossip the moment it learns that a job is to end, before its
// node has been told and long before the end is committed. What it hears is advice: the truth
// is in the replicated state.
package signal

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

type (
	// Interrupt announces a signal of this replica.
	Interrupt = hearsay.Say[*actorpb.InterruptionSignal]
	// Learn brings signals that every replica has from its own log.
	Learn = hearsay.Learn[*actorpb.InterruptionSignal]
)

// Topic is under what signals are gossiped.
const Topic = "interruption"

// Signals is what a replica has heard of jobs on their way out. It may be read from anywhere;
// its actor alone writes.
type Signals struct {
	*hearsay.Known[*actorpb.InterruptionSignal]
}

// proposedKeep is how long a signal stays whose order was about to be committed, and of which
// nothing more is heard: far longer than a commit takes.
const proposedKeep = 5 * time.Second

// NewSignals returns a place for so many signals, one a job. One stays for keep after its
// deadline, and for as long after the end of a job that has gone: longer than any replica takes
// to hear of it.
func NewSignals(keep time.Duration, limit int, now func() time.Time) *Signals {
	return &Signals{hearsay.NewKnown(hearsay.Subject[*actorpb.InterruptionSignal]{
		Topic: Topic, Limit: limit,
		Key: (*actorpb.InterruptionSignal).GetJobId, Group: (*actorpb.InterruptionSignal).GetOperationId,
		Sign: func(s *actorpb.InterruptionSignal, by hearsay.Speaker, sequence uint64) {
			s.Origin, s.Incarnation, s.Sequence = by.Replica, by.Incarnation, sequence
		},
		Replaces: replaces,
		News:     func(_, _ *actorpb.InterruptionSignal) bool { return true },
		Forget: func(now time.Time, s *actorpb.InterruptionSignal) time.Time {
			forget, deadline := now.Add(keep), s.GetDeadline().AsTime().Add(keep)
			switch {
			case s.GetProposed():
				return now.Add(proposedKeep)
			case !s.GetGone() && !s.GetWithdrawn() && deadline.After(forget):
				return deadline
			}
			return forget
		},
		All: func(all []*actorpb.InterruptionSignal) proto.Message {
			return &actorpb.InterruptionSignals{Signals: all}
		},
		Each: func(all []byte) ([]*actorpb.InterruptionSignal, error) {
			var signals actorpb.InterruptionSignals
			err := proto.Unmarshal(all, &signals)
			return signals.GetSignals(), err
		},
	}, now)}
}

// replaces reports whether a signal counts more than one that was heard before: one with an
// earlier deadline, or the word that the job has gone. What was proposed counts until it is
// committed, or taken back.
func replaces(signal, old *actorpb.InterruptionSignal) bool {
	sooner := signal.GetDeadline().AsTime().Before(old.GetDeadline().AsTime())
	latter := signal.GetOrigin() != old.GetOrigin() || signal.GetIncarnation() != old.GetIncarnation() || signal.GetSequence() > old.GetSequence()
	switch {
	case old.GetGone():
		return false
	case signal.GetGone():
		return true
	case signal.GetWithdrawn():
		return old.GetProposed() && latter
	case signal.GetProposed():
		return old.GetWithdrawn() && latter
	case old.GetProposed(), old.GetWithdrawn():
		return true
	}
	return sooner
}

// Stopping returns why a job is on its way out; empty: it is not, as far as is
// known here, or it has gone.
func (s *Signals) Stopping(job string) (reason string) {
	if signal := s.Get(job); !signal.GetGone() && !signal.GetWithdrawn() {
		return signal.GetReason()
	}
	return ""
}

// OfOperation returns what was heard of the jobs of an operation, in no particular order. It
// is not to be changed.
func (s *Signals) OfOperation(operation string) (signals []*actorpb.InterruptionSignal) {
	for _, signal := range s.Of(operation) {
		if !signal.GetWithdrawn() {
			signals = append(signals, signal)
		}
	}
	return signals
}
