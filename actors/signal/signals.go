package signal

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// Topic is under what signals are gossiped.
const Topic = "interruption"

// Signals is what a replica has heard. It may be read from anywhere; its actor
// alone writes.
type Signals struct {
	*hearsay.Known[*actorpb.InterruptionSignal, *Table]
}

// NewSignals returns a place for what is heard.
func NewSignals(table *Table, now func() time.Time) *Signals {
	return &Signals{hearsay.NewKnown(hearsay.Subject[*actorpb.InterruptionSignal, *Table]{
		Topic: Topic,
		Key:   (*actorpb.InterruptionSignal).GetJobId,
		Sign: func(s *actorpb.InterruptionSignal, by hearsay.Speaker, sequence uint64) {
			s.Origin, s.Incarnation, s.Sequence = by.Replica, by.Incarnation, sequence
		},
		All: func(table *Table, _ time.Time) proto.Message {
			return &actorpb.InterruptionSignals{Signals: table.All()}
		},
		Each: func(all []byte) ([]*actorpb.InterruptionSignal, error) {
			var signals actorpb.InterruptionSignals
			err := proto.Unmarshal(all, &signals)
			return signals.GetSignals(), err
		},
	}, table, now)}
}

// Stopping returns why a job is on its way out; empty: it is not, as far as is
// known here.
func (s *Signals) Stopping(job string) (reason string) {
	s.Read(func(table *Table, _ time.Time) { reason = table.Live(job).GetReason() })
	return reason
}

// Of returns what was heard of the jobs of an operation, in no particular order. It
// is not to be changed.
func (s *Signals) Of(operation string) (signals []*actorpb.InterruptionSignal) {
	s.Read(func(table *Table, _ time.Time) { signals = table.Of(operation) })
	return signals
}

// expire forgets what is over, and returns the operations that it was about.
func (s *Signals) expire() (operations []string) {
	s.Change(func(table *Table, now time.Time) { operations = table.Expire(now) })
	return operations
}
