// Package signal spreads and hears the word that jobs are on their way out.
//
// One actor a replica tells the others by gossip the moment a controller learns
// that a job is to end, before its node has been told and long before the end is
// committed. What it hears is advice: the truth is in the replicated state.
package signal

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

// Table holds the signals that are live, by job.
type Table struct {
	// keep is how long a signal stays after its deadline, and a job that has gone
	// after its end: longer than any replica takes to hear of it.
	keep time.Duration
	// limit bounds the signals; the oldest goes first.
	limit   int
	signals map[string]*entry
	// byOperation has the same signals, by operation and job.
	byOperation map[string]map[string]*actorpb.InterruptionSignal
	// order lists jobs in the order in which they were first heard of.
	order []string
}

type entry struct {
	signal *actorpb.InterruptionSignal
	// forget is when the signal goes.
	forget time.Time
}

// NewTable returns an empty table.
func NewTable(keep time.Duration, limit int) *Table {
	return &Table{keep: keep, limit: limit, signals: map[string]*entry{}, byOperation: map[string]map[string]*actorpb.InterruptionSignal{}}
}

// proposedKeep is how long a signal stays whose order was about to be committed, and of which
// nothing more is heard: far longer than a commit takes.
const proposedKeep = 5 * time.Second

// Add takes a signal, and reports whether it is news: the first one of its job, one
// with an earlier deadline, or the word that the job has gone. What was proposed counts until
// it is committed, or taken back.
func (t *Table) Add(now time.Time, signal *actorpb.InterruptionSignal) bool {
	id := signal.GetJobId()
	if id == "" {
		return false
	}
	forget := now.Add(t.keep)
	switch deadline := signal.GetDeadline().AsTime(); {
	case signal.GetProposed():
		forget = now.Add(proposedKeep)
	case !signal.GetGone() && !signal.GetWithdrawn() && deadline.Add(t.keep).After(forget):
		forget = deadline.Add(t.keep)
	}
	old, known := t.signals[id]
	if known && !replaces(signal, old.signal) {
		return false
	}
	if !known {
		t.order = append(t.order, id)
	}
	t.set(id, &entry{proto.CloneOf(signal), forget})
	for len(t.signals) > t.limit {
		t.drop(t.order[0])
		t.order = t.order[1:]
	}
	return true
}

// replaces reports whether a signal counts more than one that was heard before.
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

func (t *Table) set(job string, e *entry) {
	t.signals[job] = e
	of := t.byOperation[e.signal.GetOperationId()]
	if of == nil {
		of = map[string]*actorpb.InterruptionSignal{}
		t.byOperation[e.signal.GetOperationId()] = of
	}
	of[job] = e.signal
}

func (t *Table) drop(job string) {
	operation := t.signals[job].signal.GetOperationId()
	delete(t.signals, job)
	delete(t.byOperation[operation], job)
	if len(t.byOperation[operation]) == 0 {
		delete(t.byOperation, operation)
	}
}

// Expire forgets what is over, and returns the operations that it was about, each
// once.
func (t *Table) Expire(now time.Time) (operations []string) {
	kept := t.order[:0]
	for _, id := range t.order {
		e := t.signals[id]
		if now.Before(e.forget) {
			kept = append(kept, id)
			continue
		}
		operations = append(operations, e.signal.GetOperationId())
		t.drop(id)
	}
	t.order = kept
	slices.Sort(operations)
	return slices.Compact(operations)
}

// Live returns the signal of a job that is on its way out; nil: none was heard,
// or the job has gone.
func (t *Table) Live(job string) *actorpb.InterruptionSignal {
	if e, ok := t.signals[job]; ok && !e.signal.GetGone() && !e.signal.GetWithdrawn() {
		return e.signal
	}
	return nil
}

// Of returns the signals of the jobs of an operation, in no particular order.
func (t *Table) Of(operation string) (signals []*actorpb.InterruptionSignal) {
	for _, s := range t.byOperation[operation] {
		if !s.GetWithdrawn() {
			signals = append(signals, s)
		}
	}
	return signals
}

// All returns every signal, in the order in which they were heard.
func (t *Table) All() []*actorpb.InterruptionSignal {
	all := make([]*actorpb.InterruptionSignal, len(t.order))
	for i, id := range t.order {
		all[i] = t.signals[id].signal
	}
	return all
}
