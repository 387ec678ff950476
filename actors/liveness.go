package actors

import (
	"slices"
	"sync"
	"time"

	"weir/cluster"
	"weir/scheduling"
)

// liveness records since when each replica has been unable to control operations, and chooses the
// replica to control an operation. A replica that has just started counts as gone until its state
// has caught up.
type liveness struct {
	self string
	// reached reports whether a replica is reachable from here now. A killed replica is
	// unreachable at once, long before the others agree that it is gone. Self is always reachable.
	reached func(replica string) bool

	mu sync.RWMutex
	// began is when the first view arrived.
	began time.Time
	ready []scheduling.ReplicaID
	// gone maps each replica that has left the view, or is in the view but not ready, to the time
	// when that began.
	gone map[string]time.Time
}

func newLiveness(self string, reached func(replica string) bool) *liveness {
	return &liveness{self: self, reached: reached, gone: map[string]time.Time{}}
}

// observe processes a view of the cluster, and reports whether a replica came or left.
func (l *liveness) observe(now time.Time, view *cluster.View) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = now
	}
	before := l.ready
	l.ready = view.Ready()
	for _, id := range before {
		// A slow reader misses views, so a removed replica may never have appeared as dead.
		if _, known := view.Replica(id); !known {
			l.gone[string(id)] = now
		}
	}
	for _, replica := range view.Replicas {
		id := string(replica.ID)
		_, gone := l.gone[id]
		switch {
		case replica.Ready && gone:
			delete(l.gone, id)
			changed = true
		case !replica.Ready && !gone:
			l.gone[id] = now
			changed = true
		}
	}
	return changed || !slices.Equal(before, l.ready)
}

// Choose implements the Replicas of operations: rendezvous hashing over the replicas that are ready
// and reachable. If no other replica is reachable, the choice is among all that are ready:
// otherwise a new leader whose streams are not up yet would keep all operations to itself.
func (l *liveness) Choose(operationID string) (replica string, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	from, others := l.ready, false
	reached := slices.DeleteFunc(slices.Clone(l.ready), func(id scheduling.ReplicaID) bool {
		can := string(id) == l.self || l.reached(string(id))
		others = others || can && string(id) != l.self
		return !can
	})
	if others {
		from = reached
	}
	chosen := cluster.Assign(operationID, from)
	return string(chosen), chosen != ""
}

// GoneSince implements the Replicas of operations. An unknown replica counts as gone since the
// first view: it was removed before this replica started, or has yet to appear.
func (l *liveness) GoneSince(replica string) time.Time {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if since, gone := l.gone[replica]; gone || slices.Contains(l.ready, scheduling.ReplicaID(replica)) {
		return since
	}
	return l.began
}

// others returns the replicas that are ready, without this one.
func (l *liveness) others() (others []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, id := range l.ready {
		if string(id) != l.self {
			others = append(others, string(id))
		}
	}
	return others
}
