package gossip

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"weir/scheduling"
)

// roster is the set of live members. memberlist reports changes with its own
// locks held, so the roster never calls memberlist; run calls the subscribers.
type roster struct {
	accepts func(scheduling.ReplicaID) bool

	mu sync.Mutex
	// entries are all that memberlist considers alive. Those that are not accepted are no members.
	entries map[scheduling.ReplicaID]rosterEntry
	// barred are the last addresses of replicas that were not accepted when they died.
	barred      map[scheduling.ReplicaID]netip.AddrPort
	subscribers []*func([]Member)

	members atomic.Pointer[[]Member] // sorted by id, never changed in place
	changed chan struct{}            // holds one element if run has work
}

type rosterEntry struct {
	member   Member
	endpoint netip.AddrPort // where packets to it go
	accepted bool
}

func newRoster(accepts func(scheduling.ReplicaID) bool) *roster {
	r := &roster{
		accepts: accepts,
		entries: make(map[scheduling.ReplicaID]rosterEntry),
		barred:  make(map[scheduling.ReplicaID]netip.AddrPort),
		changed: make(chan struct{}, 1),
	}
	r.members.Store(new([]Member))
	return r
}

func (r *roster) put(entry rosterEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry.accepted = r.accepts(entry.member.ID)
	r.entries[entry.member.ID] = entry
	delete(r.barred, entry.member.ID)
	r.publish()
}

func (r *roster) remove(id scheduling.ReplicaID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if entry, known := r.entries[id]; known && !entry.accepted {
		r.barred[id] = entry.endpoint
	}
	delete(r.entries, id)
	r.publish()
}

// review asks again who is accepted, and returns those that no longer are.
func (r *roster) review() (gone []scheduling.ReplicaID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	for id, entry := range r.entries {
		was := entry.accepted
		if entry.accepted = r.accepts(id); entry.accepted == was {
			continue
		}
		changed = true
		r.entries[id] = entry
		if was {
			gone = append(gone, id)
		}
	}
	maps.DeleteFunc(r.barred, func(id scheduling.ReplicaID, _ netip.AddrPort) bool { return r.accepts(id) })
	if changed {
		r.publish()
	}
	return gone
}

// bars reports whether an address is that of a replica that is not accepted, and of no member.
func (r *roster) bars(endpoint netip.AddrPort) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	barred := false
	for _, entry := range r.entries {
		if entry.endpoint == endpoint {
			if entry.accepted {
				return false
			}
			barred = true
		}
	}
	for _, at := range r.barred {
		barred = barred || at == endpoint
	}
	return barred
}

// publish makes the entries visible. r.mu is held.
func (r *roster) publish() {
	members := make([]Member, 0, len(r.entries))
	for _, entry := range r.entries {
		if entry.accepted {
			members = append(members, entry.member)
		}
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
		if entry.endpoint == endpoint && entry.accepted {
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
