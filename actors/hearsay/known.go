// Package hearsay spreads advisory messages among replicas, and keeps the messages of other
// replicas.
//
// For each subject a replica has one Known, which any goroutine may read, and one actor, its only
// writer. Messages of this replica (Say) are signed, stored and broadcast by gossip; messages of
// other replicas arrive as Heard. A replica that joins, or has missed messages, gets all that
// another replica knows, and keeps the messages that are new to it. Messages may be late, come
// twice or never. They are only advice: the replicated state is authoritative.
//
// A Subject decides which of two messages about one thing counts, and when a message is forgotten.
package hearsay

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// Subject defines the messages of a subject. Its functions get nil for an earlier message if there
// is none.
type Subject[M proto.Message] struct {
	// Topic is the gossip topic.
	Topic string
	// Limit bounds the messages that are kept. Above that number, messages of the groups that have
	// most are forgotten, those first whose keys were heard first: no group costs a smaller one its
	// messages.
	Limit int
	// Key returns the thing that a message is about; a newer message replaces an unsent one of the
	// same key. A message with an empty key is dropped.
	Key func(M) string
	// Group returns the group that a message is read with.
	Group func(M) string
	// Sign writes the speaker and its sequence number, which grows with each message, into a
	// message.
	Sign func(said M, by Speaker, sequence uint64)
	// Replaces reports whether a message supersedes an earlier one about the same thing.
	Replaces func(said, earlier M) bool
	// News reports whether a message says something different from the earlier one.
	News func(said, earlier M) bool
	// Forget returns when to forget a message. `now` is when the message was heard, or was last found
	// to stay.
	Forget func(now time.Time, said M) time.Time
	// Stays reports whether a message is kept regardless of its time. A message that no longer stays
	// is not passed on, because a replica that has forgotten it would store it again. If Stays is nil,
	// no message stays.
	Stays func(M) bool
	// All combines messages into one, and Each splits such a message.
	All  func([]M) proto.Message
	Each func(all []byte) ([]M, error)
}

// ListIn returns a Subject.Each for messages of a type that contains a list.
func ListIn[T any, M interface {
	*S
	proto.Message
}, S any](list func(M) []T) func(all []byte) ([]T, error) {
	return func(all []byte) ([]T, error) {
		m := M(new(S))
		err := proto.Unmarshal(all, m)
		return list(m), err
	}
}

// Speaker is one process of a replica.
type Speaker struct {
	Replica     string
	Incarnation uint64
}

// Known holds the messages of a subject that a replica has heard. It is safe for concurrent use.
type Known[M proto.Message] struct {
	subject Subject[M]
	now     func() time.Time

	mu    sync.RWMutex
	heard map[string]*heard[M]
	// groups holds the same messages by group and key.
	groups map[string]map[string]M
	// order lists keys in the order in which they were first heard.
	order []string
	// sequence numbers the messages of this replica. It is kept when the actor fails and is
	// restarted.
	sequence uint64
}

type heard[M proto.Message] struct {
	said   M
	forget time.Time
	// over means that Stays was false for the message at the last check.
	over bool
}

// NewKnown returns an empty Known.
func NewKnown[M proto.Message](subject Subject[M], now func() time.Time) *Known[M] {
	return &Known[M]{subject: subject, now: now, heard: map[string]*heard[M]{}, groups: map[string]map[string]M{}}
}

// Topic returns the gossip topic.
func (k *Known[M]) Topic() string { return k.subject.Topic }

// Get returns the latest message about something, or nil. The message must not be changed.
func (k *Known[M]) Get(key string) (said M) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if h := k.heard[key]; h != nil {
		return h.said
	}
	return said
}

// Of returns the messages of a group by key. They must not be changed.
func (k *Known[M]) Of(group string) map[string]M {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return maps.Clone(k.groups[group])
}

// All returns the messages for a replica that joins, in the order in which their keys were first
// heard.
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
		// Invariant: all of them are valid messages.
		panic(fmt.Sprintf("encode all of %s: %v", k.subject.Topic, err))
	}
	return state
}

// Add stores a message without copying it, and reports whether it is news. A message that would be
// forgotten at once is not news; another replica may still have it.
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
	if len(k.heard) > k.subject.Limit {
		k.makeRoom(k.subject.Limit - k.subject.Limit/64)
	}
	return k.subject.News(said, earlier)
}

// makeRoom forgets messages until there are no more than `keep`. That is less than the limit, so that
// few messages need this.
func (k *Known[M]) makeRoom(keep int) {
	most, kept := k.share(keep), k.order[:0]
	for _, key := range k.order {
		if len(k.heard) > keep && len(k.groups[k.subject.Group(k.heard[key].said)]) > most {
			k.drop(key)
			continue
		}
		kept = append(kept, key)
	}
	k.order = kept
}

// share returns how many messages each group may have, if it has so many, for all together to have
// no more than `keep`.
func (k *Known[M]) share(keep int) int {
	sizes := make([]int, 0, len(k.groups))
	for _, group := range k.groups {
		sizes = append(sizes, len(group))
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if each := keep / (len(sizes) - i); size > each {
			return each
		}
		keep -= size
	}
	return keep
}

// Expire forgets outdated messages, and returns those whose expiry is news.
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

// drop removes a message, but leaves its key in the field `order`.
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

// decode returns the messages of a payload: one or, if full is set, all that another replica knows.
func (k *Known[M]) decode(payload []byte, full bool) ([]M, error) {
	if full {
		return k.subject.Each(payload)
	}
	var none M
	one := none.ProtoReflect().New().Interface().(M)
	return []M{one}, proto.Unmarshal(payload, one)
}
