// Package hearsay spreads advice among replicas, and keeps what others spread.
//
// Of each subject a replica has one Known, which anybody may read, and one actor, which alone
// adds to it: what is said here (Say) is signed, kept and told to the others by gossip, what
// they say is Heard. A replica that joins, or has missed something, gets all that another one
// knows and keeps what is news. What is heard may be late, come twice or never: the truth is in
// the replicated state.
//
// A subject is a message and a Table that decides: which of two words about one thing counts,
// and when it is forgotten.
package hearsay

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// Table is what is known of a subject. One goroutine at a time changes it, while none reads.
type Table[M proto.Message] interface {
	// Add takes in what is said, and reports whether it is news. It keeps what it was given.
	Add(now time.Time, said M) (news bool)
}

// Subject says how a subject is spoken of.
type Subject[M proto.Message, T Table[M]] struct {
	// Topic is under what it is gossiped.
	Topic string
	// Key says what a message is about: on its way a newer one replaces it.
	Key func(M) string
	// Sign writes into a message who says it, and a number that grows with each one that it says.
	Sign func(said M, by Speaker, sequence uint64)
	// All returns what is to be told to who knows nothing, and Each the messages of that.
	All  func(table T, now time.Time) proto.Message
	Each func(all []byte) ([]M, error)
}

// Speaker is one life of a replica.
type Speaker struct {
	Replica     string
	Incarnation uint64
}

// Known is what a replica has heard of a subject. It may be used from anywhere.
type Known[M proto.Message, T Table[M]] struct {
	subject Subject[M, T]
	now     func() time.Time

	mu    sync.RWMutex
	table T
	// sequence numbers what is said here. It outlives an actor that fails.
	sequence uint64
}

// NewKnown returns a place for what is heard, as table has it.
func NewKnown[M proto.Message, T Table[M]](subject Subject[M, T], table T, now func() time.Time) *Known[M, T] {
	return &Known[M, T]{subject: subject, table: table, now: now}
}

// Read lets look read the table.
func (k *Known[M, T]) Read(look func(table T, now time.Time)) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	look(k.table, k.now())
}

// Change lets change write to the table.
func (k *Known[M, T]) Change(change func(table T, now time.Time)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k.table, k.now())
}

// LocalState returns all that is known here, for a replica that joins.
func (k *Known[M, T]) LocalState() (state []byte) {
	k.Change(func(table T, now time.Time) {
		var err error
		if state, err = proto.Marshal(k.subject.All(table, now)); err != nil {
			// Invariant: all of it were messages before.
			panic(fmt.Sprintf("encode all of %s: %v", k.subject.Topic, err))
		}
	})
	return state
}

func (k *Known[M, T]) sign(said M, by Speaker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sequence++
	k.subject.Sign(said, by, k.sequence)
}

func (k *Known[M, T]) add(said M) (news bool) {
	k.Change(func(table T, now time.Time) { news = table.Add(now, said) })
	return news
}

// decode returns what a payload says: one message, or with full all that another knows.
func (k *Known[M, T]) decode(payload []byte, full bool) ([]M, error) {
	if full {
		return k.subject.Each(payload)
	}
	var none M
	one := none.ProtoReflect().New().Interface().(M)
	return []M{one}, proto.Unmarshal(payload, one)
}
