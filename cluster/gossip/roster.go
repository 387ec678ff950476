package gossip

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"weir/scheduling"
)

// roster is the set of live members. memberlist reports changes with its own
// locks held, so the roster never calls memberlist; run calls the subscribers.
type roster struct {
	mu          sync.Mutex
	entries     map[scheduling.ReplicaID]rosterEntry
	subscribers []*func([]Member)

	members atomic.Pointer[[]Member] // sorted by id, never changed in place
	changed chan struct{}            // holds one element if run has work
}

type rosterEntry struct {
	member   Member
	endpoint netip.AddrPort // where packets to it go
}

func newRoster() *roster {
	r := &roster{
		entries: make(map[scheduling.ReplicaID]rosterEntry),
		changed: make(chan struct{}, 1),
	}
	r.members.Store(new([]Member))
	return r
}

func (r *roster) put(entry rosterEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[entry.member.ID] = entry
	r.publish()
}

func (r *roster) remove(id scheduling.ReplicaID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entries, id)
	r.publish()
}

// publish makes the entries visible. r.mu is held.
func (r *roster) publish() {
	members := make([]Member, 0, len(r.entries))
	for _, entry := range r.entries {
		members = append(members, entry.member)
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	r.members.Store(&members)
	r.wake()
}

func (r *roster) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// size returns the number of members.
func (r *roster) size() int { return len(*r.members.Load()) }

// at returns whether a member receives its packets at endpoint.
func (r *roster) at(endpoint netip.AddrPort) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, entry := range r.entries {
		if entry.endpoint == endpoint {
			return true
		}
	}
	return false
}

// subscribe makes run call f with the members now and after each change.
func (r *roster) subscribe(f func([]Member)) (cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers = append(r.subscribers, &f)
	r.wake()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.subscribers = slices.DeleteFunc(r.subscribers, func(other *func([]Member)) bool { return other == &f })
	}
}

// run calls the subscribers until ctx ends. Changes in quick succession are
// reported as one.
func (r *roster) run(ctx context.Context) {
	for {
		select {
		case <-r.changed:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		calls := slices.Clone(r.subscribers)
		r.mu.Unlock()
		for _, call := range calls {
			(*call)(slices.Clone(*r.members.Load()))
		}
	}
}
