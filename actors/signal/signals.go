// Package signal defines the subjects about jobs and nodes that replicas gossip about: jobs that
// are leaving, instances that accept requests, and nodes that are unheard.
//
// A replica broadcasts that a job has to end as soon as the replica knows it, before the job's node
// does and long before the end is committed. The messages are only advice: the replicated state is
// authoritative.
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
	// Learn adds signals that every replica derives from its own log.
	Learn = hearsay.Learn[*actorpb.InterruptionSignal]
)

// Topic is the gossip topic of signals.
const Topic = "interruption"

// Signals holds the signals of leaving jobs that a replica has heard. It is safe to read from any
// goroutine; only its actor writes.
type Signals struct {
	*hearsay.Known[*actorpb.InterruptionSignal]
}

// proposedKeep is how long a signal that was sent before its order was committed is kept, if no
// other signal follows. It is far longer than a commit takes.
const proposedKeep = 5 * time.Second

// NewSignals returns a Signals for `limit` signals, one per job. A signal is kept for the duration
// `keep` after its deadline, or after the end of a job that has gone. `keep` is longer than any
// replica takes to hear of the deadline or the end.
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
		Each: hearsay.ListIn((*actorpb.InterruptionSignals).GetSignals),
	}, now)}
}

// replaces reports whether a signal supersedes an earlier one: it does if its deadline is earlier
// or the job has gone. A proposed signal counts until its order is committed or the signal is
// withdrawn.
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

// Stopping returns why a job is leaving; empty if the job has gone or, as far as this replica
// knows, is not leaving.
func (s *Signals) Stopping(job string) (reason string) {
	if signal := s.Get(job); !signal.GetGone() && !signal.GetWithdrawn() {
		return signal.GetReason()
	}
	return ""
}

// OfOperation returns the signals of the jobs of an operation, in no particular order. They must
// not be changed.
func (s *Signals) OfOperation(operation string) (signals []*actorpb.InterruptionSignal) {
	for _, signal := range s.Of(operation) {
		if !signal.GetWithdrawn() {
			signals = append(signals, signal)
		}
	}
	return signals
}
