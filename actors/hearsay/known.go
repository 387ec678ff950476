// Package hearsay spreads advice among replicas, and keeps what others spread.
//
// Of each subject a replica has one Known, which anybody may read, and one actor, which alone
// adds to it: what is said here (Say) is signed, kept and told to the others by gossip, what
// they say is Heard. A replica that joins, or has missed something, gets all that another one
// knows and keeps what is news. What is heard may be late, come twice or never: the truth is in
// the replicated state.
//
// A Subject decides: which of two messages about one thing counts, and when it is forgotten.
package hearsay

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// Subject says how a subject is spoken of. Its functions are given nil for an earlier message
// where there is none.
type Subject[M proto.Message] struct {
	// Topic is under what it is gossiped.
	Topic string
	// Limit bounds the messages that are kept: of more those are forgotten that were heard of
	// first.
	Limit int
	// Key says what a message is about: on its way a newer one replaces it. Empty: nothing,
	// and it is dropped.
	Key func(M) string
	// Group says with which others it is read.
	Group func(M) string
	// Sign writes into a message who says it, and a number that grows with each one that it says.
	Sign func(said M, by Speaker, sequence uint64)
	// Replaces reports whether a message counts more than an earlier one about the same thing.
	Replaces func(said, earlier M) bool
	// News reports whether it says something else than the earlier one.
	News func(said, earlier M) bool
	// Forget is when a message is forgotten that is heard, or stays, at now.
	Forget func(now time.Time, said M) time.Time
	// Stays reports whether a message is not forgotten, whatever its time. One that no longer
	// stays is not passed on, for one that has forgotten it would keep it again. Nil: none stays.
	Stays func(M) bool
	// All returns the message that is made of others, and Each those of which one is made.
	All  func([]M) proto.Message
	Each func(all []byte) ([]M, error)
}

// Speaker is one life of a replica.
type Speaker struct {
	Replica     string
	Incarnation uint64
}

// Known is what a replica has heard of a subject. It may be used from anywhere.
type Known[M proto.Message] struct {
	subject Subject[M]
	now     func() time.Time

	mu    sync.RWMutex
	heard map[string]*heard[M]
	// groups has the same messages, by group and key.
	groups map[string]map[string]M
	// order lists keys in the order in which they were first heard of.
	order []string
	// sequence numbers what is said here. It outlives an actor that fails.
	sequence uint64
}

type heard[M proto.Message] struct {
	said   M
	forget time.Time
	// over: it did not stay when that was last looked at.
	over bool
}

// NewKnown returns a place for what is heard.
func NewKnown[M proto.Message](subject Subject[M], now func() time.Time) *Known[M] {
	return &Known[M]{subject: subject, now: now, heard: map[string]*heard[M]{}, groups: map[string]map[string]M{}}
}

// Topic is under what it is gossiped.
func (k *Known[M]) Topic() string { return k.subject.Topic }

// Get returns what was heard last of something; nil: nothing. It is not to be changed.
func (k *Known[M]) Get(key string) (said M) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if h := k.heard[key]; h != nil {
		return h.said
	}
	return said
}

// Of returns the messages of a group by what they are about. They are not to be changed.
func (k *Known[M]) Of(group string) map[string]M {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return maps.Clone(k.groups[group])
}

// All returns what is told to a replica that joins, in the order in which it was heard of first.
func (k *Known[M]) All() (all []M) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	now := k.now()
	for _, key := range k.order {
		if h := k.heard[key]; !h.over && now.Before(h.forget) {
			all = append(all, h.said)
		}
	}
	return all
}

// LocalState returns All as one message.
func (k *Known[M]) LocalState() []byte {
	state, err := proto.Marshal(k.subject.All(k.All()))
	if err != nil {
		// Invariant: all of it were messages before.
		panic(fmt.Sprintf("encode all of %s: %v", k.subject.Topic, err))
	}
	return state
}

// Add takes in what is said, and reports whether it is news. It keeps what it is given. What
// would be forgotten at once is not news; another replica may still have it.
func (k *Known[M]) Add(said M) (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, now := k.subject.Key(said), k.now()
	forget := k.subject.Forget(now, said)
	if key == "" || !now.Before(forget) {
		return false
	}
	var earlier M
	if h, known := k.heard[key]; known {
		if earlier = h.said; !k.subject.Replaces(said, earlier) {
			return false
		}
		k.drop(key)
	} else {
		k.order = append(k.order, key)
	}
	k.heard[key] = &heard[M]{said: said, forget: forget}
	group := k.subject.Group(said)
	if k.groups[group] == nil {
		k.groups[group] = map[string]M{}
	}
	k.groups[group][key] = said
	for len(k.heard) > k.subject.Limit {
		k.drop(k.order[0])
		k.order = k.order[1:]
	}
	return k.subject.News(said, earlier)
}

// Expire forgets what is over, and returns what of it is news.
func (k *Known[M]) Expire() (news []M) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var none M
	now, kept := k.now(), k.order[:0]
	for _, key := range k.order {
		h := k.heard[key]
		if k.subject.Stays != nil {
			if h.over = !k.subject.Stays(h.said); !h.over {
				h.forget = k.subject.Forget(now, h.said)
			}
		}
		if now.Before(h.forget) {
			kept = append(kept, key)
			continue
		}
		k.drop(key)
		if k.subject.News(none, h.said) {
			news = append(news, h.said)
		}
	}
	k.order = kept
	return news
}

// drop forgets a message, but for its place in the order.
func (k *Known[M]) drop(key string) {
	group := k.subject.Group(k.heard[key].said)
	delete(k.heard, key)
	delete(k.groups[group], key)
	if len(k.groups[group]) == 0 {
		delete(k.groups, group)
	}
}

func (k *Known[M]) sign(said M, by Speaker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sequence++
	k.subject.Sign(said, by, k.sequence)
}

// decode returns what a payload says: one message, or with full all that another knows.
func (k *Known[M]) decode(payload []byte, full bool) ([]M, error) {
	if full {
		return k.subject.Each(payload)
	}
	var none M
	one := none.ProtoReflect().New().Interface().(M)
	return []M{one}, proto.Unmarshal(payload, one)
}
